//! Host views of buffers, without a copy. A mapping blocks submissions that would conflict with it,
//! and cannot be had while one is in flight, so a host read never races the device.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::Buffer;
use super::allocation::HostUse;
use crate::dtype::Element;
use crate::error::{Error, Result};

/// A buffer's elements, readable by the host until this is dropped.
pub struct MappedRead<T> {
    pointer: *const T,
    len: usize,
    _use: HostUse,
}

/// A buffer's elements, writable by the host until this is dropped.
pub struct MappedWrite<T> {
    pointer: *mut T,
    len: usize,
    _use: HostUse,
    _unique: PhantomData<T>,
}

// SAFETY: the mapping is plain memory that the `HostUse` keeps alive and free of device writes; it
// may be read from any thread.
unsafe impl<T: Element> Send for MappedRead<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Element> Sync for MappedRead<T> {}
// SAFETY: as above; `HostUse` keeps every other access away.
unsafe impl<T: Element> Send for MappedWrite<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Element> Sync for MappedWrite<T> {}

impl Buffer {
    pub(crate) fn map_read<T: Element>(&self) -> Result<MappedRead<T>> {
        let _use = self.allocation.begin_host(false)?;
        let pointer = self.typed_pointer::<T>()?;
        Ok(MappedRead { pointer, len: self.elements(), _use })
    }

    /// Host access for writing, where the host can see the memory. Refused while a submission uses
    /// the buffer or another mapping exists. Elements hold what was there before.
    pub fn map_write<T: Element>(&self) -> Result<MappedWrite<T>> {
        let _use = self.allocation.begin_host(true)?;
        let pointer = self.typed_pointer::<T>()?;
        Ok(MappedWrite { pointer, len: self.elements(), _use, _unique: PhantomData })
    }

    /// Whether the host can see the memory, so that it can be mapped.
    pub fn is_mappable(&self) -> bool {
        self.allocation.backend().host_pointer().is_some()
    }

    fn typed_pointer<T: Element>(&self) -> Result<*mut T> {
        if self.dtype() != T::DTYPE {
            return Err(Error::TypeMismatch {
                buffer: self.name().to_string(),
                reason: format!("holds {}, asked for {}", self.dtype(), T::DTYPE),
            });
        }
        if self.elements() == 0 {
            return Ok(std::ptr::NonNull::dangling().as_ptr());
        }
        let base = self.allocation.backend().host_pointer().ok_or_else(|| Error::Unsupported {
            device: self.allocation.device().info().name.clone(),
            what: format!("mapping buffer {}", self.name()),
            instead: "allocate it with Placement::Host, or copy with read and upload".into(),
        })?;
        // SAFETY: buffers lie inside their allocation (checked when made), so the offset does too.
        let pointer = unsafe { base.add(self.offset() as usize) }.cast::<T>();
        if !pointer.is_aligned() {
            return Err(Error::TypeMismatch {
                buffer: self.name().to_string(),
                reason: format!("byte offset {} is not aligned for {}", self.offset(), T::DTYPE),
            });
        }
        Ok(pointer)
    }
}

impl<T: Element> Deref for MappedRead<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: aligned, inside the allocation, initialised (backends zero or fill memory), any
        // bit pattern is a `T` (Pod), and `HostUse` keeps device and host writers away.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }
}

impl<T: Element> Deref for MappedWrite<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as for `MappedRead`.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }
}

impl<T: Element> DerefMut for MappedWrite<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `MappedRead`, and `HostUse` for writing is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}
