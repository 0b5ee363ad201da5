//! Rules 5 and 11 to 13: who is in a call, who never returns, and whose call is whose.

use super::*;

#[test]
fn r5_teardown_waits_for_a_load_and_frees_what_it_created() {
    let (registry, log) = (shared(), Log::default());
    let (begun, wait) = channel();
    let theirs = log.clone();
    let created = elsewhere(move || {
        let build = |_: &_| {
            begun.send(()).unwrap();
            thread::sleep(ms(60));
            Ok::<_, CreateError<()>>(Noted(1, theirs))
        };
        registry.create(Stage::Context, &CancelToken::new(), build).unwrap()
    });
    wait.recv().unwrap();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert_eq!(freed(&log), [1]);
    assert!(never_returns(&created));
}

/// Takes a while to be freed, and says when it is.
struct Slow(Sender<()>, Arc<AtomicBool>);

impl Tracked for Slow {}

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
        thread::sleep(ms(60));
        self.1.store(true, Ordering::SeqCst);
    }
}

#[test]
fn r5_teardown_waits_for_the_last_free() {
    let registry = shared();
    let (begun, wait) = channel();
    let over = Arc::new(AtomicBool::new(false));
    let slow = Slow(begun, over.clone());
    let build = |_: &_| Ok::<_, CreateError<()>>(slow);
    let handle = registry.create(Stage::Context, &CancelToken::new(), build).unwrap();
    let freeing = elsewhere(move || registry.free(handle));
    wait.recv().unwrap();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 0, panicked: 0 });
    assert!(over.load(Ordering::SeqCst), "teardown returned while the object was being freed");
    assert!(never_returns(&freeing));
}

#[test]
fn r5_calls_nest_and_the_outermost_counts() {
    let (registry, log) = (shared(), Log::default());
    create(registry, Stage::Context, 1, &log);
    let inner_returned = Arc::new(AtomicBool::new(false));
    let seen = inner_returned.clone();
    let outer = in_a_call(registry, Kind::Mark, move || {
        thread::sleep(ms(40));
        drop(registry.enter(Kind::Query).unwrap());
        seen.store(true, Ordering::SeqCst);
        thread::sleep(ms(40));
    });
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert!(inner_returned.load(Ordering::SeqCst), "teardown ended the inner call's thread");
    assert!(never_returns(&outer));
}

#[test]
fn r5_calls_without_guards() {
    let registry = Registry::new();
    assert_eq!(registry.end(), Err(RegistryError::NoCall));
    let guard = registry.enter(Kind::Mark).unwrap();
    assert_eq!(registry.end(), Err(RegistryError::NoCall), "a guard's call is not ended by hand");
    registry.begin(Kind::Mark).unwrap();
    registry.begin(Kind::Query).unwrap();
    assert_eq!((registry.end(), registry.end()), (Ok(()), Ok(())));
    assert_eq!(registry.end(), Err(RegistryError::NoCall));
    drop(guard);
}

#[test]
fn r11_other_threads_never_return_and_teardowns_own_does_nothing() {
    let (registry, log) = (shared(), Log::default());
    let handle = create(registry, Stage::Context, 1, &log);
    let _freed = registry.teardown();
    type Entry = fn(&'static Registry, Handle);
    let entries: [(&str, Entry); 9] = [
        ("enter", |registry, _| drop(registry.enter(Kind::Mark))),
        ("begin", |registry, _| _ = registry.begin(Kind::Mark)),
        ("end", |registry, _| _ = registry.end()),
        ("free", |registry, handle| _ = registry.free(handle)),
        ("cancel", |registry, handle| _ = registry.cancel(handle)),
        ("open", |registry, handle| drop(registry.open::<Noted>(handle, Kind::Generate))),
        ("untrack", |registry, _| _ = registry.untrack(16 as *mut c_void)),
        ("tracked_count", |registry, _| _ = registry.tracked_count()),
        ("create", |registry, _| {
            let build = |_: &_| Ok::<_, CreateError<()>>(Noted(9, Log::default()));
            drop(registry.create(Stage::User, &CancelToken::new(), build));
        }),
    ];
    for (name, entry) in entries {
        let elsewhere = elsewhere(move || entry(registry, handle));
        assert!(never_returns(&elsewhere), "{name} returned");
        entry(registry, handle);
    }
    assert_eq!(registry.enter(Kind::Load).map(|_| ()), Err(RegistryError::Closed));
    assert_eq!(registry.free(handle), Err(RegistryError::Closed));
    assert_eq!(registry.tracked_count(), 0);
}

#[test]
fn r11_a_call_that_outlasts_the_bound_never_returns_either() {
    let (registry, log) = (shared(), Log::default());
    registry.set_waits(Waits::from_millis(0, 0)).unwrap();
    create(registry, Stage::Context, 1, &log);
    let (stop, stuck) = channel::<()>();
    let call = in_a_call(registry, Kind::Generate, move || stuck.recv());
    assert_eq!(registry.teardown(), Teardown::GaveUp { in_flight: 1, tracked: 1 });
    drop(stop);
    assert!(never_returns(&call));
}

#[test]
fn r11_a_second_teardown_waits_for_the_first_and_returns() {
    let (registry, log) = (shared(), Log::default());
    create(registry, Stage::Context, 1, &log);
    let (second_began, wait) = channel();
    let first_done = Arc::new(AtomicBool::new(false));
    let seen = first_done.clone();
    let second = in_a_call(registry, Kind::Generate, move || {
        wait.recv().unwrap();
        // Inside a call that the first one waits for: neither may wait for the other.
        (registry.teardown(), seen.load(Ordering::SeqCst))
    });
    second_began.send(()).unwrap();
    thread::sleep(ms(1));
    let ended = registry.teardown();
    first_done.store(true, Ordering::SeqCst);
    let (theirs, _) = second.recv_timeout(ms(2000)).unwrap();
    let both = [ended, theirs];
    assert!(both.contains(&Teardown::Over), "{both:?}");
    assert!(both.contains(&Teardown::Freed { freed: 1, panicked: 0 }), "{both:?}");
    assert_eq!(freed(&log), [1]);
}

#[test]
fn r12_a_thread_does_not_wait_for_its_own_call() {
    let (registry, log) = (Registry::new(), Log::default());
    let handle = create(&registry, Stage::Context, 1, &log);
    let object = registry.open::<Noted>(handle, Kind::Generate).unwrap();
    let begun = Instant::now();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert!(begun.elapsed() < ms(1000));
    // The host called teardown and goes on: its own frame still owns the object.
    assert_eq!((object.0, freed(&log)), (1, vec![]));
    drop(object);
    assert_eq!(freed(&log), [1]);
}

#[test]
fn r12_an_object_in_use_by_the_exiting_frame_is_released_in_place() {
    struct Buffer(AtomicUsize);
    impl Tracked for Buffer {
        fn release_at_exit(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let registry = Registry::new();
    let build = |_: &_| Ok::<_, CreateError<()>>(Buffer(AtomicUsize::new(0)));
    let handle = registry.create(Stage::Context, &CancelToken::new(), build).unwrap();
    let buffer = registry.open::<Buffer>(handle, Kind::Generate).unwrap();
    let ended = registry.tear_down(crate::entry::Origin::Exit);
    assert_eq!(ended, Teardown::Freed { freed: 1, panicked: 0 });
    assert_eq!(buffer.0.load(Ordering::SeqCst), 1);
}

#[test]
fn r13_an_abandoned_registry_does_nothing_and_takes_no_lock() {
    let (registry, log) = (shared(), Log::default());
    let handle = create(registry, Stage::Context, 1, &log);
    let call = registry.enter(Kind::Mark).unwrap();
    registry.abandon();
    assert_eq!(registry.free(handle), Err(RegistryError::Closed));
    assert_eq!(registry.teardown(), Teardown::Over);
    drop(call);
    assert_eq!(freed(&log), []);
}
