//! Recycles device memory in power-of-two buckets, up to a bound. For what comes and goes each pass;
//! weights are allocated exactly, without a pool. It must not know what buffers hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::allocation::{Allocation, lock};
use super::buffer::{Buffer, byte_len};
use crate::backend::{BackendMemory, Placement};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Smallest bucket: below this, rounding up wastes less than bookkeeping costs.
const SMALLEST_BUCKET: u64 = 256;

/// Counters of a pool. Bytes are bucket sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStats {
    /// Requests answered from a free bucket.
    pub hits: u64,
    /// Requests that allocated.
    pub misses: u64,
    /// Memory given back that the bound made the pool free.
    pub evictions: u64,
    /// Bytes lent out now.
    pub lent: u64,
    /// Bytes kept for reuse now; never more than the bound.
    pub kept: u64,
    /// Largest `lent` seen.
    pub peak_lent: u64,
}

#[derive(Default)]
struct Shelf {
    free: HashMap<(u64, Placement), Vec<Box<dyn BackendMemory>>>,
    stats: PoolStats,
}

/// The part of a pool that allocations point home to.
pub(crate) struct PoolShared {
    bound: u64,
    shelf: Mutex<Shelf>,
}

impl PoolShared {
    /// Takes memory back from a dropped allocation, or frees it when the bound is reached.
    pub(crate) fn give_back(&self, memory: Box<dyn BackendMemory>, len: u64, placement: Placement) {
        let mut shelf = lock(&self.shelf);
        shelf.stats.lent -= len;
        if shelf.stats.kept.saturating_add(len) > self.bound {
            shelf.stats.evictions += 1;
            drop(shelf);
            drop(memory);
            return;
        }
        shelf.stats.kept += len;
        shelf.free.entry((len, placement)).or_default().push(memory);
    }
}

/// A bounded recycler of buffers for one device. Clones share it.
#[derive(Clone)]
pub struct Pool {
    // Declared before `device`: kept memory is freed while its device is still open.
    shared: Arc<PoolShared>,
    device: Device,
}

impl Pool {
    /// A pool that keeps at most `bound` bytes for reuse.
    pub fn new(device: &Device, bound: u64) -> Self {
        let shared = PoolShared { bound, shelf: Mutex::default() };
        Pool { shared: Arc::new(shared), device: device.clone() }
    }

    /// A buffer whose memory comes back here when its last user is gone. Contents are unspecified.
    pub fn buffer(&self, dtype: DType, shape: &[usize], placement: Placement) -> Result<Buffer> {
        let bytes = byte_len(dtype, shape)?;
        let bucket =
            bytes.max(SMALLEST_BUCKET).checked_next_power_of_two().ok_or(Error::TooLarge {
                what: "a pooled buffer",
                detail: format!("{bytes} bytes have no power-of-two bucket"),
            })?;
        let memory = match self.take(bucket, placement) {
            Some(memory) => memory,
            None => self.allocate(bucket, placement)?,
        };
        let home = Arc::downgrade(&self.shared);
        let device = self.device.shared().clone();
        let allocation = Allocation::new(device, memory, bucket, placement, false, home);
        Ok(Buffer::whole(allocation, dtype, shape, bytes))
    }

    /// Counters now.
    pub fn stats(&self) -> PoolStats {
        lock(&self.shared.shelf).stats
    }

    /// Frees everything kept.
    pub fn trim(&self) {
        let mut shelf = lock(&self.shared.shelf);
        shelf.stats.kept = 0;
        let free = std::mem::take(&mut shelf.free);
        drop(shelf);
        drop(free);
    }

    fn take(&self, bucket: u64, placement: Placement) -> Option<Box<dyn BackendMemory>> {
        let mut shelf = lock(&self.shared.shelf);
        let memory = shelf.free.get_mut(&(bucket, placement))?.pop()?;
        shelf.stats.kept -= bucket;
        shelf.stats.hits += 1;
        lend(&mut shelf.stats, bucket);
        Some(memory)
    }

    /// Allocates; when memory is short, frees what is kept and tries once more.
    fn allocate(&self, bucket: u64, placement: Placement) -> Result<Box<dyn BackendMemory>> {
        let device = self.device.shared();
        let memory = match device.allocate(bucket, placement) {
            Err(Error::OutOfMemory { .. }) => {
                self.trim();
                device.allocate(bucket, placement)?
            }
            other => other?,
        };
        let mut shelf = lock(&self.shared.shelf);
        shelf.stats.misses += 1;
        lend(&mut shelf.stats, bucket);
        Ok(memory)
    }
}

fn lend(stats: &mut PoolStats, bucket: u64) {
    stats.lent += bucket;
    stats.peak_lent = stats.peak_lent.max(stats.lent);
}
