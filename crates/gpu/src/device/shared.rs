//! What an open device and everything made from it share: the backend, submission order, whether it
//! was lost, counters. It must not know sessions.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::{DeviceInfo, DeviceOptions, DeviceStats, MemoryInfo};
use crate::backend::{BackendDevice, BackendMemory, Placement};
use crate::error::{Error, Result};
use crate::hazard::MemoryId;
use crate::kernel::{Kernel, KernelSource, Registry};
use crate::memory::{Allocation, lock};

/// Numbers for devices and allocations, unique in the process, so that objects of two devices are
/// never confused.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Shared state of a device.
///
/// | field       | written by                         | means                                     |
/// |-------------|------------------------------------|-------------------------------------------|
/// | `queue`     | `submit`, under the lock           | serial of the last submission             |
/// | `completed` | whoever sees a completion          | every submission up to here has completed |
/// | `lost`      | the first call that sees the loss  | why; set once, never cleared              |
pub(crate) struct DeviceShared {
    // Kernels go before the backend that made them.
    kernels: Registry,
    backend: Box<dyn BackendDevice>,
    number: u64,
    queue: Mutex<u64>,
    completed: AtomicU64,
    lost: OnceLock<String>,
    allocations: AtomicI64,
    allocated: AtomicI64,
    memory_limit: Option<u64>,
}

impl DeviceShared {
    pub(super) fn new(backend: Box<dyn BackendDevice>, options: DeviceOptions) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        DeviceShared {
            kernels: Registry::new(number, options.cache),
            backend,
            number,
            queue: Mutex::new(0),
            completed: AtomicU64::new(0),
            lost: OnceLock::new(),
            allocations: AtomicI64::new(0),
            allocated: AtomicI64::new(0),
            memory_limit: options.memory_limit,
        }
    }

    pub(crate) fn backend(&self) -> &dyn BackendDevice {
        &*self.backend
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        self.backend.info()
    }

    /// Unique number of this open device.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} ({}, #{})", self.info().name, self.info().selector(), self.number)
    }

    pub(crate) fn next_memory_id(&self) -> MemoryId {
        MemoryId(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn count_allocation(&self, count: i64, bytes: i64) {
        self.allocations.fetch_add(count, Ordering::Relaxed);
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
    }

    fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed).max(0) as u64
    }

    pub(crate) fn stats(&self) -> DeviceStats {
        DeviceStats {
            allocations: self.allocations.load(Ordering::Relaxed).max(0) as u64,
            allocated: self.allocated(),
            kernels: self.kernels.len() as u64,
            submitted: *lock(&self.queue),
            completed: self.completed(),
        }
    }

    pub(crate) fn memory(&self) -> MemoryInfo {
        let MemoryInfo { mut total, mut free } = self.backend.memory();
        if let Some(limit) = self.memory_limit {
            total = total.min(limit);
            free = free.min(limit.saturating_sub(self.allocated()));
        }
        MemoryInfo { total, free: free.min(total) }
    }

    /// Refuses everything once the device is lost.
    pub(crate) fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(reason) => {
                let device = self.info().name.clone();
                Err(Error::DeviceLost { device, reason: reason.clone() })
            }
        }
    }

    /// Passes a backend's result on, remembering a loss.
    pub(crate) fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::DeviceLost { reason, .. }) = &result {
            // A second loss has nothing to add to the first.
            let _already_lost = self.lost.set(reason.clone());
        }
        result
    }

    pub(crate) fn allocate(
        &self,
        bytes: u64,
        placement: Placement,
    ) -> Result<Box<dyn BackendMemory>> {
        self.check()?;
        let info = self.info();
        if bytes > info.limits.max_allocation_bytes {
            return Err(Error::TooLarge {
                what: "an allocation",
                detail: format!(
                    "{bytes} bytes; {} allows {} at once",
                    info.name, info.limits.max_allocation_bytes
                ),
            });
        }
        let MemoryInfo { total, free } = self.memory();
        if bytes > free {
            let device = info.name.clone();
            return Err(Error::OutOfMemory { device, asked: bytes, free, total });
        }
        self.note(self.backend.allocate(bytes, placement))
    }

    pub(crate) fn kernel(
        &self,
        source: &KernelSource,
        overrides: &[(&str, f64)],
    ) -> Result<Kernel> {
        self.check()?;
        self.note(self.kernels.get(self.backend(), source, overrides))
    }

    /// Starts a submission that uses `memory` (with whether it writes), and returns its serial.
    /// Serials follow the order in which the device receives the work.
    pub(crate) fn submit(
        &self,
        memory: &[(Arc<Allocation>, bool)],
        start: impl FnOnce() -> Result<()>,
    ) -> Result<u64> {
        let mut queue = lock(&self.queue);
        let serial = *queue + 1;
        let mut marked = Vec::with_capacity(memory.len());
        let mut result = Ok(());
        for (allocation, write) in memory {
            match allocation.begin_submission(serial, *write) {
                Ok(previous) => marked.push((allocation, *write, previous)),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if let Err(error) = result.and_then(|()| self.note(start())) {
            for (allocation, write, previous) in marked {
                allocation.undo_submission(previous, write);
            }
            return Err(error);
        }
        *queue = serial;
        Ok(serial)
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Notes that every submission up to `serial` has completed: devices complete in order.
    pub(crate) fn complete(&self, serial: u64) {
        self.completed.fetch_max(serial, Ordering::AcqRel);
    }

    /// Waits for everything submitted so far.
    pub(crate) fn drain(&self, timeout: Duration) -> Result<()> {
        self.check()?;
        let serial = *lock(&self.queue);
        if self.completed() >= serial {
            return Ok(());
        }
        match self.note(self.backend.drain(timeout))? {
            true => {
                self.complete(serial);
                Ok(())
            }
            false => Err(Error::Timeout { waited: timeout }),
        }
    }
}

impl Drop for DeviceShared {
    fn drop(&mut self) {
        self.kernels.clear();
        // A cache that cannot be written costs the next start a few milliseconds, nothing else.
        let _unsaved = self.backend.save_cache();
    }
}

impl std::fmt::Debug for DeviceShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}
