//! One logical device and all that its objects share: queue, allocator, pipeline cache. Destroyed
//! with the last object, after the device has gone idle.

use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ash::vk;
use gpu_allocator::AllocationSizes;
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};

use super::failed;
use super::instance::Instance;
use super::physical::{CacheOwner, Physical, memory_info, memory_properties};
use crate::device::{DeviceInfo, MemoryInfo};
use crate::error::{Error, Result};
use crate::kernel::DiskCache;
use crate::memory::lock;

/// Blocks that small buffers share: the first is small, so that a device costs little to open, and
/// each further one doubles up to the largest.
const SMALLEST_BLOCK: u64 = 8 << 20;
const LARGEST_BLOCK: u64 = 64 << 20;

/// The device's shared state.
pub(super) struct Gpu {
    pub(super) device: ash::Device,
    pub(super) physical: Physical,
    pub(super) instance: &'static Instance,
    /// The queue; submissions hold the lock for the call only.
    pub(super) queue: Mutex<vk::Queue>,
    /// Dropped by hand before the device.
    pub(super) allocator: ManuallyDrop<Mutex<Allocator>>,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    pub(super) pipelines: vk::PipelineCache,
    /// Bytes of live buffers in the main heap.
    pub(super) allocated: AtomicU64,
    /// A copy did not end: from now on memory is leaked, since the device may still use it.
    pub(super) abandoned: AtomicBool,
    /// Binds buffers without sets, where the device can.
    pub(super) push: Option<ash::khr::push_descriptor::Device>,
    cache: Option<DiskCache>,
    /// Length of the pipeline cache as it was last read or kept: it only grows.
    kept: AtomicU64,
    /// Fences of drains that ran out of time.
    stale: Mutex<Vec<vk::Fence>>,
    /// Gives objects names, when a layer listens.
    names: Option<ash::ext::debug_utils::Device>,
}

impl Gpu {
    pub(super) fn open(
        instance: &'static Instance,
        physical: Physical,
        cache: Option<DiskCache>,
    ) -> Result<Gpu> {
        let (raw, family) = (physical.raw, physical.family);
        let name = physical.info.name.clone();
        let device = physical
            .supported
            .create_device(instance, raw, family, &physical.extensions)
            .map_err(|code| failed(&name, "vkCreateDevice", code))?;
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: instance.raw.clone(),
            device: device.clone(),
            physical_device: raw,
            debug_settings: Default::default(),
            buffer_device_address: false,
            allocation_sizes: AllocationSizes::new(SMALLEST_BLOCK, SMALLEST_BLOCK)
                .with_max_device_memblock_size(LARGEST_BLOCK)
                .with_max_host_memblock_size(LARGEST_BLOCK),
        });
        let allocator = match allocator {
            Ok(allocator) => allocator,
            Err(error) => {
                // SAFETY: nothing was made from the device.
                unsafe { device.destroy_device(None) };
                return Err(Error::BackendUnavailable {
                    backend: "vulkan",
                    reason: format!("the memory allocator of {name} did not start: {error}"),
                });
            }
        };
        let names =
            instance.named.then(|| ash::ext::debug_utils::Device::new(&instance.raw, &device));
        let push = (physical.max_pushed > 0)
            .then(|| ash::khr::push_descriptor::Device::new(&instance.raw, &device));
        // SAFETY: the family and its first queue were asked for above.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let mut gpu = Gpu {
            device,
            memory: memory_properties(instance, raw),
            physical,
            instance,
            queue: Mutex::new(queue),
            allocator: ManuallyDrop::new(Mutex::new(allocator)),
            pipelines: vk::PipelineCache::null(),
            allocated: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            push,
            cache,
            kept: AtomicU64::new(0),
            stale: Mutex::default(),
            names,
        };
        gpu.load_cache()?;
        Ok(gpu)
    }

    pub(super) fn info(&self) -> &DeviceInfo {
        &self.physical.info
    }

    pub(super) fn fail(&self, call: &'static str) -> impl FnOnce(vk::Result) -> Error + '_ {
        move |code| failed(&self.physical.info.name, call, code)
    }

    pub(super) fn memory(&self) -> MemoryInfo {
        let allocated = self.allocated.load(Ordering::Relaxed);
        memory_info(self.instance, self.physical.raw, self.physical.budget, allocated)
    }

    pub(super) fn out_of_memory(&self, asked: u64) -> Error {
        let MemoryInfo { total, free } = self.memory();
        Error::OutOfMemory { device: self.physical.info.name.clone(), asked, free, total }
    }

    /// Names an object for debuggers and validation messages.
    pub(super) fn name<T: vk::Handle>(&self, object: T, name: &str) {
        let Some(names) = &self.names else { return };
        let name = c_string(name);
        let info =
            vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&name);
        // SAFETY: the object is this device's and nobody else knows it yet.
        let named = unsafe { names.set_debug_utils_object_name(&info) };
        debug_assert!(named.is_ok() || named == Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY));
    }

    /// Labels what `record` records, likewise.
    pub(super) fn labelled<T>(
        &self,
        commands: vk::CommandBuffer,
        label: &str,
        record: impl FnOnce() -> T,
    ) -> T {
        let Some(names) = &self.names else { return record() };
        let label = c_string(label);
        let info = vk::DebugUtilsLabelEXT::default().label_name(&label);
        // SAFETY: the command buffer is recording.
        unsafe { names.cmd_begin_debug_utils_label(commands, &info) };
        let recorded = record();
        // SAFETY: as above; the label was begun.
        unsafe { names.cmd_end_debug_utils_label(commands) };
        recorded
    }

    /// Starts the pipeline cache from what an earlier run kept, if that is this driver's.
    fn load_cache(&mut self) -> Result<()> {
        let kept = self.cache.as_ref().and_then(|cache| cache.get(&cache_key(&self.physical)));
        let kept = kept.filter(|data| is_cache_of(data, &self.physical.cache_owner));
        let data = kept.unwrap_or_default();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&data);
        // SAFETY: the data was checksummed, and its header names this device and driver.
        self.pipelines = unsafe { self.device.create_pipeline_cache(&info, None) }
            .map_err(|code| self.fail("vkCreatePipelineCache")(code))?;
        self.kept.store(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the driver's compiled pipelines for the next start, if there are new ones.
    pub(super) fn save_cache(&self) -> Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        // SAFETY: the cache lives as long as `self`.
        let data = unsafe { self.device.get_pipeline_cache_data(self.pipelines) }
            .map_err(self.fail("vkGetPipelineCacheData"))?;
        if data.len() as u64 == self.kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        cache.put(&cache_key(&self.physical), &data)?;
        self.kept.store(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for all work submitted so far, at most `timeout`.
    pub(super) fn drain(&self, timeout: Duration) -> Result<bool> {
        self.sweep();
        // SAFETY: the device is alive; the fence is destroyed below, in `sweep` or with the device.
        let fence = unsafe { self.device.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(self.fail("vkCreateFence"))?;
        let submitted = {
            let queue = lock(&self.queue);
            // SAFETY: the queue is held; no command buffers are involved.
            unsafe { self.device.queue_submit(*queue, &[], fence) }
        };
        if let Err(code) = submitted {
            // SAFETY: the submission failed, so nothing will signal the fence.
            unsafe { self.device.destroy_fence(fence, None) };
            return Err(self.fail("vkQueueSubmit")(code));
        }
        let done = self.wait(fence, timeout);
        match done {
            // SAFETY: the fence was signalled and nothing else knows it.
            Ok(true) => unsafe { self.device.destroy_fence(fence, None) },
            _ => lock(&self.stale).push(fence),
        }
        done
    }

    /// Destroys the fences of timed-out drains that have been signalled since.
    fn sweep(&self) {
        lock(&self.stale).retain(|&fence| {
            // SAFETY: the fence is alive, and in this list only.
            let signalled = unsafe { self.device.get_fence_status(fence) } == Ok(true);
            if signalled {
                // SAFETY: signalled, so the queue is done with it.
                unsafe { self.device.destroy_fence(fence, None) };
            }
            !signalled
        });
    }

    /// Waits for a fence; false if time ran out.
    pub(super) fn wait(&self, fence: vk::Fence, timeout: Duration) -> Result<bool> {
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the fence belongs to this device and is alive.
        match unsafe { self.device.wait_for_fences(&[fence], true, nanoseconds) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(code) => Err(failed(&self.physical.info.name, "vkWaitForFences", code)),
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.abandoned.load(Ordering::Acquire) {
            // Waiting could take for ever, and destroying what a device uses is worse than a leak.
            return;
        }
        // SAFETY: `self` is the last owner: every object made from the device is gone (each holds an
        // `Arc` of it), and the queue is idle or lost after the wait, so all may be destroyed, the
        // allocator first. Null handles are ignored.
        unsafe {
            let _idle_or_lost = self.device.device_wait_idle();
            for fence in lock(&self.stale).drain(..) {
                self.device.destroy_fence(fence, None);
            }
            self.device.destroy_pipeline_cache(self.pipelines, None);
            ManuallyDrop::drop(&mut self.allocator);
            self.device.destroy_device(None);
        }
    }
}

/// Text for the driver; cut at a zero byte, since names only inform.
fn c_string(text: &str) -> CString {
    let whole = text.split('\0').next().unwrap_or_default();
    CString::new(whole).unwrap_or_default()
}

/// Under which name the driver's pipeline cache is kept.
fn cache_key(physical: &Physical) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(b"vulkan pipelines");
    hash.update(physical.cache_owner.uuid);
    hash.update(physical.cache_owner.device.to_le_bytes());
    hash.update(physical.info.name.as_bytes());
    hash.update(physical.info.driver.as_bytes());
    hash.finalize().into()
}

/// Whether pipeline-cache data begins with the header of this device and driver. Drivers should
/// check that too; not all do it well.
fn is_cache_of(data: &[u8], owner: &CacheOwner) -> bool {
    const HEADER: usize = 16 + vk::UUID_SIZE;
    let Some((words, uuid)) = data.get(..HEADER).and_then(|header| header.split_at_checked(16))
    else {
        return false;
    };
    let word = |at: usize| bytemuck::pod_read_unaligned::<u32>(&words[at * 4..at * 4 + 4]);
    word(0) as usize >= HEADER
        && word(1) == vk::PipelineCacheHeaderVersion::ONE.as_raw() as u32
        && (word(2), word(3)) == (owner.vendor, owner.device)
        && uuid == owner.uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_pipeline_cache_is_not_loaded() {
        let owner = CacheOwner { vendor: 0x10de, device: 7, uuid: [3; vk::UUID_SIZE] };
        let words = [32u32, 1, 0x10de, 7];
        let data = [bytemuck::cast_slice::<u32, u8>(&words), &owner.uuid, b"rest"].concat();
        assert!(is_cache_of(&data, &owner));
        assert!(!is_cache_of(&data[..31], &owner));
        assert!(!is_cache_of(&[], &owner));
        for at in 4..32 {
            let mut other = data.clone();
            other[at] ^= 1;
            assert!(!is_cache_of(&other, &owner), "byte {at}");
        }
    }

    #[test]
    fn names_with_zero_bytes_are_cut() {
        assert_eq!(c_string("a\0b").as_bytes(), b"a");
    }
}
