//! Buffers and the memory behind them. Small ones share blocks through the allocator crate, large
//! ones have their own; imports wrap host memory.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};

use super::gpu::Gpu;
use super::physical::{UNIFIED, main_heap};
use crate::backend::{BackendMemory, Placement};
use crate::error::{Error, Result};
use crate::memory::{HostMemory, lock};

/// Buffers from here on get device memory of their own. Drivers promise 4 096 allocations: even if
/// all were of this size, they would hold 64 GiB.
const DEDICATED: u64 = 16 << 20;

/// Where the bytes come from.
enum Backing {
    /// None yet, or given back.
    None,
    /// A piece of a block.
    Block(Allocation),
    /// Device memory of its own.
    Own(vk::DeviceMemory),
    /// Host memory that someone else owns.
    Import { memory: vk::DeviceMemory, _host: Arc<dyn HostMemory> },
}

/// One buffer.
pub(super) struct VulkanMemory {
    pub(super) buffer: vk::Buffer,
    backing: Backing,
    bytes: u64,
    /// Bytes counted against the main heap.
    counted: u64,
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
        let mut made = VulkanMemory::unbacked(gpu, bytes, None)?;
        // SAFETY: the buffer was just made from this device.
        let needs = unsafe { gpu.device.get_buffer_memory_requirements(made.buffer) };
        let ty = memory_type(&gpu.memory, needs.memory_type_bits, placement, unified).ok_or_else(
            || Error::Driver {
                backend: "vulkan",
                call: "vkGetBufferMemoryRequirements",
                code: format!("no memory type fits {placement:?}"),
            },
        )?;
        // A whole new block may not fit where the buffer alone does; and only a failure of its own
        // allocation says why.
        let shared = bytes < DEDICATED && made.take_piece(&needs, ty, host);
        if !shared {
            made.take_own(bytes, &needs, ty, host)?;
        }
        if gpu.memory.memory_types[ty as usize].heap_index as usize == main_heap(&gpu.memory) {
            made.counted = bytes;
            gpu.allocated.fetch_add(bytes, Ordering::Relaxed);
        }
        let (memory, offset) = match &made.backing {
            // SAFETY: the handle is only used for binding, while the allocation is held.
            Backing::Block(piece) => (unsafe { piece.memory() }, piece.offset()),
            Backing::Own(memory) => (*memory, 0),
            _ => (vk::DeviceMemory::null(), 0),
        };
        // SAFETY: memory and offset were chosen for these requirements.
        unsafe { gpu.device.bind_buffer_memory(made.buffer, memory, offset) }
            .map_err(gpu.fail("vkBindBufferMemory"))?;
        if let Some(pointer) = made.mapped {
            // Safe code may look at mapped memory before anything was written to it. Memory that
            // is not mapped reaches the host only through copies into memory that is.
            // SAFETY: the mapping is at least `bytes` long and nobody else knows it yet.
            unsafe { pointer.write_bytes(0, bytes as usize) };
        }
        Ok(made)
    }

    /// Length of the buffer.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A buffer without memory. What exists on an early return, `drop` destroys.
    fn unbacked(
        gpu: &Arc<Gpu>,
        bytes: u64,
        import: Option<vk::ExternalMemoryHandleTypeFlags>,
    ) -> Result<Self> {
        let buffer = create_buffer(gpu, bytes, import)?;
        let gpu = gpu.clone();
        Ok(VulkanMemory { buffer, backing: Backing::None, bytes, counted: 0, mapped: None, gpu })
    }

    /// Takes a piece of a block; false if there is none to be had.
    fn take_piece(&mut self, needs: &vk::MemoryRequirements, ty: u32, host: bool) -> bool {
        let requirements = vk::MemoryRequirements { memory_type_bits: 1 << ty, ..*needs };
        let piece = lock(&self.gpu.allocator).allocate(&AllocationCreateDesc {
            name: "tintype",
            requirements,
            // The type is chosen already; this only must not contradict it.
            location: MemoryLocation::Unknown,
            linear: true,
            allocation_scheme: AllocationScheme::GpuAllocatorManaged,
        });
        let Ok(piece) = piece else { return false };
        let pointer = piece.mapped_ptr().map(|pointer| pointer.as_ptr().cast::<u8>());
        self.mapped = pointer.filter(|_| host);
        self.backing = Backing::Block(piece);
        true
    }

    /// Takes device memory for this buffer alone.
    fn take_own(
        &mut self,
        bytes: u64,
        needs: &vk::MemoryRequirements,
        ty: u32,
        host: bool,
    ) -> Result<()> {
        let gpu = &self.gpu;
        let heap = gpu.memory.memory_types[ty as usize].heap_index as usize;
        if needs.size > gpu.memory.memory_heaps[heap].size {
            return Err(gpu.out_of_memory(bytes));
        }
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(self.buffer);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(ty)
            .push_next(&mut dedicated);
        // SAFETY: size and type are this buffer's; the structures live through the call.
        let memory = unsafe { gpu.device.allocate_memory(&info, None) }
            .map_err(|code| memory_failure(gpu, "vkAllocateMemory", bytes, code))?;
        self.backing = Backing::Own(memory);
        if host {
            let flags = vk::MemoryMapFlags::empty();
            // SAFETY: the type is host-visible, and nothing else maps this memory.
            let pointer = unsafe { gpu.device.map_memory(memory, 0, vk::WHOLE_SIZE, flags) }
                .map_err(|code| memory_failure(gpu, "vkMapMemory", bytes, code))?;
            self.mapped = Some(pointer.cast());
        }
        Ok(())
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
        let loader = ash::ext::external_memory_host::Device::new(&gpu.instance.raw, &gpu.device);
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
        .map_err(|code| match code {
            vk::Result::ERROR_INVALID_EXTERNAL_HANDLE => {
                unsupported("importing this kind of host memory".into())
            }
            code => gpu.fail("vkGetMemoryHostPointerPropertiesEXT")(code),
        })?;
        let mut made = VulkanMemory::unbacked(gpu, bytes, Some(kind))?;
        // SAFETY: the buffer was just made from this device.
        let needs = unsafe { gpu.device.get_buffer_memory_requirements(made.buffer) };
        let usable = needs.memory_type_bits & properties.memory_type_bits;
        if usable == 0 || needs.size > bytes {
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
        // the device memory; it is only read (the front marks the buffer read-only).
        let memory = unsafe { gpu.device.allocate_memory(&info, None) }
            .map_err(|code| unsupported(format!("importing this host memory ({code:?})")))?;
        made.backing = Backing::Import { memory, _host: host };
        made.mapped = Some(start.cast_mut());
        // SAFETY: made for this buffer.
        unsafe { gpu.device.bind_buffer_memory(made.buffer, memory, 0) }
            .map_err(gpu.fail("vkBindBufferMemory"))?;
        Ok(made)
    }
}

/// The type for a placement among `allowed`: the first that has the flags of the first wish that
/// any type fulfils. Device memory is preferably not host-visible, which keeps out of the small
/// window of discrete GPUs; host memory is preferably cached, since the host reads results there.
fn memory_type(
    memory: &vk::PhysicalDeviceMemoryProperties,
    allowed: u32,
    placement: Placement,
    unified: bool,
) -> Option<u32> {
    use vk::MemoryPropertyFlags as Flags;
    let visible = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    let cached = visible | Flags::HOST_CACHED;
    let none = Flags::empty();
    let wishes: &[(Flags, Flags)] = match (unified, placement) {
        (true, _) => &[(UNIFIED, none)],
        (false, Placement::Host) => &[
            (cached, Flags::DEVICE_LOCAL),
            (cached, none),
            (visible, Flags::DEVICE_LOCAL),
            (visible, none),
        ],
        (false, Placement::Device) => {
            &[(Flags::DEVICE_LOCAL, Flags::HOST_VISIBLE), (Flags::DEVICE_LOCAL, none), (none, none)]
        }
    };
    // Exotic types are never wanted: lazily filled, protected, uncached for debugging.
    let exotic = Flags::LAZILY_ALLOCATED
        | Flags::PROTECTED
        | Flags::DEVICE_COHERENT_AMD
        | Flags::DEVICE_UNCACHED_AMD;
    wishes.iter().find_map(|&(with, without)| {
        let fits = |(at, ty): (usize, &vk::MemoryType)| {
            let flags = ty.property_flags;
            allowed & (1 << at) != 0 && flags.contains(with) && !flags.intersects(without | exotic)
        };
        memory.memory_types_as_slice().iter().enumerate().position(fits).map(|at| at as u32)
    })
}

/// An error of a call that takes memory.
fn memory_failure(gpu: &Gpu, call: &'static str, bytes: u64, code: vk::Result) -> Error {
    match code {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_MEMORY_MAP_FAILED
        | vk::Result::ERROR_TOO_MANY_OBJECTS => gpu.out_of_memory(bytes),
        code => gpu.fail(call)(code),
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
    unsafe { gpu.device.create_buffer(&info, None) }
        .map_err(|code| memory_failure(gpu, "vkCreateBuffer", bytes, code))
}

impl Drop for VulkanMemory {
    fn drop(&mut self) {
        if self.gpu.abandoned.load(Ordering::Acquire) {
            // The device may still use it; host memory stays imported, so its owner stays too.
            if let Backing::Import { _host, .. } =
                std::mem::replace(&mut self.backing, Backing::None)
            {
                std::mem::forget(_host);
            }
            return;
        }
        // SAFETY: the front drops memory only when no submission uses it; the buffer goes before
        // the memory it is bound to.
        unsafe { self.gpu.device.destroy_buffer(self.buffer, None) };
        match std::mem::replace(&mut self.backing, Backing::None) {
            Backing::None => {}
            Backing::Block(piece) => {
                // Freeing fails only for foreign allocations, which this is not.
                let _freed = lock(&self.gpu.allocator).free(piece);
            }
            // SAFETY: as above; freeing ends a mapping.
            Backing::Own(memory) | Backing::Import { memory, .. } => unsafe {
                self.gpu.device.free_memory(memory, None);
            },
        }
        self.gpu.allocated.fetch_sub(self.counted, Ordering::Relaxed);
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
