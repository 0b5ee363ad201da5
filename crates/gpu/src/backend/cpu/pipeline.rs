//! A CPU "pipeline": the kernel's Rust function. Nothing is compiled.

use std::any::Any;

use crate::backend::BackendPipeline;
use crate::kernel::CpuFn;

/// A runnable kernel.
pub(crate) struct CpuPipeline {
    /// Computes one unit.
    pub(crate) run: CpuFn,
}

impl BackendPipeline for CpuPipeline {
    fn as_any(&self) -> &dyn Any {
        self
    }
}
