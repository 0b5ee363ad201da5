//! Every interleaving of load, generate, cancel, free and teardown on three threads, by loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p tintype-registry --test loom --release`.
//! A native object here is a cell that loom watches: used and freed without order is an error.
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test, beyond what clippy takes for one")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};
use tintype_registry::{
    CancelToken, Handle, Kind, NeverReturned, Registry, RegistryError, Stage, Teardown, Tracked,
    Waits,
};

/// Plays every interleaving; with a bound, those with that many switches away from a thread that could
/// have gone on. Only models in which work spins until it is cancelled need one.
fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    let played = Arc::new(AtomicUsize::new(0));
    let count = played.clone();
    builder.check(move || {
        count.fetch_add(1, Ordering::SeqCst);
        model();
    });
    println!("{} interleavings", played.load(Ordering::SeqCst));
}

/// `None` from a thread that never returned.
fn spawn<R: 'static>(work: impl FnOnce() -> R + 'static) -> JoinHandle<Option<R>> {
    thread::spawn(move || match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<NeverReturned>() => None,
        Err(payload) => resume_unwind(payload),
    })
}

fn join<R>(thread: JoinHandle<Option<R>>) -> Option<R> {
    thread.join().unwrap()
}

/// Counts its frees.
struct Owned(Arc<AtomicUsize>);

impl Tracked for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Counts {
    created: AtomicUsize,
    freed: Arc<AtomicUsize>,
}

impl Counts {
    /// Rule 5: as teardown returns, every object is either freed or not begun.
    fn nothing_is_left(&self) {
        let created = self.created.load(Ordering::SeqCst);
        assert_eq!(self.freed.load(Ordering::SeqCst), created, "alive after teardown");
    }
}

fn create(registry: &Registry, counts: &Counts) -> Result<Handle, ()> {
    let build = |_: &CancelToken| {
        counts.created.fetch_add(1, Ordering::SeqCst);
        Ok::<_, ()>(Owned(counts.freed.clone()))
    };
    registry.create(Stage::Context, &CancelToken::new(), build).map_err(|_| ())
}

/// Works until it is told to stop, and reports that.
fn generate(registry: &Registry, handle: Handle) -> Result<(), RegistryError> {
    let object = registry.open::<Owned>(handle, Kind::Generate)?;
    while object.check().is_ok() {
        thread::yield_now();
    }
    assert_eq!(object.0.load(Ordering::SeqCst), 0, "freed in use");
    object.call().token().unwrap().take();
    Ok(())
}

/// A native object: an address, watched by loom.
struct Native {
    memory: UnsafeCell<u32>,
    frees: AtomicUsize,
}

// SAFETY: loom checks that the cell is not used and freed at once; the count is atomic.
unsafe impl Sync for Native {}
// SAFETY: as above.
unsafe impl Send for Native {}

impl Native {
    fn new() -> Arc<Self> {
        Arc::new(Self { memory: UnsafeCell::new(0), frees: AtomicUsize::new(0) })
    }

    fn address(self: &Arc<Self>) -> *mut c_void {
        Arc::as_ptr(self) as *mut c_void
    }

    fn touch(&self) {
        assert_eq!(self.frees.load(Ordering::SeqCst), 0, "used after its free");
        // SAFETY: loom reports a concurrent write.
        self.memory.with(|memory| unsafe { *memory });
    }

    fn track(self: &Arc<Self>, registry: &Registry) -> Result<bool, RegistryError> {
        // SAFETY: the model keeps the memory itself alive until its end.
        unsafe { registry.track(self.address(), free_native, Stage::User) }
    }
}

unsafe extern "C" fn free_native(object: *mut c_void) {
    // SAFETY: the model tracks only addresses of live `Native`s.
    let native = unsafe { &*object.cast::<Native>() };
    // SAFETY: loom reports a concurrent use.
    native.memory.with_mut(|memory| unsafe { *memory += 1 });
    assert_eq!(native.frees.fetch_add(1, Ordering::SeqCst), 0, "freed twice");
}

/// Rules 1, 2, 5, 6: whatever a load returns, or does not, is freed once.
#[test]
fn load_against_cancel_and_free_against_teardown() {
    explore(None, || {
        let registry = Arc::new(Registry::new());
        let counts = Arc::new(Counts::default());
        let early = create(&registry, &counts).unwrap();
        let (theirs, count) = (registry.clone(), counts.clone());
        let loader = spawn(move || create(&theirs, &count).is_ok());
        let theirs = registry.clone();
        let freer = spawn(move || {
            let cancelled = theirs.cancel(early);
            (cancelled, theirs.free(early))
        });
        let ended = registry.teardown();
        counts.nothing_is_left();
        join(loader);
        if let Some((cancelled, freed)) = join(freer) {
            assert_eq!((cancelled, freed), (Ok(()), Ok(())));
        }
        assert!(!matches!(ended, Teardown::GaveUp { .. }), "{ended:?}");
        let created = counts.created.load(Ordering::SeqCst);
        assert_eq!(counts.freed.load(Ordering::SeqCst), created, "{ended:?}");
        assert_eq!(registry.tracked_count(), 0);
    });
}

/// Rules 2, 5, 7: work on an object against its free and teardown.
#[test]
fn generate_against_free_against_teardown() {
    explore(Some(4), || {
        let registry = Arc::new(Registry::new());
        let counts = Arc::new(Counts::default());
        let handle = create(&registry, &counts).unwrap();
        let theirs = registry.clone();
        let generator = spawn(move || generate(&theirs, handle));
        let theirs = registry.clone();
        let freer = spawn(move || theirs.free(handle));
        let ended = registry.teardown();
        counts.nothing_is_left();
        let generated = join(generator);
        assert!(matches!(generated, None | Some(Ok(()) | Err(RegistryError::Freed))));
        assert!(matches!(join(freer), None | Some(Ok(()))));
        assert!(!matches!(ended, Teardown::GaveUp { .. }), "{ended:?}");
        assert_eq!(counts.freed.load(Ordering::SeqCst), 1, "{ended:?}");
    });
}

/// Rule 2: the same handle freed by three threads.
#[test]
fn free_against_free_against_teardown() {
    explore(None, || {
        let registry = Arc::new(Registry::new());
        let counts = Arc::new(Counts::default());
        let handle = create(&registry, &counts).unwrap();
        let frees = [registry.clone(), registry.clone()];
        let frees = frees.map(|theirs| spawn(move || theirs.free(handle)));
        let _ended = registry.teardown();
        counts.nothing_is_left();
        let won = frees.map(join).into_iter().filter(|free| matches!(free, Some(Ok(())))).count();
        assert!(won <= 1);
        assert_eq!(counts.freed.load(Ordering::SeqCst), 1);
    });
}

/// Rules 5, 7 and 11: a native object is not freed under a call that uses it, and no call begins on a
/// freed one.
#[test]
fn native_use_against_untrack_against_teardown() {
    explore(None, || {
        let registry = Arc::new(Registry::new());
        let (used, contested) = (Native::new(), Native::new());
        used.track(&registry).unwrap();
        contested.track(&registry).unwrap();
        let (theirs, object) = (registry.clone(), used.clone());
        let user = spawn(move || {
            theirs.begin(Kind::Generate).unwrap();
            object.touch();
            thread::yield_now();
            object.touch();
            theirs.end().unwrap();
        });
        let (theirs, object) = (registry.clone(), contested.clone());
        let untracker = spawn(move || {
            // Its own free, in a call of its own; only `true` is the right to it.
            theirs.begin(Kind::Free).unwrap();
            if theirs.untrack(object.address()) {
                // SAFETY: untracked just now, by this thread.
                unsafe { free_native(object.address()) };
            }
            theirs.end().unwrap();
        });
        let ended = registry.teardown();
        join(user);
        join(untracker);
        assert!(matches!(ended, Teardown::Freed { .. }), "{ended:?}");
        assert_eq!(used.frees.load(Ordering::SeqCst), 1);
        assert_eq!(contested.frees.load(Ordering::SeqCst), 1);
    });
}

/// Rule 7: work that reports a cancellation and begins anew is asked again.
#[test]
fn a_call_that_generates_twice_against_cancel_against_teardown() {
    explore(Some(3), || {
        let registry = Arc::new(Registry::new());
        let counts = Arc::new(Counts::default());
        let handle = create(&registry, &counts).unwrap();
        let theirs = registry.clone();
        let host = spawn(move || {
            theirs.begin(Kind::Mark).unwrap();
            for _ in 0..2 {
                generate(&theirs, handle).unwrap();
            }
            theirs.end().unwrap();
        });
        let theirs = registry.clone();
        let canceller = spawn(move || theirs.cancel(handle));
        let ended = registry.teardown();
        join(host);
        assert!(matches!(join(canceller), None | Some(Ok(()))));
        assert_eq!(ended, Teardown::Freed { freed: 1, panicked: 0 });
        assert_eq!(counts.freed.load(Ordering::SeqCst), 1);
    });
}

/// Rule 6: a cancel that succeeded before the work is seen by it.
#[test]
fn cancel_against_the_start_of_the_work_against_free_of_another() {
    explore(None, || {
        let registry = Arc::new(Registry::new());
        let counts = Arc::new(Counts::default());
        let handle = create(&registry, &counts).unwrap();
        let other = create(&registry, &counts).unwrap();
        let theirs = registry.clone();
        let canceller = spawn(move || theirs.cancel(handle).unwrap());
        let theirs = registry.clone();
        let freer = spawn(move || theirs.free(other).unwrap());
        // The work begins before, between or after the two, and sees the request in the end.
        let work = registry.open::<Owned>(handle, Kind::Generate).unwrap();
        assert!(join(canceller).is_some() && join(freer).is_some());
        assert!(work.check().is_err());
        drop(work);
        assert_eq!(counts.freed.load(Ordering::SeqCst), 1);
    });
}

/// Rule 8: a bound that ran out frees nothing; what is still in flight may go on using everything.
#[test]
fn an_uncancellable_call_against_the_bound() {
    explore(None, || {
        let registry = Arc::new(Registry::new());
        registry.set_waits(Waits::from_millis(0, -1)).unwrap();
        let native = Native::new();
        native.track(&registry).unwrap();
        let users = [registry.clone(), registry.clone()].map(|theirs| {
            let object = native.clone();
            spawn(move || {
                theirs.begin(Kind::Generate).unwrap();
                object.touch();
                thread::yield_now();
                object.touch();
                theirs.end().unwrap();
            })
        });
        let ended = registry.teardown();
        users.into_iter().for_each(|user| _ = join(user));
        let freed = native.frees.load(Ordering::SeqCst);
        match ended {
            Teardown::Freed { freed: 1, .. } => assert_eq!(freed, 1),
            Teardown::GaveUp { tracked: 1, in_flight: 1 | 2 } => assert_eq!(freed, 0),
            other => panic!("{other:?}"),
        }
    });
}

/// Rules 7 and 12: two teardowns, one from inside a call that the other waits for.
#[test]
fn teardown_against_teardown_against_load() {
    explore(None, || {
        let registry = Arc::new(Registry::new());
        let counts = Arc::new(Counts::default());
        let handle = create(&registry, &counts).unwrap();
        let theirs = registry.clone();
        let inside = spawn(move || {
            let object = theirs.open::<Owned>(handle, Kind::Generate).ok()?;
            let ended = theirs.teardown();
            drop(object);
            Some(ended)
        });
        let (theirs, count) = (registry.clone(), counts.clone());
        let loader = spawn(move || create(&theirs, &count).is_ok());
        let ended = registry.teardown();
        let ended = [Some(ended), join(inside).flatten()];
        join(loader);
        let runs = ended.iter().flatten().filter(|ended| **ended != Teardown::Over).count();
        assert_eq!(runs, 1, "{ended:?}");
        let created = counts.created.load(Ordering::SeqCst);
        assert_eq!(counts.freed.load(Ordering::SeqCst), created, "{ended:?}");
    });
}
