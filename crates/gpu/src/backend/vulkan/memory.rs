//! Buffers and the memory behind them. Small ones share blocks through the allocator crate, large
//! ones have their own; imports wrap host memory.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};

use super::gpu::Gpu;
use crate::backend::{BackendMemory, Placement};
use crate::error::{Error, Result};
use crate::memory::{HostMemory, lock};

/// Buffers from here on get device memory of their own.
const DEDICATED: u64 = 4 << 20;

/// Where the bytes come from.
enum Backing {
    /// The allocator; `None` once given back.
    Block(Option<Allocation>),
    /// Host memory that someone else owns.
    Import { memory: vk::DeviceMemory, _host: Arc<dyn HostMemory> },
}

/// One buffer.
pub(super) struct VulkanMemory {
    pub(super) buffer: vk::Buffer,
    backing: Backing,
    bytes: u64,
    mapped: Option<*mut u8>,
    gpu: Arc<Gpu>,
}

// SAFETY: Vulkan objects may be used from any thread; who uses the mapping when is the front's rule.
unsafe impl Send for VulkanMemory {}
// SAFETY: as above.
unsafe impl Sync for VulkanMemory {}

const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

impl VulkanMemory {
    pub(super) fn allocate(gpu: &Arc<Gpu>, bytes: u64, placement: Placement) -> Result<Self> {
        let unified = gpu.info().features.unified_memory;
        let host = placement == Placement::Host || unified;
        let buffer = create_buffer(gpu, bytes, None)?;
        // SAFETY: the buffer was just made from this device.
        let requirements = unsafe { gpu.device.get_buffer_memory_requirements(buffer) };
        let allocation = lock(&gpu.allocator).allocate(&AllocationCreateDesc {
            name: "tintype",
            requirements,
            location: if host { MemoryLocation::GpuToCpu } else { MemoryLocation::GpuOnly },
            linear: true,
            allocation_scheme: match bytes >= DEDICATED {
                true => AllocationScheme::DedicatedBuffer(buffer),
                false => AllocationScheme::GpuAllocatorManaged,
            },
        });
        let allocation = match allocation {
            Ok(allocation) => allocation,
            Err(error) => {
                // SAFETY: nothing uses the buffer.
                unsafe { gpu.device.destroy_buffer(buffer, None) };
                return Err(match error {
                    gpu_allocator::AllocationError::OutOfMemory => gpu.out_of_memory(bytes),
                    other => Error::Driver {
                        backend: "vulkan",
                        call: "vkAllocateMemory",
                        code: other.to_string(),
                    },
                });
            }
        };
        let mapped = allocation.mapped_ptr().map(|pointer| pointer.as_ptr().cast::<u8>());
        let (memory, offset) = {
            // SAFETY: the handle is only used for binding, while the allocation is held.
            (unsafe { allocation.memory() }, allocation.offset())
        };
        let made = VulkanMemory {
            buffer,
            backing: Backing::Block(Some(allocation)),
            bytes,
            mapped,
            gpu: gpu.clone(),
        };
        gpu.allocated.fetch_add(bytes, Ordering::Relaxed);
        // SAFETY: memory and offset came from the allocator for these requirements.
        unsafe { gpu.device.bind_buffer_memory(buffer, memory, offset) }
            .map_err(gpu.fail("vkBindBufferMemory"))?;
        if let Some(pointer) = mapped {
            // Safe code may look at mapped memory before anything was written.
            // SAFETY: the mapping is at least `bytes` long and nobody else knows it yet.
            unsafe { pointer.write_bytes(0, bytes as usize) };
        }
        Ok(made)
    }

    pub(super) fn import(gpu: &Arc<Gpu>, host: Arc<dyn HostMemory>) -> Result<Self> {
        let unsupported = |what: String| Error::Unsupported {
            device: gpu.info().name.clone(),
            what,
            instead: "allocate a buffer and upload into it".into(),
        };
        if !gpu.info().features.import_host {
            return Err(unsupported("importing host memory".into()));
        }
        let alignment = gpu.physical.import_alignment;
        let (start, len) = (host.bytes().as_ptr(), host.bytes().len() as u64);
        if !(start as u64).is_multiple_of(alignment) {
            return Err(unsupported(format!(
                "importing host memory that is not aligned to {alignment} bytes"
            )));
        }
        // Pages are whole: what lies behind the end in the last one is never accessed.
        let bytes = len.next_multiple_of(alignment);
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let loader =
            ash::ext::external_memory_host::Device::new(&gpu.instance.raw, &gpu.device);
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        // SAFETY: the pointer is valid host memory for `len` bytes.
        unsafe {
            (loader.fp().get_memory_host_pointer_properties_ext)(
                gpu.device.handle(),
                kind,
                start.cast(),
                &mut properties,
            )
        }
        .result()
        .map_err(gpu.fail("vkGetMemoryHostPointerPropertiesEXT"))?;
        let buffer = create_buffer(gpu, bytes, Some(kind))?;
        // SAFETY: the buffer was just made from this device.
        let requirements = unsafe { gpu.device.get_buffer_memory_requirements(buffer) };
        let usable = requirements.memory_type_bits & properties.memory_type_bits;
        let destroy = || {
            // SAFETY: nothing uses the buffer.
            unsafe { gpu.device.destroy_buffer(buffer, None) };
        };
        if usable == 0 {
            destroy();
            return Err(unsupported("importing this kind of host memory".into()));
        }
        let mut pointer = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(kind)
            .host_pointer(start.cast_mut().cast());
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(bytes)
            .memory_type_index(usable.trailing_zeros())
            .push_next(&mut pointer);
        // SAFETY: the memory stays valid and unchanged while `host` is held, which is as long as
        // the device memory; it is only read (the buffer is marked read-only).
        let memory = unsafe { gpu.device.allocate_memory(&info, None) }.map_err(|code| {
            destroy();
            unsupported(format!("importing this host memory ({code:?})"))
        })?;
        let made = VulkanMemory {
            buffer,
            backing: Backing::Import { memory, _host: host },
            bytes: 0,
            mapped: Some(start.cast_mut()),
            gpu: gpu.clone(),
        };
        // SAFETY: made for this buffer.
        unsafe { gpu.device.bind_buffer_memory(buffer, memory, 0) }
            .map_err(gpu.fail("vkBindBufferMemory"))?;
        Ok(made)
    }
}

fn create_buffer(
    gpu: &Gpu,
    bytes: u64,
    import: Option<vk::ExternalMemoryHandleTypeFlags>,
) -> Result<vk::Buffer> {
    let mut external = vk::ExternalMemoryBufferCreateInfo::default();
    let mut info = vk::BufferCreateInfo::default()
        .size(bytes)
        .usage(USAGE)
        .sharing_mode(vk::SharingMode::EXCLUSIVE);
    if let Some(kind) = import {
        external = external.handle_types(kind);
        info = info.push_next(&mut external);
    }
    // SAFETY: size is positive; usage needs no features.
    unsafe { gpu.device.create_buffer(&info, None) }.map_err(|code| match code {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            gpu.out_of_memory(bytes)
        }
        code => gpu.fail("vkCreateBuffer")(code),
    })
}

impl Drop for VulkanMemory {
    fn drop(&mut self) {
        // SAFETY: the front drops memory only when no submission uses it; the buffer goes before
        // the memory it is bound to.
        unsafe { self.gpu.device.destroy_buffer(self.buffer, None) };
        match &mut self.backing {
            Backing::Block(allocation) => {
                if let Some(allocation) = allocation.take() {
                    // Freeing fails only for foreign allocations, which this is not.
                    let _freed = lock(&self.gpu.allocator).free(allocation);
                    self.gpu.allocated.fetch_sub(self.bytes, Ordering::Relaxed);
                }
            }
            // SAFETY: as above.
            Backing::Import { memory, .. } => unsafe {
                self.gpu.device.free_memory(*memory, None);
            },
        }
    }
}

impl BackendMemory for VulkanMemory {
    fn host_pointer(&self) -> Option<*mut u8> {
        self.mapped
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// This backend's own type behind the front's.
pub(super) fn own(memory: &dyn BackendMemory) -> Result<&VulkanMemory> {
    memory.as_any().downcast_ref().ok_or(Error::Driver {
        backend: "vulkan",
        call: "memory",
        code: "memory of another backend".into(),
    })
}
