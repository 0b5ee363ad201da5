//! A stand-in for a GPU driver, as unforgiving at exit as the real ones.
//! Metal aborts on a buffer that is alive when its statics go; NVIDIA's Vulkan crashes on a thread that is
//! still inside, or an object destroyed, after its own exit handler ran.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

static LOADED_BY: AtomicU32 = AtomicU32::new(0);
static GONE: AtomicBool = AtomicBool::new(false);
static ALIVE: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicUsize = AtomicUsize::new(0);
static MINDS_LEAKS: AtomicBool = AtomicBool::new(true);
static FREE_MS: AtomicU64 = AtomicU64::new(1);
static LINGER_MS: AtomicU64 = AtomicU64::new(20);

/// Loads the driver, which registers its own exit handler.
pub(crate) fn load() {
    LOADED_BY.store(process::id(), Ordering::SeqCst);
    // SAFETY: the handler takes nothing and does not unwind.
    assert_eq!(unsafe { libc::atexit(goes) }, 0);
}

/// From here on it is a driver that only minds being used, as NVIDIA's.
pub(crate) fn tolerate_leaks() {
    MINDS_LEAKS.store(false, Ordering::SeqCst);
}

/// From here on a free takes this long.
pub(crate) fn free_slowly(ms: u64) {
    FREE_MS.store(ms, Ordering::SeqCst);
}

/// Its exit handler takes no time, so that what remains is the registry's.
pub(crate) fn do_not_linger() {
    LINGER_MS.store(0, Ordering::SeqCst);
}

/// Whether this process is a child of the one that loaded the driver.
pub(crate) fn is_forked() -> bool {
    LOADED_BY.load(Ordering::SeqCst) != process::id()
}

extern "C" fn goes() {
    if is_forked() {
        return;
    }
    if MINDS_LEAKS.load(Ordering::SeqCst) && ALIVE.load(Ordering::SeqCst) > 0 {
        process::abort();
    }
    GONE.store(true, Ordering::SeqCst);
    // Time for a thread that is still inside to notice.
    thread::sleep(Duration::from_millis(LINGER_MS.load(Ordering::SeqCst)));
}

fn enter() {
    if GONE.load(Ordering::SeqCst) {
        process::abort();
    }
}

/// One submission: in the driver for about a millisecond.
pub(crate) fn submit() {
    enter();
    thread::sleep(Duration::from_millis(1));
    enter();
}

/// A driver object.
pub(crate) struct Buffer;

impl Buffer {
    pub(crate) fn new() -> Self {
        enter();
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        enter();
        thread::sleep(Duration::from_millis(FREE_MS.load(Ordering::SeqCst)));
        enter();
        FREED.fetch_add(1, Ordering::SeqCst);
        if ALIVE.fetch_sub(1, Ordering::SeqCst) == 0 {
            process::abort();
        }
    }
}

/// How many objects are alive, and how many were freed.
pub(crate) fn counts() -> (usize, usize) {
    (ALIVE.load(Ordering::SeqCst), FREED.load(Ordering::SeqCst))
}
