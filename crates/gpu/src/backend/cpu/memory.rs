//! Host memory as device memory: zeroed, aligned to cache lines; or an import, kept alive.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::backend::BackendMemory;
use crate::memory::HostMemory;

/// A cache line, and the widest vector.
const ALIGNMENT: usize = 64;

/// One allocation.
pub(crate) enum CpuMemory {
    /// Ours.
    Owned {
        /// Start.
        pointer: NonNull<u8>,
        /// Size and alignment, for freeing.
        layout: Layout,
    },
    /// Someone else's, read-only.
    Imported(Arc<dyn HostMemory>),
}

// SAFETY: plain memory; the front's allocation state and the executor's splits decide who touches
// it when (see `unit`).
unsafe impl Send for CpuMemory {}
// SAFETY: as above.
unsafe impl Sync for CpuMemory {}

impl CpuMemory {
    /// Zeroed memory, or `None` if the system has none. `bytes` is not zero.
    pub(crate) fn allocate(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()?;
        // SAFETY: the layout's size is not zero.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(CpuMemory::Owned { pointer, layout })
    }

    /// Start of the memory. Imported memory must not be written through it.
    pub(crate) fn pointer(&self) -> *mut u8 {
        match self {
            CpuMemory::Owned { pointer, .. } => pointer.as_ptr(),
            CpuMemory::Imported(host) => host.bytes().as_ptr().cast_mut(),
        }
    }
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        if let CpuMemory::Owned { pointer, layout } = self {
            // SAFETY: allocated with this layout in `allocate`, freed once.
            unsafe { dealloc(pointer.as_ptr(), *layout) };
        }
    }
}

impl BackendMemory for CpuMemory {
    fn host_pointer(&self) -> Option<*mut u8> {
        Some(self.pointer())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
