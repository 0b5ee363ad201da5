//! The contract's device, in terms of the other files.

use std::sync::Arc;
use std::time::Duration;

use super::gpu::Gpu;
use super::memory::MetalMemory;
use super::pipeline::MetalPipeline;
use super::submit::{MetalPass, download, upload};
use crate::backend::{
    BackendDevice, BackendMemory, BackendPass, BackendPipeline, Command, Compiled, EncodeOptions,
    Placement,
};
use crate::device::{DeviceInfo, MemoryInfo};
use crate::error::Result;
use crate::memory::HostMemory;

/// An open Metal device.
pub(super) struct MetalDevice {
    gpu: Arc<Gpu>,
}

impl MetalDevice {
    pub(super) fn new(gpu: Arc<Gpu>) -> Self {
        MetalDevice { gpu }
    }
}

impl BackendDevice for MetalDevice {
    fn info(&self) -> &DeviceInfo {
        self.gpu.info()
    }

    fn memory(&self) -> MemoryInfo {
        self.gpu.memory()
    }

    fn allocate(&self, bytes: u64, placement: Placement) -> Result<Box<dyn BackendMemory>> {
        Ok(Box::new(MetalMemory::allocate(&self.gpu, bytes, placement)?))
    }

    fn import(&self, host: Arc<dyn HostMemory>) -> Result<Box<dyn BackendMemory>> {
        Ok(Box::new(MetalMemory::import(&self.gpu, host)?))
    }

    fn compile(&self, source: &Compiled<'_>) -> Result<Box<dyn BackendPipeline>> {
        Ok(Box::new(MetalPipeline::compile(&self.gpu, source)?))
    }

    fn encode(
        &self,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Box<dyn BackendPass>> {
        Ok(Box::new(MetalPass::encode(&self.gpu, commands, options)?))
    }

    fn upload(&self, memory: &dyn BackendMemory, offset: u64, bytes: &[u8]) -> Result<()> {
        upload(&self.gpu, memory, offset, bytes)
    }

    fn download(&self, memory: &dyn BackendMemory, offset: u64, bytes: &mut [u8]) -> Result<()> {
        download(&self.gpu, memory, offset, bytes)
    }

    fn drain(&self, timeout: Duration) -> Result<bool> {
        self.gpu.drain(timeout)
    }
}
