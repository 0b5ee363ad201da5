//! The rules of exit safety as tests, one or more a rule, on a registry of their own.
//! Rule 12 in a real exit, rule 13 and the platforms are in `tests/exits.rs`.

mod calls;
mod objects;
mod teardown;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::{
    CancelToken, Cancelled, CreateError, Handle, Kind, Registry, RegistryError, Stage, Teardown,
    Tracked, Waits,
};

type Log = Arc<Mutex<Vec<u32>>>;

/// An object that writes its number to a log when it is freed.
struct Noted(u32, Log);

impl Tracked for Noted {}

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

fn create(registry: &Registry, stage: Stage, number: u32, log: &Log) -> Handle {
    let build = |_: &_| Ok::<_, CreateError<()>>(Noted(number, log.clone()));
    registry.create(stage, &CancelToken::new(), build).unwrap()
}

fn freed(log: &Log) -> Vec<u32> {
    log.lock().unwrap().clone()
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A registry that lives as long as threads which may never return.
fn shared() -> &'static Registry {
    Box::leak(Box::new(Registry::new()))
}

/// Runs `work` on another thread; the receiver gets its result if it returns.
fn elsewhere<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Receiver<R> {
    let (done, result) = channel();
    thread::spawn(move || done.send(work()));
    result
}

/// Runs `work` on another thread inside a call, which begins before this returns.
fn in_a_call<R: Send + 'static>(
    registry: &'static Registry,
    kind: Kind,
    work: impl FnOnce() -> R + Send + 'static,
) -> Receiver<R> {
    let (entered, wait) = channel();
    let result = elsewhere(move || {
        let call = registry.enter(kind).unwrap();
        entered.send(()).unwrap();
        let result = work();
        drop(call);
        result
    });
    wait.recv().unwrap();
    result
}

fn never_returns<R>(result: &Receiver<R>) -> bool {
    // On Linux a thread that never returns ends without running destructors, so no hang-up is seen.
    matches!(result.recv_timeout(ms(80)), Err(RecvTimeoutError::Timeout))
}
