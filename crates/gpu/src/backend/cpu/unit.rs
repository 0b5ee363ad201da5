//! What a CPU kernel sees of its dispatch: one unit's share. Reads are whole spans; writes are the
//! part that this unit owns, so units may run concurrently in safe code.
//!
//! Why the slices are sound, whatever a kernel does:
//! - no two concurrent dispatches touch common bytes with a write among them (the executor runs
//!   conflicting dispatches one after another, in every ordering mode);
//! - within a dispatch, written slots overlap no other slot (checked when recorded), and the parts
//!   of two units are disjoint (checked when recorded, see `Split::covers`, and cut here);
//! - within a unit, each written slot is handed out once;
//! - the host cannot map or copy what a submission in flight writes (the allocation's state).

use std::cell::Cell;
use std::marker::PhantomData;

use crate::session::{CpuGrid, Split};

/// Why a unit could not run. The pass ends with [`crate::Error::KernelFailed`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The kernel asked for a slot in a way that it is not bound.
    #[error("slot {slot}: {reason}")]
    Slot {
        /// Position of the slot.
        slot: usize,
        /// What was asked and what is there.
        reason: String,
    },
    /// The immediates have another size than the kernel asked for.
    #[error("immediates are {given} bytes, the kernel reads {asked}")]
    Immediates {
        /// Bytes given.
        given: usize,
        /// Bytes asked for.
        asked: usize,
    },
    /// The kernel's own reason.
    #[error("{0}")]
    Kernel(String),
}

/// A bound span, resolved to an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawSpan {
    pub(super) pointer: *mut u8,
    pub(super) len: usize,
    pub(super) write: bool,
    /// Position among the written slots.
    pub(super) split: usize,
}

// SAFETY: an address; using it is what the module's rules govern.
unsafe impl Send for RawSpan {}
// SAFETY: as above.
unsafe impl Sync for RawSpan {}

/// One unit of a dispatch, as its kernel sees it.
pub struct Unit<'a> {
    pub(super) index: u32,
    pub(super) grid: &'a CpuGrid,
    pub(super) spans: &'a [RawSpan],
    pub(super) immediates: &'a [u8],
    /// Bit `n` is set once slot `n` has been handed out for writing.
    pub(super) taken: Cell<u64>,
}

impl<'a> Unit<'a> {
    /// Which unit this is: `0..units`.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Units of the dispatch.
    pub fn units(&self) -> u32 {
        self.grid.units
    }

    /// The immediates as the kernel's own struct.
    pub fn immediates<T: bytemuck::AnyBitPattern>(&self) -> Result<T, UnitError> {
        bytemuck::try_pod_read_unaligned(self.immediates).map_err(|_| UnitError::Immediates {
            given: self.immediates.len(),
            asked: size_of::<T>(),
        })
    }

    /// All of a slot that is only read.
    pub fn read<T: bytemuck::AnyBitPattern>(&self, slot: usize) -> Result<&'a [T], UnitError> {
        let span = self.span(slot)?;
        if span.write {
            return Err(refuse(slot, "is bound for writing; take it with `write`"));
        }
        // SAFETY: nothing writes these bytes while the dispatch runs (module rules).
        let bytes = unsafe { std::slice::from_raw_parts(span.pointer, span.len) };
        cast(slot, bytes)
    }

    /// This unit's part of a written slot split whole or in chunks; it holds what was there before.
    /// Each slot can be taken once. Units past the end of the span get an empty slice.
    pub fn write<T: bytemuck::Pod>(&self, slot: usize) -> Result<&'a mut [T], UnitError> {
        let (span, split) = self.take(slot)?;
        let (start, end) = match split {
            Split::Whole => (0, span.len),
            Split::Chunks(chunk) => {
                let start = chunk.saturating_mul(self.index.into()).min(span.len as u64);
                (start as usize, start.saturating_add(chunk).min(span.len as u64) as usize)
            }
            Split::Tiles { .. } => {
                return Err(refuse(slot, "is split in tiles; take it with `rows`"));
            }
        };
        // SAFETY: `start..end` lies in the span and belongs to this unit alone (module rules).
        let bytes = unsafe { std::slice::from_raw_parts_mut(span.pointer.add(start), end - start) };
        bytemuck::try_cast_slice_mut(bytes)
            .map_err(|error| refuse(slot, &format!("cannot be viewed as asked: {error}")))
    }

    /// This unit's tile of a written slot split in tiles.
    pub fn rows<T: bytemuck::Pod>(&self, slot: usize) -> Result<Rows<'a, T>, UnitError> {
        let (span, split) = self.take(slot)?;
        let Split::Tiles { row_bytes, tile_rows, tile_bytes, columns } = split else {
            return Err(refuse(slot, "is not split in tiles; take it with `write`"));
        };
        let rows = span.len as u64 / row_bytes;
        let (y, x) = (u64::from(self.index / columns), u64::from(self.index % columns));
        let first_row = tile_rows.saturating_mul(y).min(rows);
        let last_row = first_row.saturating_add(tile_rows).min(rows);
        let first_byte = tile_bytes.saturating_mul(x).min(row_bytes);
        let last_byte = first_byte.saturating_add(tile_bytes).min(row_bytes);
        let size = size_of::<T>() as u64;
        let aligned = (span.pointer as u64).is_multiple_of(align_of::<T>() as u64)
            && [row_bytes, first_byte, last_byte].iter().all(|n| n.is_multiple_of(size.max(1)));
        if !aligned || size == 0 {
            return Err(refuse(slot, "is not aligned for the asked element"));
        }
        Ok(Rows {
            // SAFETY: `first_byte` and the rows lie in the span.
            start: unsafe { span.pointer.add((first_row * row_bytes + first_byte) as usize) },
            row_bytes: row_bytes as usize,
            rows: (last_row - first_row) as usize,
            columns: ((last_byte - first_byte) / size) as usize,
            first_row: first_row as usize,
            first_column: (first_byte / size) as usize,
            _owned: PhantomData,
        })
    }

    /// Whether a written slot is split in tiles (take it with [`Self::rows`]) or not (with
    /// [`Self::write`]).
    pub fn write_is_tiled(&self, slot: usize) -> bool {
        let split = self.spans.get(slot).and_then(|span| self.grid.splits.get(span.split));
        matches!(split, Some(Split::Tiles { .. }))
    }

    fn span(&self, slot: usize) -> Result<RawSpan, UnitError> {
        self.spans.get(slot).copied().ok_or_else(|| refuse(slot, "is not bound"))
    }

    fn take(&self, slot: usize) -> Result<(RawSpan, Split), UnitError> {
        let span = self.span(slot)?;
        if !span.write {
            return Err(refuse(slot, "is bound for reading only"));
        }
        let bit = 1u64.checked_shl(slot as u32).unwrap_or(0);
        if bit == 0 || self.taken.get() & bit != 0 {
            return Err(refuse(slot, "was taken before"));
        }
        self.taken.set(self.taken.get() | bit);
        Ok((span, self.grid.splits.get(span.split).copied().unwrap_or(Split::Whole)))
    }
}

/// A unit's tile: rows of elements that it alone may write.
pub struct Rows<'a, T> {
    start: *mut u8,
    row_bytes: usize,
    rows: usize,
    columns: usize,
    first_row: usize,
    first_column: usize,
    _owned: PhantomData<&'a mut [T]>,
}

impl<'a, T: bytemuck::Pod> Rows<'a, T> {
    /// All of a slice as rows of `columns` elements; what is left over at the end is left out.
    pub fn of(slice: &'a mut [T], columns: usize) -> Self {
        let columns = columns.max(1);
        Rows {
            rows: slice.len() / columns,
            start: slice.as_mut_ptr().cast(),
            row_bytes: columns * size_of::<T>(),
            columns,
            first_row: 0,
            first_column: 0,
            _owned: PhantomData,
        }
    }

    /// Rows in the tile; may be 0 at the edge.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Elements in each row of the tile.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Where the tile begins, in rows.
    pub fn first_row(&self) -> usize {
        self.first_row
    }

    /// Where the tile begins, in elements of a row.
    pub fn first_column(&self) -> usize {
        self.first_column
    }

    /// Distance between rows, in elements.
    pub fn stride(&self) -> usize {
        self.row_bytes / size_of::<T>()
    }

    /// One row of the tile, counted from its own first.
    pub fn row(&mut self, row: usize) -> Option<&mut [T]> {
        if row >= self.rows {
            return None;
        }
        // SAFETY: inside the tile, which is inside the span, aligned (checked when made), this
        // unit's alone, and borrowed through `&mut self` one row at a time.
        Some(unsafe {
            let start = self.start.add(row * self.row_bytes).cast::<T>();
            std::slice::from_raw_parts_mut(start, self.columns)
        })
    }

    /// Address of the tile's first element, for kernels that write through pointers. Rows are
    /// [`Self::stride`] elements apart; only this tile's elements may be touched through it.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.start.cast()
    }
}

fn cast<T: bytemuck::AnyBitPattern>(slot: usize, bytes: &[u8]) -> Result<&[T], UnitError> {
    bytemuck::try_cast_slice(bytes)
        .map_err(|error| refuse(slot, &format!("cannot be viewed as asked: {error}")))
}

fn refuse(slot: usize, reason: &str) -> UnitError {
    UnitError::Slot { slot, reason: reason.into() }
}
