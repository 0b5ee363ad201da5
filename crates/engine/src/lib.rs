//! Tintype's engine: weight files, tokenizers, model families, samplers and pipelines.
//! It must not know HTTP, flags or windows; a host calls it.
#![deny(unsafe_code)]

pub mod quant;
pub mod sampling;
pub mod tokenizer;
pub mod weights;

pub use tintype_gpu::DType;
