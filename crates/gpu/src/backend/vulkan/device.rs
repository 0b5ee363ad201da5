//! The contract's device, in terms of the other files.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::gpu::Gpu;
use super::memory::{VulkanMemory, own};
use super::pipeline::VulkanPipeline;
use super::submit::VulkanPass;
use super::transfer::Transfer;
use crate::backend::{
    BackendDevice, BackendMemory, BackendPass, BackendPipeline, Command, Compiled, EncodeOptions,
    Placement,
};
use crate::device::{DeviceInfo, MemoryInfo};
use crate::error::Result;
use crate::memory::{HostMemory, lock};

/// An open Vulkan device.
pub(super) struct VulkanDevice {
    transfer: Mutex<Transfer>,
    gpu: Arc<Gpu>,
}

impl VulkanDevice {
    pub(super) fn new(gpu: Arc<Gpu>) -> Result<Self> {
        Ok(VulkanDevice { transfer: Mutex::new(Transfer::new(&gpu)?), gpu })
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

    fn encode(
        &self,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Box<dyn BackendPass>> {
        Ok(Box::new(VulkanPass::encode(&self.gpu, commands, options)?))
    }

    fn upload(&self, memory: &dyn BackendMemory, offset: u64, bytes: &[u8]) -> Result<()> {
        let memory = own(memory)?;
        if let Some(pointer) = memory.host_pointer() {
            // SAFETY: the front checked range and exclusive use; mapped memory is coherent.
            unsafe {
                let pointer = pointer.add(offset as usize);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len());
            }
            return Ok(());
        }
        lock(&self.transfer).upload(memory, offset, bytes)
    }

    fn download(&self, memory: &dyn BackendMemory, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let memory = own(memory)?;
        if let Some(pointer) = memory.host_pointer() {
            // SAFETY: the front checked the range and that nothing writes it.
            unsafe {
                let pointer = pointer.add(offset as usize);
                std::ptr::copy_nonoverlapping(pointer, bytes.as_mut_ptr(), bytes.len());
            }
            return Ok(());
        }
        lock(&self.transfer).download(memory, offset, bytes)
    }

    fn drain(&self, timeout: Duration) -> Result<bool> {
        self.gpu.drain(timeout)
    }

    fn save_cache(&self) -> Result<()> {
        self.gpu.save_cache()
    }
}
