//! The only door to locks, atomics, time and threads: std outside, loom's models under `cfg(loom)`.
//! Owns how a thread waits and how it never returns; must not know what is being protected.

use std::time::Duration;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicBool;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicBool;

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

/// A moment: the time since the process first asked.
pub(crate) type Time = Duration;

/// Names a thread for as long as the process lives; never used twice.
pub(crate) type ThreadKey = u64;

/// A held lock.
pub(crate) type Guard<'a, T> = MutexGuard<'a, T>;

/// The one lock of a registry, with the condition that its calls in flight changed.
pub(crate) struct Lock<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Condvar::new() }
    }

    /// Nothing that can panic runs while the lock is held, so a poisoned lock is still whole.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.value.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets go of the lock until something changed or `deadline` came; may wake early.
    #[cfg(not(loom))]
    pub(crate) fn wait_until<'a>(&'a self, held: Guard<'a, T>, deadline: Time) -> Guard<'a, T> {
        let left = deadline.saturating_sub(now());
        match self.changed.wait_timeout(held, left) {
            Ok((held, _)) => held,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }

    /// Loom has no time: a wait is a chance for every other thread to run.
    #[cfg(loom)]
    pub(crate) fn wait_until<'a>(&'a self, held: Guard<'a, T>, _deadline: Time) -> Guard<'a, T> {
        drop(held);
        loom::thread::yield_now();
        self.lock()
    }

    /// Lets go of the lock until something changed.
    pub(crate) fn wait<'a>(&'a self, held: Guard<'a, T>) -> Guard<'a, T> {
        self.changed.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn wake_all(&self) {
        self.changed.notify_all();
    }
}

/// The present moment on a clock that never goes back.
#[cfg(not(loom))]
pub(crate) fn now() -> Time {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Under loom the clock stands still, so that a bound other than zero never runs out.
#[cfg(loom)]
pub(crate) fn now() -> Time {
    Duration::ZERO
}

/// A wait that only real time can end: as given, but none where the clock stands still.
pub(crate) const fn real_time(wait: Duration) -> Duration {
    if cfg!(loom) { Duration::ZERO } else { wait }
}

/// The calling thread's key. Works in thread-local destructors and exit handlers too: the cell has
/// no destructor of its own.
#[cfg(not(loom))]
pub(crate) fn thread_key() -> ThreadKey {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static KEY: Cell<u64> = const { Cell::new(0) });
    KEY.with(|key| {
        if key.get() == 0 {
            key.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        key.get()
    })
}

/// Loom's thread ids show their number only through `Debug`.
#[cfg(loom)]
pub(crate) fn thread_key() -> ThreadKey {
    let shown = format!("{:?}", loom::thread::current().id());
    shown
        .chars()
        .filter(char::is_ascii_digit)
        .fold(1, |key, digit| key * 10 + u64::from(digit.to_digit(10).unwrap_or_default()))
}

/// Never returns to the caller; how is the platform's business (see `hooks`).
#[cfg(not(loom))]
pub(crate) fn never_return() -> ! {
    crate::hooks::never_return()
}

/// Under loom a thread that never returns unwinds out of its model with [`NeverReturned`].
#[cfg(loom)]
pub(crate) fn never_return() -> ! {
    std::panic::resume_unwind(Box::new(crate::NeverReturned))
}
