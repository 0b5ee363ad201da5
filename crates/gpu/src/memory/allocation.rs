//! One allocation and the rule that keeps host and device apart: a small state that says whether a
//! submission or a host mapping uses it now. It must not know kernels.
//!
//! | state                    | host read | host write | submit reading | submit writing |
//! |--------------------------|-----------|------------|----------------|----------------|
//! | idle                     | yes       | yes        | yes            | yes            |
//! | mapped for reading (n)   | yes       | Mapped     | yes            | Mapped         |
//! | mapped for writing       | Mapped    | Mapped     | Mapped         | Mapped         |
//! | in flight, only read     | yes       | InFlight   | yes            | yes (queue order) |
//! | in flight, written       | InFlight  | InFlight   | yes (queue order) | yes (queue order) |

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::pool::PoolShared;
use crate::backend::{BackendMemory, Placement};
use crate::device::DeviceShared;
use crate::error::{Error, Result};
use crate::hazard::MemoryId;

/// Who uses an allocation.
#[derive(Debug, Default)]
struct Use {
    /// Serial of the last submission that reads it; 0 for none.
    last_read: u64,
    /// Serial of the last submission that writes it; 0 for none.
    last_write: u64,
    /// Host readers now.
    host_readers: u32,
    /// Whether the host writes now.
    host_writer: bool,
}

/// Device memory with an owner, an identity and a state. Shared by every buffer that views it.
pub(crate) struct Allocation {
    /// Taken out on drop when a pool takes the memory back.
    memory: Option<Box<dyn BackendMemory>>,
    device: Arc<DeviceShared>,
    pub(crate) id: MemoryId,
    pub(crate) len: u64,
    pub(crate) placement: Placement,
    pub(crate) read_only: bool,
    name: Mutex<Arc<str>>,
    used: Mutex<Use>,
    home: Weak<PoolShared>,
}

/// Locks without regard to poison: the states guarded here are plain numbers, valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Allocation {
    pub(crate) fn new(
        device: Arc<DeviceShared>,
        memory: Box<dyn BackendMemory>,
        len: u64,
        placement: Placement,
        read_only: bool,
        home: Weak<PoolShared>,
    ) -> Arc<Self> {
        let id = device.next_memory_id();
        device.count_allocation(1, len as i64);
        Arc::new(Allocation {
            memory: Some(memory),
            device,
            id,
            len,
            placement,
            read_only,
            name: Mutex::new(format!("#{}", id.0).into()),
            used: Mutex::default(),
            home,
        })
    }

    pub(crate) fn device(&self) -> &Arc<DeviceShared> {
        &self.device
    }

    pub(crate) fn backend(&self) -> &dyn BackendMemory {
        // Only `drop` takes the memory out, and nothing can be called after that.
        self.memory.as_deref().unwrap_or(&super::Gone)
    }

    pub(crate) fn name(&self) -> Arc<str> {
        lock(&self.name).clone()
    }

    pub(crate) fn rename(&self, name: &str) {
        *lock(&self.name) = name.into();
    }

    /// Marks the allocation as used by submission `serial`; returns the mark it had, for
    /// [`Self::undo_submission`]. Called under the device's queue lock.
    pub(crate) fn begin_submission(&self, serial: u64, write: bool) -> Result<u64> {
        let mut used = lock(&self.used);
        if used.host_writer || (write && used.host_readers > 0) {
            return Err(Error::Mapped { buffer: self.name().to_string() });
        }
        let last = if write { &mut used.last_write } else { &mut used.last_read };
        Ok(std::mem::replace(last, serial))
    }

    /// Takes back the mark of a submission that did not start.
    pub(crate) fn undo_submission(&self, previous: u64, write: bool) {
        let mut used = lock(&self.used);
        let last = if write { &mut used.last_write } else { &mut used.last_read };
        *last = previous;
    }

    /// Starts a host access; the guard ends it. Fails while a conflicting submission is in flight.
    pub(crate) fn begin_host(self: &Arc<Self>, write: bool) -> Result<HostUse> {
        let completed = self.device.completed();
        let mut used = lock(&self.used);
        let blocker = if write { used.last_write.max(used.last_read) } else { used.last_write };
        if blocker > completed {
            return Err(Error::InFlight { buffer: self.name().to_string() });
        }
        if used.host_writer || (write && used.host_readers > 0) {
            return Err(Error::Mapped { buffer: self.name().to_string() });
        }
        if write {
            if self.read_only {
                return Err(Error::ReadOnly { buffer: self.name().to_string() });
            }
            used.host_writer = true;
        } else {
            used.host_readers += 1;
        }
        Ok(HostUse { allocation: self.clone(), write })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.device.count_allocation(-1, -(self.len as i64));
        if let Some(memory) = self.memory.take()
            && let Some(pool) = self.home.upgrade()
        {
            pool.give_back(memory, self.len, self.placement);
        }
    }
}

/// A host access in progress.
pub(crate) struct HostUse {
    pub(crate) allocation: Arc<Allocation>,
    write: bool,
}

impl Drop for HostUse {
    fn drop(&mut self) {
        let mut used = lock(&self.allocation.used);
        if self.write {
            used.host_writer = false;
        } else {
            used.host_readers -= 1;
        }
    }
}
