//! The contract's device, in terms of the other files.

use std::sync::Arc;
use std::time::Duration;

use super::gpu::Gpu;
use super::memory::VulkanMemory;
use super::pipeline::VulkanPipeline;
use super::submit::{VulkanPass, download, upload};
use crate::backend::{
    BackendDevice, BackendMemory, BackendPass, BackendPipeline, Command, Compiled, EncodeOptions,
    Placement,
};
use crate::device::{DeviceInfo, MemoryInfo};
use crate::error::Result;
use crate::memory::HostMemory;

/// An open Vulkan device.
pub(super) struct VulkanDevice {
    gpu: Arc<Gpu>,
}

impl VulkanDevice {
    pub(super) fn new(gpu: Arc<Gpu>) -> Self {
        VulkanDevice { gpu }
    }
}

impl BackendDevice for VulkanDevice {
    fn info(&self) -> &DeviceInfo {
        self.gpu.info()
    }

    fn memory(&self) -> MemoryInfo {
        self.gpu.memory()
    }

    fn allocate(&self, bytes: u64, placement: Placement) -> Result<Box<dyn BackendMemory>> {
        Ok(Box::new(VulkanMemory::allocate(&self.gpu, bytes, placement)?))
    }

    fn import(&self, host: Arc<dyn HostMemory>) -> Result<Box<dyn BackendMemory>> {
        Ok(Box::new(VulkanMemory::import(&self.gpu, host)?))
    }

    fn compile(&self, source: &Compiled<'_>) -> Result<Box<dyn BackendPipeline>> {
        Ok(Box::new(VulkanPipeline::compile(&self.gpu, source)?))
    }

    fn encode(&self, commands: &[Command], options: &EncodeOptions) -> Result<Box<dyn BackendPass>> {
        Ok(Box::new(VulkanPass::encode(&self.gpu, commands, options)?))
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

    fn save_cache(&self) -> Result<()> {
        self.gpu.save_cache()
    }
}
