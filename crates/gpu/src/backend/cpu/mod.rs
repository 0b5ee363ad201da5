//! The CPU backend: kernels are Rust functions over disjoint parts of their outputs, run on all
//! cores between barriers, or in a hostile order from a seed.

mod adversary;
mod device;
mod encoder;
mod memory;
mod pipeline;
mod submit;
mod unit;

pub(crate) use device::{CpuDevice, enumerate};
pub use unit::{Rows, Unit, UnitError};
