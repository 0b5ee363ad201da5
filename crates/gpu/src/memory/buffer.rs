//! Typed views of device memory: a buffer is an allocation, a byte offset, a type and a shape.
//! It must not know strides or operations.

use std::sync::Arc;

use super::allocation::Allocation;
use super::span::{ReadSpan, Span, WriteSpan};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::hazard::MemoryId;

/// A typed, contiguous piece of device memory. Cloning shares the memory. The memory is freed, or
/// goes back to its pool, when the last view and the last submission that uses it are gone.
#[derive(Clone)]
pub struct Buffer {
    pub(crate) allocation: Arc<Allocation>,
    offset: u64,
    bytes: u64,
    dtype: DType,
    shape: Box<[usize]>,
}

/// Bytes that a dtype and shape take; refuses overflow and partial blocks (blocks run along the
/// last axis).
pub fn byte_len(dtype: DType, shape: &[usize]) -> Result<u64> {
    let too_large = || Error::TooLarge {
        what: "a buffer",
        detail: format!("{dtype} {shape:?} does not fit in 64 bits"),
    };
    let block = dtype.block_elements();
    let last = shape.last().copied().unwrap_or(1) as u64;
    if !last.is_multiple_of(block) {
        return Err(Error::TypeMismatch {
            buffer: "(new)".into(),
            reason: format!(
                "{dtype} holds blocks of {block} elements along the last axis, shape is {shape:?}"
            ),
        });
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let elements = shape
        .iter()
        .try_fold(1u64, |product, &extent| product.checked_mul(extent as u64))
        .ok_or_else(too_large)?;
    dtype.bytes_for(elements).filter(|&bytes| bytes <= i64::MAX as u64).ok_or_else(too_large)
}

impl Buffer {
    pub(crate) fn whole(
        allocation: Arc<Allocation>,
        dtype: DType,
        shape: &[usize],
        bytes: u64,
    ) -> Self {
        Buffer { allocation, offset: 0, bytes, dtype, shape: shape.into() }
    }

    /// Type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Start in the allocation, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Identity of the allocation, shared by all views of it.
    pub fn memory_id(&self) -> MemoryId {
        self.allocation.id
    }

    /// Name used in errors; `#` and a number until one is given.
    pub fn name(&self) -> Arc<str> {
        self.allocation.name()
    }

    /// Names the allocation, for errors and debuggers. All views share the name.
    pub fn named(self, name: &str) -> Self {
        self.allocation.rename(name);
        self
    }

    /// Whether the memory was imported and must not be written.
    pub fn is_read_only(&self) -> bool {
        self.allocation.read_only
    }

    /// The same memory from `offset` bytes into this buffer, as another type and shape.
    pub fn view(&self, offset: u64, dtype: DType, shape: &[usize]) -> Result<Buffer> {
        let bytes = byte_len(dtype, shape)?;
        let end = offset
            .checked_add(bytes)
            .filter(|&end| end <= self.bytes)
            .ok_or_else(|| self.out_of_bounds(offset, offset.saturating_add(bytes)))?;
        debug_assert!(end <= self.bytes);
        Ok(Buffer {
            allocation: self.allocation.clone(),
            offset: self.offset + offset,
            bytes,
            dtype,
            shape: shape.into(),
        })
    }

    /// The same elements in another shape.
    pub fn reshape(&self, shape: &[usize]) -> Result<Buffer> {
        let bytes = byte_len(self.dtype, shape)?;
        if bytes != self.bytes {
            return Err(Error::TypeMismatch {
                buffer: self.name().to_string(),
                reason: format!("cannot reshape {:?} to {shape:?}", self.shape),
            });
        }
        Ok(Buffer { shape: shape.into(), ..self.clone() })
    }

    /// All of it, for reading.
    pub fn read(&self) -> ReadSpan {
        ReadSpan(self.span())
    }

    /// All of it, for writing (or updating in place).
    pub fn write(&self) -> WriteSpan {
        WriteSpan(self.span())
    }

    /// Bytes `start..end` of it, for reading.
    pub fn read_bytes(&self, start: u64, end: u64) -> Result<ReadSpan> {
        self.slice(start, end).map(ReadSpan)
    }

    /// Bytes `start..end` of it, for writing.
    pub fn write_bytes(&self, start: u64, end: u64) -> Result<WriteSpan> {
        self.slice(start, end).map(WriteSpan)
    }

    fn span(&self) -> Span {
        Span {
            allocation: self.allocation.clone(),
            start: self.offset,
            end: self.offset + self.bytes,
        }
    }

    fn slice(&self, start: u64, end: u64) -> Result<Span> {
        if start > end || end > self.bytes {
            return Err(self.out_of_bounds(start, end));
        }
        Ok(Span {
            allocation: self.allocation.clone(),
            start: self.offset + start,
            end: self.offset + end,
        })
    }

    fn out_of_bounds(&self, start: u64, end: u64) -> Error {
        Error::OutOfBounds { buffer: self.name().to_string(), start, end, len: self.bytes }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} {} {:?} at {})", self.name(), self.dtype, self.shape, self.offset)
    }
}
