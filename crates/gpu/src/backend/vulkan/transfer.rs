//! Copies between the host and memory that it cannot see, through two staging buffers: while the
//! device copies one, the host fills or empties the other. One transfer at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ash::vk;

use super::gpu::Gpu;
use super::memory::VulkanMemory;
use crate::backend::{BackendMemory, Placement};
use crate::error::{Error, Result};
use crate::memory::lock;

/// Bytes of a staging buffer: at least, and at most. Larger copies go in pieces.
const SMALLEST: u64 = 64 << 10;
const LARGEST: u64 = 16 << 20;
/// How long a copy may wait for work ahead of it in the queue, and take, before the device is given
/// up. Drivers end work that hangs much sooner, and say that the device is lost.
const PATIENCE: Duration = Duration::from_secs(600);

/// The staging buffers and what submits their copies.
pub(super) struct Transfer {
    pool: vk::CommandPool,
    slots: [Slot; 2],
    gpu: Arc<Gpu>,
}

/// One staging buffer, kept between copies.
#[derive(Default)]
struct Slot {
    commands: vk::CommandBuffer,
    fence: vk::Fence,
    staging: Option<VulkanMemory>,
    /// A copy was submitted and its end not seen yet.
    busy: bool,
}

impl Transfer {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Transfer> {
        let mut made =
            Transfer { pool: vk::CommandPool::null(), slots: Default::default(), gpu: gpu.clone() };
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(gpu.physical.family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the device is alive; structures live through each call; `made` destroys what
        // exists on any return.
        made.pool = unsafe { gpu.device.create_command_pool(&info, None) }
            .map_err(gpu.fail("vkCreateCommandPool"))?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(made.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(made.slots.len() as u32);
        // SAFETY: as above.
        let commands = unsafe { gpu.device.allocate_command_buffers(&info) }
            .map_err(gpu.fail("vkAllocateCommandBuffers"))?;
        for (slot, commands) in made.slots.iter_mut().zip(commands) {
            slot.commands = commands;
            // SAFETY: as above.
            slot.fence = unsafe { gpu.device.create_fence(&Default::default(), None) }
                .map_err(gpu.fail("vkCreateFence"))?;
        }
        Ok(made)
    }

    /// Copies host bytes into `target`, which no submission uses.
    pub(super) fn upload(
        &mut self,
        target: &VulkanMemory,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let sent = self.send(target, offset, bytes);
        let ended = self.settle();
        sent.and(ended)
    }

    /// Copies bytes of `source`, which no submission writes, to the host.
    pub(super) fn download(
        &mut self,
        source: &VulkanMemory,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        let fetched = self.fetch(source, offset, bytes);
        let ended = self.settle();
        fetched.and(ended)
    }

    fn send(&mut self, target: &VulkanMemory, offset: u64, bytes: &[u8]) -> Result<()> {
        let length = piece_length(bytes.len() as u64);
        for (number, piece) in bytes.chunks(length as usize).enumerate() {
            let at = number % self.slots.len();
            self.finish(at)?;
            let pointer = self.stage(at, length)?;
            // SAFETY: the staging buffer holds a piece, and no copy from it is under way.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), pointer, piece.len()) };
            let start = offset + number as u64 * length;
            self.submit(at, |staging| Copy {
                from: (staging, 0),
                to: (target.buffer, start),
                bytes: piece.len() as u64,
            })?;
        }
        Ok(())
    }

    fn fetch(&mut self, source: &VulkanMemory, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let length = piece_length(bytes.len() as u64);
        let mut coming: VecDeque<(usize, &mut [u8])> = VecDeque::new();
        for (number, piece) in bytes.chunks_mut(length as usize).enumerate() {
            let at = number % self.slots.len();
            if coming.len() == self.slots.len()
                && let Some((at, piece)) = coming.pop_front()
            {
                self.collect(at, piece)?;
            }
            self.stage(at, length)?;
            let start = offset + number as u64 * length;
            self.submit(at, |staging| Copy {
                from: (source.buffer, start),
                to: (staging, 0),
                bytes: piece.len() as u64,
            })?;
            coming.push_back((at, piece));
        }
        for (at, piece) in coming {
            self.collect(at, piece)?;
        }
        Ok(())
    }

    /// Waits for a copy into a staging buffer and takes its bytes.
    fn collect(&mut self, at: usize, piece: &mut [u8]) -> Result<()> {
        self.finish(at)?;
        let pointer = self.stage(at, piece.len() as u64)?;
        // SAFETY: the staging buffer holds the piece, and the copy into it has ended.
        unsafe { std::ptr::copy_nonoverlapping(pointer, piece.as_mut_ptr(), piece.len()) };
        Ok(())
    }

    /// Start of a staging buffer of at least `bytes`; the slot is not busy.
    fn stage(&mut self, at: usize, bytes: u64) -> Result<*mut u8> {
        let slot = &mut self.slots[at];
        let fits = |staging: &VulkanMemory| staging.bytes() >= bytes;
        if !slot.staging.as_ref().is_some_and(fits) {
            slot.staging = None;
            slot.staging = Some(VulkanMemory::allocate(&self.gpu, bytes, Placement::Host)?);
        }
        slot.staging.as_ref().and_then(VulkanMemory::host_pointer).ok_or(Error::Driver {
            backend: "vulkan",
            call: "vkMapMemory",
            code: "host-visible memory was not mapped".into(),
        })
    }

    /// Starts one copy to or from a slot's staging buffer, after everything submitted before.
    fn submit(&mut self, at: usize, copy: impl FnOnce(vk::Buffer) -> Copy) -> Result<()> {
        let slot = &mut self.slots[at];
        let Some(staging) = &slot.staging else { return Ok(()) };
        copy(staging.buffer).record(&self.gpu, slot.commands)?;
        let (gpu, buffers) = (&self.gpu, [slot.commands]);
        let submits = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: the slot is not busy, so fence and command buffer are free.
        unsafe { gpu.device.reset_fences(&[slot.fence]) }.map_err(gpu.fail("vkResetFences"))?;
        let queue = lock(&gpu.queue);
        // SAFETY: as above, and the queue is held; both buffers outlive the copy, which
        // `settle` waits for.
        unsafe { gpu.device.queue_submit(*queue, &submits, slot.fence) }
            .map_err(gpu.fail("vkQueueSubmit"))?;
        slot.busy = true;
        Ok(())
    }

    /// Waits until a slot's copy has ended.
    fn finish(&mut self, at: usize) -> Result<()> {
        let slot = &mut self.slots[at];
        if !slot.busy {
            return Ok(());
        }
        match self.gpu.wait(slot.fence, PATIENCE) {
            Ok(true) => slot.busy = false,
            // A lost device has stopped.
            Err(lost @ Error::DeviceLost { .. }) => {
                slot.busy = false;
                return Err(lost);
            }
            Err(other) => {
                self.gpu.abandoned.store(true, Ordering::Release);
                return Err(other);
            }
            Ok(false) => {
                self.gpu.abandoned.store(true, Ordering::Release);
                return Err(Error::DeviceLost {
                    device: self.gpu.info().name.clone(),
                    reason: format!("a copy did not end within {PATIENCE:?}"),
                });
            }
        }
        Ok(())
    }

    /// Waits for whatever is still under way, also after a failure.
    fn settle(&mut self) -> Result<()> {
        let mut result = Ok(());
        for at in 0..self.slots.len() {
            if self.gpu.abandoned.load(Ordering::Acquire) {
                break;
            }
            result = result.and(self.finish(at));
        }
        result
    }
}

/// Bytes of the pieces that `bytes` are cut into.
fn piece_length(bytes: u64) -> u64 {
    bytes.clamp(SMALLEST, LARGEST).next_power_of_two()
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.gpu.abandoned.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: no copy is under way: each transfer settles before it returns. Null handles are
        // ignored; command buffers go with their pool.
        unsafe {
            for slot in &self.slots {
                self.gpu.device.destroy_fence(slot.fence, None);
            }
            self.gpu.device.destroy_command_pool(self.pool, None);
        }
    }
}

/// One copy between two buffers.
struct Copy {
    from: (vk::Buffer, u64),
    to: (vk::Buffer, u64),
    bytes: u64,
}

impl Copy {
    /// Records it between barriers that order it against everything before and after.
    fn record(&self, gpu: &Gpu, commands: vk::CommandBuffer) -> Result<()> {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let device = &gpu.device;
        let before = [vk::MemoryBarrier::default()
            .src_access_mask(Access::MEMORY_WRITE)
            .dst_access_mask(Access::TRANSFER_READ | Access::TRANSFER_WRITE)];
        let after = [vk::MemoryBarrier::default()
            .src_access_mask(Access::TRANSFER_WRITE)
            .dst_access_mask(Access::MEMORY_READ | Access::MEMORY_WRITE | Access::HOST_READ)];
        let region =
            vk::BufferCopy { src_offset: self.from.1, dst_offset: self.to.1, size: self.bytes };
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        let none = vk::DependencyFlags::empty();
        let (all, copying) = (Stage::ALL_COMMANDS, Stage::TRANSFER);
        // SAFETY: the command buffer is not in use; beginning resets it.
        unsafe { device.begin_command_buffer(commands, &info) }
            .map_err(gpu.fail("vkBeginCommandBuffer"))?;
        // SAFETY: the command buffer is recording; the front checked the range, and staging
        // buffers hold a piece.
        unsafe {
            device.cmd_pipeline_barrier(commands, all, copying, none, &before, &[], &[]);
            device.cmd_copy_buffer(commands, self.from.0, self.to.0, &[region]);
            let next = all | Stage::HOST;
            device.cmd_pipeline_barrier(commands, copying, next, none, &after, &[], &[]);
        }
        // SAFETY: as above.
        unsafe { device.end_command_buffer(commands) }.map_err(gpu.fail("vkEndCommandBuffer"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{gpu::Gpu, instance, physical};
    use super::*;

    fn gpu() -> Option<Arc<Gpu>> {
        let found = instance::get().and_then(physical::usable);
        let Ok(found) = found.map(|mut found| found.remove(0)) else {
            eprintln!("skipped: no Vulkan device");
            return None;
        };
        Some(Arc::new(Gpu::open(instance::get().unwrap(), found, None).unwrap()))
    }

    /// Software devices show all memory to the host, so the front never stages there: this does.
    #[test]
    fn staged_copies_are_whole_at_sizes_around_the_pieces() {
        let Some(gpu) = gpu() else { return };
        let mut transfer = Transfer::new(&gpu).unwrap();
        let sizes = [1, 3, SMALLEST - 1, SMALLEST + 1, LARGEST, LARGEST * 2 + 1, LARGEST * 3 + 7];
        for (round, bytes) in sizes.into_iter().enumerate() {
            let offset = 5 * round as u64;
            let memory = VulkanMemory::allocate(&gpu, bytes + 64, Placement::Device).unwrap();
            let sent: Vec<u8> =
                (0..bytes).map(|at| (((at * 31) >> 3) ^ (at >> 13)) as u8).collect();
            transfer.upload(&memory, offset, &vec![0xaa; bytes as usize + 8]).unwrap();
            transfer.upload(&memory, offset + 3, &sent).unwrap();
            let mut whole = vec![0; bytes as usize + 8];
            transfer.download(&memory, offset, &mut whole).unwrap();
            assert_eq!(whole[..3], [0xaa; 3], "{bytes} bytes");
            assert!(whole[3..][..sent.len()] == sent, "{bytes} bytes differ");
            assert_eq!(whole[3 + sent.len()..], [0xaa; 5], "{bytes} bytes");
        }
        assert!(transfer.slots.iter().all(|slot| !slot.busy));
        drop((transfer, gpu));
        // Empty without the layer, and with it (`TINTYPE_TEST_VALIDATION=1`) too.
        assert_eq!(instance::validation_messages(), [""; 0]);
    }

    #[test]
    fn more_than_the_heap_is_out_of_memory_and_leaves_nothing_behind() {
        let Some(gpu) = gpu() else { return };
        let before = gpu.memory();
        let asked = before.total + 1;
        for placement in [Placement::Device, Placement::Host] {
            // The heap of host memory may be larger; then this is refused by the driver, or not.
            let refused = VulkanMemory::allocate(&gpu, asked, placement).map(drop);
            if placement == Placement::Device || gpu.info().features.unified_memory {
                assert!(
                    matches!(refused, Err(Error::OutOfMemory { asked: a, free, total, .. })
                        if a == asked && free <= total),
                    "{refused:?}"
                );
            }
        }
        assert_eq!(gpu.allocated.load(Ordering::Relaxed), 0);
        let memory = VulkanMemory::allocate(&gpu, 1 << 20, Placement::Device).unwrap();
        assert_eq!(gpu.allocated.load(Ordering::Relaxed), 1 << 20);
        assert!(gpu.memory().free <= gpu.memory().total);
        drop(memory);
        assert_eq!(gpu.allocated.load(Ordering::Relaxed), 0);
    }
}
