//! Exit safety for hosts: their own objects, their own calls, and teardown. It must not know models.

use std::ffi::c_void;

use tintype_registry::{Kind, Stage, Teardown as Ended, Waits};

use crate::edge::{call, registry};
use crate::status::{Failure, Status};
use crate::structure::Structure;

/// How a teardown ended.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Teardown {
    /// sizeof(tintype_teardown): set it before the call.
    pub struct_size: usize,
    /// Objects that were freed.
    pub freed: u64,
    /// Objects that were left alive, because the bound ran out.
    pub left: u64,
    /// Threads that were still in a call then.
    pub in_flight: u64,
}

// SAFETY: numbers only, the first is the size.
unsafe impl Structure for Teardown {
    const NAME: &'static str = "tintype_teardown";
}

/// Tracks an object of the host, to be freed by `free_object` when the process exits: in stage 0 before
/// models, in stage 1 with them, in stage 2 after them; latest first within a stage. Tracking an address
/// again replaces its entry.
///
/// # Safety
/// `free_object(object)` may be called once, from any thread, until the object is untracked, and does not
/// unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_exit_track(
    object: *mut c_void,
    free_object: Option<unsafe extern "C" fn(object: *mut c_void)>,
    stage: u32,
) -> Status {
    call(|| {
        let stage = Stage::try_from(stage)?;
        let missing = || Failure::new(Status::Null, "free_object: there is no function");
        let free_object = free_object.ok_or_else(missing)?;
        // SAFETY: the caller's promise.
        unsafe { registry().track(object, free_object, stage) }?;
        Ok(())
    })
}

/// Forgets an object of the host. True means that it was tracked, and that the caller frees it now; false
/// means that it is being freed or was never tracked.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_exit_untrack(object: *mut c_void) -> bool {
    let mut tracked = false;
    call(|| {
        tracked = registry().untrack(object);
        Ok(())
    });
    tracked
}

/// Untracks an object of the host and calls its free function, in one call in flight. The second time it
/// does nothing. Safe as a finalizer.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_exit_free(object: *mut c_void) -> Status {
    call(|| Ok(registry().free_object(object)?))
}

/// Marks the calling thread as in a call until tintype_exit_call_end: teardown waits for it, for the long
/// bound if `creates` is true (it creates objects or works on them), else for the short one. Calls nest.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_exit_call_begin(creates: bool) -> Status {
    call(|| Ok(registry().begin(if creates { Kind::Load } else { Kind::Mark })?))
}

/// Ends the calling thread's latest marked call. If the process is ending and this was its outermost one,
/// it does not return.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_exit_call_end() -> Status {
    call(|| Ok(registry().end()?))
}

/// Sets how long teardown waits, in milliseconds, before it gives up and frees nothing: `long_ms` while a
/// load, generation or device query is in flight (15 000 at first), `short_ms` otherwise (2 000). Negative
/// means zero.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_exit_set_waits(long_ms: i64, short_ms: i64) -> Status {
    call(|| Ok(registry().set_waits(Waits::from_millis(long_ms, short_ms))?))
}

/// To be called after the host has loaded a GPU driver of its own that the library did not load: what the
/// driver registered to run at exit must run after teardown.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_exit_after_driver_load() -> Status {
    call(|| {
        let hooked = tintype_registry::hooks::after_driver_load();
        hooked.map(drop).map_err(|error| Failure::new(Status::OutOfMemory, error.to_string()))
    })
}

/// Cancels everything, waits for the calls in flight and frees what is tracked, once and for good.
/// Automatic during exit() on Linux and Apple systems; elsewhere the host calls it before the process ends.
/// Afterwards calls of this thread do nothing (TINTYPE_STATUS_CLOSED), and those of every other thread do
/// not return. TINTYPE_STATUS_TIMEOUT if the bound ran out: then nothing was freed.
///
/// # Safety
/// `ended` is null or begins with its size, has so many bytes and may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_exit_teardown(ended: *mut Teardown) -> Status {
    crate::edge::call_for(|| {
        let (freed, left, in_flight) = match registry().teardown() {
            Ended::Freed { freed, .. } => (freed, 0, 0),
            Ended::GaveUp { in_flight, tracked } => (0, tracked, in_flight),
            Ended::Idle | Ended::Over => (0, 0, 0),
        };
        if !ended.is_null() {
            let word = |count: usize| count as u64;
            let (freed, left, in_flight) = (word(freed), word(left), word(in_flight));
            // SAFETY: the caller's promise.
            unsafe { Teardown { struct_size: 0, freed, left, in_flight }.write(ended) }?;
        }
        Ok(if in_flight > 0 { Status::Timeout } else { Status::Ok })
    })
}

/// How many objects are tracked: models, requests, and what the host tracked.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_exit_tracked_count() -> usize {
    let mut count = 0;
    call(|| {
        count = registry().tracked_count();
        Ok(())
    });
    count
}
