//! What the registry holds of a tracked object: its stage, its way to be freed, its cancel flag.
//! Owns the act of freeing; must not know when, nor any lock.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::{CancelToken, RegistryError};

/// When an object is freed at teardown, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// 0: uses a context (an app's own object over one); freed first.
    User = 0,
    /// 1: a context, as a loaded model.
    Context = 1,
    /// 2: what contexts use, as a device; freed last.
    Device = 2,
}

impl TryFrom<u32> for Stage {
    type Error = RegistryError;

    fn try_from(stage: u32) -> Result<Self, RegistryError> {
        match stage {
            0 => Ok(Self::User),
            1 => Ok(Self::Context),
            2 => Ok(Self::Device),
            other => Err(RegistryError::UnknownStage(other)),
        }
    }
}

/// A native caller's way to free its object.
pub type FreeFn = unsafe extern "C" fn(object: *mut c_void);

/// An object that the registry owns.
///
/// Its `Drop` frees it and must not wait for a thread that may enter the registry.
pub trait Tracked: Any + Send + Sync {
    /// Releases whatever must not outlive the process's exit handlers (driver objects), in place.
    ///
    /// Called at most once, and only when `exit()` was called from inside a call on this very object, by
    /// a callback say: the frames below still borrow it, never run again, and may hold its locks, so use
    /// `try_lock` here. By default the object's memory is left to the end of the process.
    fn release_at_exit(&self) {}
}

/// Whether the frames of a thread in teardown will run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The host called teardown, and goes on.
    Host,
    /// The process is in `exit()`, which never returns to its caller.
    Exit,
}

pub(crate) enum Payload {
    Native { object: *mut c_void, free: FreeFn },
    Owned(Arc<dyn Tracked>),
}

// SAFETY: an owned object is Send and Sync; a native one is an address which is only ever handed to its
// free function, and `Registry::track` obliges the caller to give one that any thread may call.
unsafe impl Send for Payload {}

/// One tracked object.
pub(crate) struct Entry {
    pub(crate) stage: Stage,
    pub(crate) token: CancelToken,
    pub(crate) payload: Payload,
}

impl Entry {
    /// The address under which a native object is tracked.
    pub(crate) fn address(&self) -> Option<usize> {
        match &self.payload {
            Payload::Native { object, .. } => Some(*object as usize),
            Payload::Owned(_) => None,
        }
    }

    /// Frees the object on behalf of its owner. An owned object that a call is using ends with that call.
    pub(crate) fn free(self) {
        match self.payload {
            Payload::Owned(object) => drop(object),
            // SAFETY: the entry was just taken out of the registry, so this is the only call of the free
            // function; the address was live when tracked, and `track` obliges the caller to untrack it
            // before freeing it otherwise.
            Payload::Native { object, free } => unsafe { free(object) },
        }
    }

    /// Frees the object at teardown; returns whether its destructor did not panic.
    pub(crate) fn free_at_teardown(self, origin: Origin) -> bool {
        catch_unwind(AssertUnwindSafe(|| match self.payload {
            // No other thread is in a call, so the other owner is a frame of this thread.
            Payload::Owned(ref object)
                if origin == Origin::Exit && Arc::strong_count(object) > 1 =>
            {
                object.release_at_exit();
            }
            _ => self.free(),
        }))
        .is_ok()
    }
}
