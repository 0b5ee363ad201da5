//! Buffers: shared ones that the host sees, private ones of discrete GPUs, and imports of host
//! memory. All untracked: the front orders what uses them.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};

use super::gpu::Gpu;
use super::physical::page_size;
use crate::backend::{BackendMemory, Placement};
use crate::error::{Error, Result};
use crate::memory::HostMemory;

/// A retained buffer that threads may share.
#[derive(Clone)]
#[repr(transparent)]
pub(super) struct SharedBuffer(pub(super) Retained<ProtocolObject<dyn MTLBuffer>>);

// SAFETY: Metal lets any thread use a buffer object; only its contents need care, and who uses those
// when is the front's rule.
unsafe impl Send for SharedBuffer {}
// SAFETY: as above.
unsafe impl Sync for SharedBuffer {}

/// One buffer. Released before the device.
pub(super) struct MetalMemory {
    buffer: SharedBuffer,
    /// Where the host sees it.
    mapped: Option<NonNull<u8>>,
    _gpu: Arc<Gpu>,
}

// SAFETY: the mapping lives as long as the buffer; who uses it when is the front's rule.
unsafe impl Send for MetalMemory {}
// SAFETY: as above.
unsafe impl Sync for MetalMemory {}

impl MetalMemory {
    pub(super) fn allocate(gpu: &Arc<Gpu>, bytes: u64, placement: Placement) -> Result<Self> {
        let host = placement == Placement::Host || gpu.info().features.unified_memory;
        let storage = match host {
            true => MTLResourceOptions::StorageModeShared,
            false => MTLResourceOptions::StorageModePrivate,
        };
        let options = storage | MTLResourceOptions::HazardTrackingModeUntracked;
        autoreleasepool(|_| {
            // Apple's reference says that the method clears the buffer, so the host may look at it.
            let buffer = usize::try_from(bytes)
                .ok()
                .and_then(|bytes| gpu.device.newBufferWithLength_options(bytes, options))
                .ok_or_else(|| gpu.out_of_memory(bytes))?;
            let mapped = host.then(|| buffer.contents().cast());
            Ok(MetalMemory { buffer: SharedBuffer(buffer), mapped, _gpu: gpu.clone() })
        })
    }

    /// A buffer over host memory. Metal itself holds `host`, until the buffer is really gone.
    pub(super) fn import(gpu: &Arc<Gpu>, host: Arc<dyn HostMemory>) -> Result<Self> {
        let unsupported = |what: String| Error::Unsupported {
            device: gpu.info().name.clone(),
            what,
            instead: "allocate a buffer and upload into it".into(),
        };
        if !gpu.info().features.import_host {
            return Err(unsupported("importing host memory".into()));
        }
        let page = page_size();
        let bytes = host.bytes();
        let start = NonNull::from(bytes).cast::<u8>();
        if !start.addr().get().is_multiple_of(page) {
            return Err(unsupported(format!(
                "importing host memory that is not aligned to {page} bytes"
            )));
        }
        // Pages are whole: what lies behind the end in the last one is never accessed.
        let whole = bytes.len().checked_next_multiple_of(page);
        let whole = whole.filter(|&whole| whole as u64 <= gpu.info().limits.max_allocation_bytes);
        let Some(whole) = whole else {
            return Err(unsupported(format!("importing {} bytes at once", bytes.len())));
        };
        let released = RcBlock::new(move |_: NonNull<c_void>, _: usize| {
            // Metal drops the block, and the memory with it, after this call.
            let _held: &Arc<dyn HostMemory> = &host;
        });
        let options =
            MTLResourceOptions::StorageModeShared | MTLResourceOptions::HazardTrackingModeUntracked;
        autoreleasepool(|_| {
            // SAFETY: the memory is whole pages and stays valid and unchanged while `host` lives,
            // which the block holds as long as the buffer; `host` may be dropped on any thread. The
            // front marks the buffer read-only.
            let buffer = unsafe {
                gpu.device.newBufferWithBytesNoCopy_length_options_deallocator(
                    start.cast(),
                    whole,
                    options,
                    Some(&released),
                )
            }
            .ok_or_else(|| unsupported("importing this host memory".into()))?;
            let buffer = SharedBuffer(buffer);
            Ok(MetalMemory { buffer, mapped: Some(start), _gpu: gpu.clone() })
        })
    }

    pub(super) fn buffer(&self) -> &SharedBuffer {
        &self.buffer
    }
}

impl BackendMemory for MetalMemory {
    fn host_pointer(&self) -> Option<*mut u8> {
        self.mapped.map(NonNull::as_ptr)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// This backend's own type behind the front's.
pub(super) fn own(memory: &dyn BackendMemory) -> Result<&MetalMemory> {
    memory.as_any().downcast_ref().ok_or(Error::Driver {
        backend: "metal",
        call: "memory",
        code: "memory of another backend".into(),
    })
}
