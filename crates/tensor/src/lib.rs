//! Tensors and the operations that diffusion and language models compute, each recorded into a
//! [`tintype_gpu::Session`]. An operation is a folder under [`ops`]: its shape checks and dispatch,
//! its WGSL kernel, its CPU kernel, its float64 reference and its cases. A [`graph`] puts operations
//! together; its plan runs them.
//!
//! This crate knows neither files nor models.

#![deny(unsafe_code)]

mod error;
mod layout;
mod number;
#[allow(unsafe_code)]
mod simd;
mod tensor;

pub mod graph;
pub mod ops;
pub mod quant;

pub use error::{Error, Result};
pub use tensor::{MAX_RANK, Tensor};
