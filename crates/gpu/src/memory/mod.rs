//! Device memory as the front sees it: allocations and their state, typed buffers, checked spans,
//! pools and host mappings. It must not know kernels, and only `map` and the backends touch pointers.

mod allocation;
mod buffer;
mod map;
mod pool;
mod span;

use std::any::Any;

pub(crate) use allocation::{Allocation, lock};
pub use buffer::{Buffer, byte_len};
pub use map::{MappedRead, MappedWrite};
pub use pool::{Pool, PoolStats};
pub(crate) use span::Span;
pub use span::{Binding, ReadSpan, WriteSpan};

use crate::backend::BackendMemory;

/// Host memory that a device may view without a copy: a mapped file, a shared region.
///
/// # Safety
/// For as long as the value lives, `bytes` must return the same, initialised, unmoving memory, and
/// nothing may write to it.
pub unsafe trait HostMemory: Send + Sync + 'static {
    /// The memory.
    fn bytes(&self) -> &[u8];
}

// SAFETY: a boxed slice behind a shared reference neither moves nor changes.
unsafe impl HostMemory for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: static memory lives for ever and is not written.
unsafe impl HostMemory for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: whoever mapped the file promised (`Mmap::map` is unsafe) that nothing changes it while the
// mapping lives; the mapping does not move.
unsafe impl HostMemory for memmap2::Mmap {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Stands in for memory that was taken out of an allocation being dropped.
struct Gone;

impl BackendMemory for Gone {
    fn host_pointer(&self) -> Option<*mut u8> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
