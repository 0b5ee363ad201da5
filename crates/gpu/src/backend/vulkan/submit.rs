//! Submissions and their fences; copies between host and device memory.

use std::sync::Arc;
use std::time::Duration;

use ash::vk;

use super::encoder::Recording;
use super::failed;
use super::gpu::Gpu;
use super::memory::{VulkanMemory, own};
use super::physical::Physical;
use crate::backend::{
    BackendMemory, BackendPass, Command, DispatchTime, EncodeOptions, Placement,
};
use crate::error::{Error, Result};
use crate::memory::lock;

/// Bytes of the staging buffer: copies larger than it go in pieces.
const STAGING: u64 = 32 << 20;
/// How long a copy may take before the device is called lost.
const COPY_PATIENCE: Duration = Duration::from_secs(60);

/// An encoded pass with its fence.
pub(super) struct VulkanPass {
    recording: Recording,
    fence: vk::Fence,
    submitted: bool,
}

impl VulkanPass {
    pub(super) fn encode(
        gpu: &Arc<Gpu>,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Self> {
        let recording = Recording::record(gpu, commands, options)?;
        // SAFETY: the device is alive.
        let fence = unsafe { gpu.device.create_fence(&Default::default(), None) }
            .map_err(gpu.fail("vkCreateFence"))?;
        Ok(VulkanPass { recording, fence, submitted: false })
    }
}

impl BackendPass for VulkanPass {
    fn submit(&mut self) -> Result<()> {
        let gpu = &self.recording.gpu;
        let buffers = [self.recording.commands];
        let submits = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: the front submits a pass only when it is not in flight, so fence and command
        // buffer are free.
        unsafe { gpu.device.reset_fences(&[self.fence]) }.map_err(gpu.fail("vkResetFences"))?;
        let queue = lock(&gpu.queue);
        // SAFETY: as above, and the queue is held.
        unsafe { gpu.device.queue_submit(*queue, &submits, self.fence) }
            .map_err(gpu.fail("vkQueueSubmit"))?;
        self.submitted = true;
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool> {
        if !self.submitted {
            return Ok(true);
        }
        self.recording.gpu.wait(self.fence, timeout)
    }

    fn timings(&mut self) -> Result<Option<Vec<DispatchTime>>> {
        let recording = &self.recording;
        if recording.queries == vk::QueryPool::null() {
            return Ok(None);
        }
        let gpu = &recording.gpu;
        let mut ticks = vec![0u64; recording.dispatches as usize * 2 + 1];
        // SAFETY: the pool has this many queries and the submission that wrote them completed.
        unsafe {
            gpu.device.get_query_pool_results(
                recording.queries,
                0,
                &mut ticks,
                vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT,
            )
        }
        .map_err(gpu.fail("vkGetQueryPoolResults"))?;
        let mask = u64::MAX.checked_shr(64 - gpu.physical.timestamp_bits.clamp(1, 64)).unwrap_or(0);
        let since = |tick: u64| {
            let elapsed = tick.wrapping_sub(ticks[0]) & mask;
            Duration::from_nanos((elapsed as f64 * gpu.physical.tick) as u64)
        };
        let times = ticks[1..].chunks_exact(2);
        Ok(Some(times.map(|pair| DispatchTime { start: since(pair[0]), end: since(pair[1]) }).collect()))
    }
}

impl Drop for VulkanPass {
    fn drop(&mut self) {
        // SAFETY: the front drops a pass only when it is not in flight.
        unsafe { self.recording.gpu.device.destroy_fence(self.fence, None) };
    }
}

/// What copies need; one copy at a time.
pub(super) struct Transfer {
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    fence: vk::Fence,
}

impl Transfer {
    pub(super) fn new(device: &ash::Device, physical: &Physical) -> Result<Transfer> {
        let fail = |call| move |code| failed(&physical.info.name, call, code);
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(physical.family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the device is alive; structures live through each call.
        let pool = unsafe { device.create_command_pool(&info, None) }
            .map_err(fail("vkCreateCommandPool"))?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: as above.
        let commands = unsafe { device.allocate_command_buffers(&info) }
            .map_err(fail("vkAllocateCommandBuffers"))?
            .first()
            .copied()
            .unwrap_or_default();
        // SAFETY: as above.
        let fence = unsafe { device.create_fence(&Default::default(), None) }
            .map_err(fail("vkCreateFence"))?;
        Ok(Transfer { pool, commands, fence })
    }

    /// # Safety
    /// No copy is under way; called once, before the device goes.
    pub(super) unsafe fn destroy(&mut self, device: &ash::Device) {
        // SAFETY: as the caller promises.
        unsafe {
            device.destroy_fence(self.fence, None);
            device.destroy_command_pool(self.pool, None);
        }
    }

    /// Copies between two buffers and waits.
    fn copy(&self, gpu: &Gpu, from: vk::Buffer, to: vk::Buffer, region: vk::BufferCopy) -> Result<()> {
        let device = &gpu.device;
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let before = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE)];
        let after = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE | vk::AccessFlags::HOST_READ)];
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: `self` is locked, so the command buffer is not in use; the buffers outlive the
        // call, which waits for the copy.
        unsafe {
            device
                .begin_command_buffer(self.commands, &info)
                .map_err(gpu.fail("vkBeginCommandBuffer"))?;
            let none = vk::DependencyFlags::empty();
            let transfer = vk::PipelineStageFlags::TRANSFER;
            device.cmd_pipeline_barrier(self.commands, all, transfer, none, &before, &[], &[]);
            device.cmd_copy_buffer(self.commands, from, to, &[region]);
            let next = all | vk::PipelineStageFlags::HOST;
            device.cmd_pipeline_barrier(self.commands, transfer, next, none, &after, &[], &[]);
            device.end_command_buffer(self.commands).map_err(gpu.fail("vkEndCommandBuffer"))?;
            device.reset_fences(&[self.fence]).map_err(gpu.fail("vkResetFences"))?;
            let buffers = [self.commands];
            let submits = [vk::SubmitInfo::default().command_buffers(&buffers)];
            let queue = lock(&gpu.queue);
            device
                .queue_submit(*queue, &submits, self.fence)
                .map_err(gpu.fail("vkQueueSubmit"))?;
        }
        match gpu.wait(self.fence, COPY_PATIENCE)? {
            true => Ok(()),
            false => Err(Error::DeviceLost {
                device: gpu.info().name.clone(),
                reason: format!("a copy did not end within {COPY_PATIENCE:?}"),
            }),
        }
    }
}

/// Copies host bytes into `memory`: directly where the host sees it, else in staged pieces.
pub(super) fn upload(gpu: &Arc<Gpu>, memory: &dyn BackendMemory, offset: u64, bytes: &[u8]) -> Result<()> {
    let target = own(memory)?;
    if let Some(pointer) = target.host_pointer() {
        // SAFETY: the front checked range and exclusive use; host-visible memory here is coherent.
        unsafe {
            let pointer = pointer.add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len());
        }
        return Ok(());
    }
    let staging = stage(gpu, bytes.len() as u64)?;
    let pointer = pointer_of(&staging)?;
    let transfer = lock(&gpu.transfer);
    let mut at = offset;
    for piece in bytes.chunks(STAGING as usize) {
        // SAFETY: the staging buffer holds a piece and no copy from it is under way.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), pointer, piece.len()) };
        let region = vk::BufferCopy { src_offset: 0, dst_offset: at, size: piece.len() as u64 };
        transfer.copy(gpu, staging.buffer, target.buffer, region)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// Copies bytes of `memory` to the host, likewise.
pub(super) fn download(gpu: &Arc<Gpu>, memory: &dyn BackendMemory, offset: u64, bytes: &mut [u8]) -> Result<()> {
    let source = own(memory)?;
    if let Some(pointer) = source.host_pointer() {
        // SAFETY: the front checked the range and that nothing writes it.
        unsafe {
            let pointer = pointer.add(offset as usize);
            std::ptr::copy_nonoverlapping(pointer, bytes.as_mut_ptr(), bytes.len());
        }
        return Ok(());
    }
    let staging = stage(gpu, bytes.len() as u64)?;
    let pointer = pointer_of(&staging)?;
    let transfer = lock(&gpu.transfer);
    let mut at = offset;
    for piece in bytes.chunks_mut(STAGING as usize) {
        let region = vk::BufferCopy { src_offset: at, dst_offset: 0, size: piece.len() as u64 };
        transfer.copy(gpu, source.buffer, staging.buffer, region)?;
        // SAFETY: the copy into the staging buffer has ended.
        unsafe { std::ptr::copy_nonoverlapping(pointer, piece.as_mut_ptr(), piece.len()) };
        at += piece.len() as u64;
    }
    Ok(())
}

fn stage(gpu: &Arc<Gpu>, bytes: u64) -> Result<VulkanMemory> {
    VulkanMemory::allocate(gpu, bytes.min(STAGING), Placement::Host)
}

fn pointer_of(staging: &VulkanMemory) -> Result<*mut u8> {
    staging.host_pointer().ok_or(Error::Driver {
        backend: "vulkan",
        call: "vkMapMemory",
        code: "host-visible memory was not mapped".into(),
    })
}
