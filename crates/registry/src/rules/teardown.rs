//! Rules 7 to 10: what teardown asks, waits for, and leaves alone.

use super::*;

#[test]
fn r7_teardown_runs_once_and_asks_again_every_20_ms() {
    let (registry, log) = (shared(), Log::default());
    let handle = create(registry, Stage::Context, 1, &log);
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = rounds.clone();
    let work = in_a_call(registry, Kind::Mark, move || {
        for _ in 0..3 {
            let object = registry.open::<Noted>(handle, Kind::Generate).unwrap();
            while object.check().is_ok() {
                thread::sleep(ms(1));
            }
            // This work reports the cancellation, which clears it, and the host begins anew.
            object.call().token().unwrap().take();
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let begun = Instant::now();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert_eq!(rounds.load(Ordering::SeqCst), 3);
    assert!(begun.elapsed() < ms(1000), "took {:?}", begun.elapsed());
    assert_eq!(registry.teardown(), Teardown::Over);
    assert_eq!(freed(&log), [1]);
    assert!(never_returns(&work));
}

#[test]
fn r7_teardown_stops_a_load_that_is_not_tracked_yet() {
    let (registry, log) = (shared(), Log::default());
    let (begun, wait) = channel();
    let load = elsewhere(move || {
        let build = |token: &CancelToken| {
            begun.send(()).unwrap();
            loop {
                token.check()?;
                thread::sleep(ms(1));
            }
        };
        let result: Result<_, CreateError<Cancelled>> =
            registry.create::<Noted, _>(Stage::Context, &CancelToken::new(), build);
        result.is_err()
    });
    wait.recv().unwrap();
    let asked = Instant::now();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 0, panicked: 0 });
    assert!(asked.elapsed() < ms(1000));
    assert!(freed(&log).is_empty());
    assert!(never_returns(&load));
}

#[test]
fn r7_a_destructor_that_panics_stops_no_other() {
    struct Bad;
    impl Tracked for Bad {}
    impl Drop for Bad {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("as a destructor should not"));
        }
    }
    let (registry, log) = (Registry::new(), Log::default());
    create(&registry, Stage::Device, 1, &log);
    let build = |_: &_| Ok::<_, CreateError<()>>(Bad);
    registry.create(Stage::Context, &CancelToken::new(), build).unwrap();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 2, panicked: 1 });
    assert_eq!(freed(&log), [1]);
}

/// How long teardown takes to give up on a call of this kind.
fn gives_up_on(kind: Kind, waits: Waits) -> Duration {
    let (registry, log) = (shared(), Log::default());
    registry.set_waits(waits).unwrap();
    create(registry, Stage::Context, 1, &log);
    let (stop, stuck) = channel::<()>();
    let _call = in_a_call(registry, kind, move || stuck.recv());
    let begun = Instant::now();
    assert_eq!(registry.teardown(), Teardown::GaveUp { in_flight: 1, tracked: 1 });
    let took = begun.elapsed();
    assert_eq!(freed(&log), [], "a bound that ran out frees nothing");
    drop(stop);
    took
}

#[test]
fn r8_the_long_bound_is_for_loads_generations_and_queries() {
    assert_eq!(Waits::default(), Waits::from_millis(15_000, 2_000));
    for kind in [Kind::Load, Kind::Generate, Kind::Query] {
        let took = gives_up_on(kind, Waits::from_millis(200, 0));
        assert!(took >= ms(200) && took < ms(1000), "{kind:?} took {took:?}");
    }
    for kind in [Kind::Free, Kind::Mark] {
        let took = gives_up_on(kind, Waits::from_millis(60_000, 150));
        assert!(took >= ms(150) && took < ms(1000), "{kind:?} took {took:?}");
    }
}

#[test]
fn r8_a_negative_bound_is_zero() {
    assert_eq!(Waits::from_millis(-1, i64::MIN), Waits::from_millis(0, 0));
    let took = gives_up_on(Kind::Generate, Waits::from_millis(-5, -5));
    assert!(took < ms(50), "took {took:?}");
}

#[test]
fn r9_an_idle_teardown_returns_at_once() {
    assert_eq!(Registry::new().teardown(), Teardown::Idle);
    let registry = shared();
    drop(registry.enter(Kind::Load).unwrap());
    let (stop, stuck) = channel::<()>();
    let _marked = in_a_call(registry, Kind::Mark, move || stuck.recv());
    let begun = Instant::now();
    assert_eq!(registry.teardown(), Teardown::Idle);
    assert!(begun.elapsed() < ms(30));
    drop(stop);
}

#[test]
fn r10_a_thread_that_just_left_may_still_read() {
    let (registry, log) = (shared(), Log::default());
    create(registry, Stage::Context, 1, &log);
    let (left, wait) = channel();
    let (saw, watched) = (log.clone(), Instant::now());
    let reading = elsewhere(move || {
        drop(registry.enter(Kind::Generate).unwrap());
        left.send(()).unwrap();
        while watched.elapsed() < ms(200) {
            assert_eq!(freed(&saw), [], "freed while a thread was reading");
            thread::sleep(ms(1));
        }
    });
    wait.recv().unwrap();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert!(watched.elapsed() >= ms(250) && watched.elapsed() < ms(1000));
    reading.recv().unwrap();
}

#[test]
fn r10_nobody_waits_for_the_thread_that_runs_teardown() {
    let (registry, log) = (Registry::new(), Log::default());
    create(&registry, Stage::Context, 1, &log);
    let begun = Instant::now();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert!(begun.elapsed() < ms(30));
}

#[test]
fn r10_nobody_waits_for_a_thread_that_never_returns() {
    let (registry, log) = (shared(), Log::default());
    create(registry, Stage::Context, 1, &log);
    let (left, wait) = channel();
    let comes_back = elsewhere(move || {
        loop {
            drop(registry.enter(Kind::Generate).unwrap());
            let _ = left.send(());
            thread::sleep(ms(1));
        }
    });
    wait.recv().unwrap();
    let begun = Instant::now();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert!(begun.elapsed() < ms(200), "took {:?}", begun.elapsed());
    assert!(never_returns(&comes_back));
}
