//! Rules 1 to 4 and 6: what is tracked, freed once, in order, and cancelled.

use super::*;

#[test]
fn r1_an_object_is_tracked_before_its_creator_returns() {
    let (registry, log) = (Registry::new(), Log::default());
    assert_eq!(registry.tracked_count(), 0);
    create(&registry, Stage::Context, 1, &log);
    assert_eq!(registry.tracked_count(), 1);
    let failed = registry.create(Stage::Context, &CancelToken::new(), |_| Err::<Noted, _>("no"));
    assert!(matches!(failed, Err(CreateError::Build("no"))));
    assert_eq!(registry.tracked_count(), 1);
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
}

#[test]
fn r1_the_object_of_a_creator_that_died_is_freed_at_teardown() {
    let (registry, log) = (shared(), Log::default());
    let theirs = log.clone();
    elsewhere(move || {
        create(registry, Stage::Context, 7, &theirs);
    })
    .recv()
    .unwrap();
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert_eq!(freed(&log), [7]);
}

#[test]
fn r2_a_second_free_does_nothing() {
    let (registry, log) = (Registry::new(), Log::default());
    let handle = create(&registry, Stage::Context, 1, &log);
    let other = create(&registry, Stage::Context, 2, &log);
    assert_eq!(registry.free(handle), Ok(()));
    assert_eq!(registry.free(handle), Err(RegistryError::Freed));
    assert_eq!(freed(&log), [1]);
    let foreign = Handle::from_raw(other.to_raw() ^ 1 << 50).unwrap();
    assert_eq!(registry.free(foreign), Err(RegistryError::Foreign));
    let never_issued = Handle::from_raw(other.to_raw() + 1).unwrap();
    assert_eq!(registry.free(never_issued), Err(RegistryError::Foreign));
    assert_eq!(registry.tracked_count(), 1);
}

#[test]
fn r2_frees_from_many_threads_free_once() {
    let (registry, log) = (shared(), Log::default());
    let handle = create(registry, Stage::Context, 1, &log);
    let frees: Vec<_> = (0..4).map(|_| elsewhere(move || registry.free(handle).is_ok())).collect();
    assert_eq!(frees.iter().filter(|free| free.recv().unwrap()).count(), 1);
    assert_eq!(freed(&log), [1]);
}

#[test]
fn r2_an_object_in_use_is_freed_when_its_last_call_ends() {
    let (registry, log) = (Registry::new(), Log::default());
    let handle = create(&registry, Stage::Context, 1, &log);
    let object = registry.open::<Noted>(handle, Kind::Generate).unwrap();
    assert_eq!(registry.free(handle), Ok(()));
    assert_eq!(object.check(), Err(Cancelled));
    assert_eq!((object.0, freed(&log)), (1, vec![]));
    drop(object);
    assert_eq!(freed(&log), [1]);
    let stale = registry.open::<Noted>(handle, Kind::Generate);
    assert_eq!(stale.map(|_| ()).unwrap_err(), RegistryError::Freed);
}

static COUNT_NATIVE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn count_native(object: *mut c_void) {
    COUNT_NATIVE.fetch_add(object as usize, Ordering::SeqCst);
}

unsafe extern "C" fn never_called(_: *mut c_void) {
    std::process::abort();
}

#[test]
fn r3_native_objects() {
    let registry = Registry::new();
    let at = |address: usize| address as *mut c_void;
    let track = |address, free, stage| {
        // SAFETY: neither function touches the object.
        unsafe { registry.track(at(address), free, stage) }
    };
    assert_eq!(track(0, never_called, Stage::User), Err(RegistryError::Null));
    assert_eq!(Stage::try_from(3), Err(RegistryError::UnknownStage(3)));
    assert_eq!(Stage::try_from(2), Ok(Stage::Device));
    assert_eq!(track(16, never_called, Stage::User), Ok(false));
    assert_eq!(track(16, count_native, Stage::Device), Ok(true));
    assert_eq!(track(32, never_called, Stage::User), Ok(false));
    assert_eq!(track(64, count_native, Stage::User), Ok(false));
    assert_eq!(registry.tracked_count(), 3);
    assert!(registry.untrack(at(32)));
    assert!(!registry.untrack(at(32)));
    assert!(!registry.untrack(at(0)));
    assert_eq!(registry.free_object(at(64)), Ok(()));
    assert_eq!(registry.free_object(at(64)), Err(RegistryError::NotTracked));
    assert_eq!(COUNT_NATIVE.load(Ordering::SeqCst), 64);
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    assert_eq!(COUNT_NATIVE.load(Ordering::SeqCst), 64 + 16);
}

#[test]
fn r3_a_native_objects_serial_is_no_handle() {
    let (registry, log) = (Registry::new(), Log::default());
    let first = create(&registry, Stage::Context, 1, &log);
    // SAFETY: the function is never called.
    unsafe { registry.track(16 as *mut c_void, never_called, Stage::User) }.unwrap();
    let forged = Handle::from_raw(first.to_raw() + 1).unwrap();
    assert_eq!(registry.free(forged), Err(RegistryError::Foreign));
    assert_eq!(registry.tracked_count(), 2);
}

#[test]
fn r4_users_before_contexts_before_devices_and_latest_first() {
    let (registry, log) = (Registry::new(), Log::default());
    let order = [
        (Stage::Context, 1),
        (Stage::Device, 2),
        (Stage::User, 3),
        (Stage::Context, 4),
        (Stage::User, 5),
        (Stage::Device, 6),
    ];
    for (stage, number) in order {
        create(&registry, stage, number, &log);
    }
    assert_eq!(registry.teardown(), Teardown::Freed { freed: 6, panicked: 0 });
    assert_eq!(freed(&log), [5, 3, 4, 1, 6, 2]);
}

#[test]
fn r6_cancel_before_the_work_is_kept() {
    let (registry, log) = (Registry::new(), Log::default());
    let handle = create(&registry, Stage::Context, 1, &log);
    assert_eq!(registry.cancel(handle), Ok(()));
    let object = registry.open::<Noted>(handle, Kind::Generate).unwrap();
    assert_eq!(object.check(), Err(Cancelled));
    assert!(object.call().token().unwrap().take());
    drop(object);
    let object = registry.open::<Noted>(handle, Kind::Generate).unwrap();
    assert_eq!(object.check(), Ok(()));
    drop(object);
    registry.free(handle).unwrap();
    assert_eq!(registry.cancel(handle), Err(RegistryError::Freed));

    let token = CancelToken::new();
    token.cancel();
    let build = |token: &CancelToken| token.check().map(|()| Noted(2, Log::default()));
    let loaded = registry.create(Stage::Context, &token, build);
    assert!(matches!(loaded, Err(CreateError::Build(Cancelled))));
}

#[test]
fn r6_cancel_does_not_wait_for_the_work() {
    let (registry, log) = (shared(), Log::default());
    let handle = create(registry, Stage::Context, 1, &log);
    let (begun, wait) = channel();
    let work = elsewhere(move || {
        let object = registry.open::<Noted>(handle, Kind::Generate).unwrap();
        begun.send(()).unwrap();
        while object.check().is_ok() {
            thread::sleep(ms(1));
        }
        thread::sleep(ms(100));
    });
    wait.recv().unwrap();
    let asked = Instant::now();
    registry.cancel(handle).unwrap();
    assert!(asked.elapsed() < ms(50));
    work.recv().unwrap();
}

#[test]
fn a_wrong_type_is_refused() {
    struct Other;
    impl Tracked for Other {}
    let (registry, log) = (Registry::new(), Log::default());
    let handle = create(&registry, Stage::Context, 1, &log);
    let opened = registry.open::<Other>(handle, Kind::Mark).map(|_| ());
    assert_eq!(opened, Err(RegistryError::WrongType));
}
