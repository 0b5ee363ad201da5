//! One logical device and all that its objects share: queue, allocator, pipeline cache. Destroyed
//! with the last object, after the device has gone idle.

use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::time::Duration;

use ash::vk;
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};

use super::failed;
use super::instance::Instance;
use super::physical::{Physical, memory_info};
use crate::device::{DeviceInfo, MemoryInfo};
use crate::error::{Error, Result};
use crate::kernel::DiskCache;
use crate::memory::lock;

/// The device's shared state.
pub(super) struct Gpu {
    pub(super) device: ash::Device,
    pub(super) physical: Physical,
    pub(super) instance: &'static Instance,
    /// The queue; submissions hold the lock for the call only.
    pub(super) queue: Mutex<vk::Queue>,
    /// Dropped by hand before the device.
    pub(super) allocator: ManuallyDrop<Mutex<Allocator>>,
    pub(super) pipelines: vk::PipelineCache,
    pub(super) transfer: Mutex<super::submit::Transfer>,
    pub(super) allocated: std::sync::atomic::AtomicU64,
    cache: Option<DiskCache>,
    /// Fences of drains that ran out of time; destroyed with the device.
    stale: Mutex<Vec<vk::Fence>>,
}

impl Gpu {
    pub(super) fn open(
        instance: &'static Instance,
        physical: Physical,
        cache: Option<DiskCache>,
    ) -> Result<Gpu> {
        let name = physical.info.name.clone();
        let fail = |call| move |code| failed(&name, call, code);
        let device = create(instance, &physical).map_err(fail("vkCreateDevice"))?;
        // From here on `guard` destroys the device on an early return.
        let guard = Guard(Some(device));
        let device = guard.0.as_ref().ok_or(Error::Cancelled)?;
        // SAFETY: the family and its first queue were asked for in `create`.
        let queue = unsafe { device.get_device_queue(physical.family, 0) };
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: instance.raw.clone(),
            device: device.clone(),
            physical_device: physical.raw,
            debug_settings: Default::default(),
            buffer_device_address: false,
            allocation_sizes: Default::default(),
        })
        .map_err(|error| Error::BackendUnavailable {
            backend: "vulkan",
            reason: format!("its memory allocator did not start: {error}"),
        })?;
        let kept = cache.as_ref().and_then(|cache| cache.get(&cache_key(&physical)));
        let data = kept.unwrap_or_default();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&data);
        // SAFETY: drivers check the data's header and ignore what is not theirs; ours is also
        // checksummed.
        let pipelines = unsafe { device.create_pipeline_cache(&info, None) }
            .map_err(|code| failed(&physical.info.name, "vkCreatePipelineCache", code))?;
        let transfer = super::submit::Transfer::new(device, &physical)?;
        let device = guard.release().ok_or(Error::Cancelled)?;
        Ok(Gpu {
            device,
            physical,
            instance,
            queue: Mutex::new(queue),
            allocator: ManuallyDrop::new(Mutex::new(allocator)),
            pipelines,
            transfer: Mutex::new(transfer),
            allocated: Default::default(),
            cache,
            stale: Mutex::default(),
        })
    }

    pub(super) fn info(&self) -> &DeviceInfo {
        &self.physical.info
    }

    pub(super) fn fail(&self, call: &'static str) -> impl FnOnce(vk::Result) -> Error + '_ {
        move |code| failed(&self.physical.info.name, call, code)
    }

    pub(super) fn memory(&self) -> MemoryInfo {
        let allocated = self.allocated.load(std::sync::atomic::Ordering::Relaxed);
        memory_info(self.instance, self.physical.raw, self.physical.budget, allocated)
    }

    pub(super) fn out_of_memory(&self, asked: u64) -> Error {
        let MemoryInfo { total, free } = self.memory();
        Error::OutOfMemory { device: self.physical.info.name.clone(), asked, free, total }
    }

    /// Keeps the driver's compiled pipelines for the next start.
    pub(super) fn save_cache(&self) -> Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        // SAFETY: the cache lives as long as `self`.
        let data = unsafe { self.device.get_pipeline_cache_data(self.pipelines) }
            .map_err(self.fail("vkGetPipelineCacheData"))?;
        cache.put(&cache_key(&self.physical), &data)
    }

    /// Waits for all work submitted so far, at most `timeout`.
    pub(super) fn drain(&self, timeout: Duration) -> Result<bool> {
        // SAFETY: the device is alive; the fence is destroyed below or with the device.
        let fence = unsafe { self.device.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(self.fail("vkCreateFence"))?;
        let submitted = {
            let queue = lock(&self.queue);
            // SAFETY: the queue is held; no command buffers are involved.
            unsafe { self.device.queue_submit(*queue, &[], fence) }
        };
        let done = submitted
            .map_err(self.fail("vkQueueSubmit"))
            .and_then(|()| self.wait(fence, timeout));
        match done {
            // SAFETY: the fence was signalled and nothing else knows it.
            Ok(true) => unsafe { self.device.destroy_fence(fence, None) },
            _ => lock(&self.stale).push(fence),
        }
        done
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
        // SAFETY: `self` is the last owner: every object made from the device is gone (each holds an
        // `Arc` of it), and the queue is idle or lost after the wait, so all may be destroyed, the
        // allocator first.
        unsafe {
            let _idle_or_lost = self.device.device_wait_idle();
            for fence in lock(&self.stale).drain(..) {
                self.device.destroy_fence(fence, None);
            }
            lock(&self.transfer).destroy(&self.device);
            self.device.destroy_pipeline_cache(self.pipelines, None);
            ManuallyDrop::drop(&mut self.allocator);
            self.device.destroy_device(None);
        }
    }
}

/// Destroys a device that was not handed on.
struct Guard(Option<ash::Device>);

impl Guard {
    fn release(mut self) -> Option<ash::Device> {
        self.0.take()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(device) = &self.0 {
            // SAFETY: nothing was submitted to it; children made so far are leaked with it, which
            // happens only when opening fails for want of memory.
            unsafe { device.destroy_device(None) };
        }
    }
}

/// Under which name the driver's pipeline cache is kept.
fn cache_key(physical: &Physical) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(b"vulkan pipelines");
    hash.update(physical.cache_uuid);
    hash.update(physical.info.name.as_bytes());
    hash.update(physical.info.driver.as_bytes());
    hash.finalize().into()
}

/// Makes the logical device with the features that `info` claims.
fn create(
    instance: &'static Instance,
    physical: &Physical,
) -> std::result::Result<ash::Device, vk::Result> {
    let claims = &physical.info.features;
    let coop = !claims.coop_f16.is_empty();
    let mut memory_model = vk::PhysicalDeviceVulkanMemoryModelFeatures::default();
    let mut supported = vk::PhysicalDeviceFeatures2::default().push_next(&mut memory_model);
    // SAFETY: the device came from this instance.
    unsafe { instance.raw.get_physical_device_features2(physical.raw, &mut supported) };
    let int64 = supported.features.shader_int64;
    let features = vk::PhysicalDeviceFeatures {
        shader_int16: claims.i16.into(),
        shader_int64: int64,
        ..Default::default()
    };
    memory_model.p_next = std::ptr::null_mut();
    let mut storage16 = vk::PhysicalDevice16BitStorageFeatures::default()
        .storage_buffer16_bit_access(claims.f16 || claims.i16);
    let mut f16 =
        vk::PhysicalDeviceShaderFloat16Int8Features::default().shader_float16(claims.f16);
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default()
        .shader_integer_dot_product(claims.integer_dot);
    let mut matrices =
        vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(coop);
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(physical.family)
        .queue_priorities(&[1.0])];
    let names: Vec<_> = physical
        .extensions
        .iter()
        .filter(|name| coop || **name != ash::khr::cooperative_matrix::NAME)
        .map(|name| name.as_ptr())
        .collect();
    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names)
        .enabled_features(&features)
        .push_next(&mut storage16)
        .push_next(&mut f16)
        .push_next(&mut memory_model);
    if claims.integer_dot {
        info = info.push_next(&mut dot);
    }
    if coop {
        info = info.push_next(&mut matrices);
    }
    // SAFETY: the chain holds features that the device reported and extensions that it lists.
    unsafe { instance.raw.create_device(physical.raw, &info, None) }
}
