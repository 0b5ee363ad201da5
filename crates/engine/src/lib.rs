//! Tintype's engine: weight files, tokenizers, model families, samplers and pipelines.
//! It must not know HTTP, flags or windows; a host calls it.
#![deny(unsafe_code)]

mod families;
pub mod image;
mod nn;
pub mod quant;
pub mod sampling;
pub mod tokenizer;
pub mod weights;

pub use image::{ImageError, ImageModel, ImageRequest, ImageResult};
pub use tintype_gpu::DType;

/// The examples of README.md are compiled as tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
