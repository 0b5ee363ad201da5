//! The host programs, one a function: each ends its process in its own bad moment.
//! Controls do the same without the registry, and crash.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use tintype_registry::{Kind, RegistryError, Teardown, Waits, hooks};

use crate::driver::{self, Buffer};
use crate::host::*;

pub(crate) fn idle() {
    start();
    driver::do_not_linger();
    let handle = create();
    registry().free(handle).unwrap();
    exit(0);
}

pub(crate) fn leaked_context() {
    start();
    driver::do_not_linger();
    create();
    exit(0);
}

pub(crate) fn control_leaked_context() {
    at_exit(report);
    driver::load();
    std::mem::forget(Buffer::new());
    exit(0);
}

pub(crate) fn dead_creator() {
    start();
    driver::do_not_linger();
    thread::spawn(create).join().unwrap();
    exit(0);
}

pub(crate) fn panicking_host() {
    start();
    create();
    say("exiting");
    // Unwinds past every dispose call; std then returns from `main` with 101.
    std::panic::resume_unwind(Box::new("an exception"));
}

pub(crate) fn during_load() {
    start();
    elsewhere(|begun| drop(load(5_000, begun)));
    exit(0);
}

pub(crate) fn control_during_load() {
    driver::load();
    driver::tolerate_leaks();
    elsewhere(|begun| {
        let _context = Context::new();
        begun.send(()).unwrap();
        (0..5_000).for_each(|_| driver::submit());
    });
    exit(0);
}

pub(crate) fn during_generation() {
    start();
    let handle = create();
    elsewhere(move |begun| generate(handle, 5_000, begun));
    exit(0);
}

/// The context is destroyed from a handler that was registered before the driver was loaded.
pub(crate) fn control_destroyed_too_late() {
    static LATE: std::sync::Mutex<Option<Buffer>> = std::sync::Mutex::new(None);
    extern "C" fn destroy() {
        LATE.lock().unwrap().take();
    }
    at_exit(destroy);
    driver::load();
    driver::tolerate_leaks();
    *LATE.lock().unwrap() = Some(Buffer::new());
    exit(0);
}

pub(crate) fn late_driver() {
    at_exit(report);
    hooks::after_driver_load().unwrap();
    driver::load();
    hooks::after_driver_load().unwrap();
    create();
    exit(0);
}

/// As `late_driver`, but the registry is not told of the driver.
pub(crate) fn control_late_driver() {
    hooks::after_driver_load().unwrap();
    driver::load();
    create();
    exit(0);
}

/// Exit within 0–5 ms of the start of the last free, which takes longer than that.
pub(crate) fn during_last_free() {
    start();
    driver::free_slowly(8);
    let handle = create();
    let delay = std::env::var("EXIT_TEST_DELAY_US").map_or(0, |us| us.parse().unwrap());
    let (begun, wait) = channel();
    // It may come back where the machine is so busy that the exit comes late.
    thread::spawn(move || {
        begun.send(()).unwrap();
        registry().free(handle).unwrap();
    });
    wait.recv().unwrap();
    thread::sleep(std::time::Duration::from_micros(delay));
    exit(0);
}

pub(crate) fn free_races_teardown() {
    start();
    let handles: Vec<_> = (0..20).map(|_| create()).collect();
    for _ in 0..2 {
        let handles = handles.clone();
        elsewhere(move |begun| {
            begun.send(()).unwrap();
            for handle in handles {
                let _lost_the_race = registry().free(handle);
            }
            sleep(10_000);
        });
    }
    sleep(5);
    exit(0);
}

pub(crate) fn double_free() {
    start();
    driver::do_not_linger();
    let handle = create();
    assert_eq!(registry().free(handle), Ok(()));
    assert_eq!(registry().free(handle), Err(RegistryError::Freed));
    exit(0);
}

pub(crate) fn exit_in_callback() {
    start();
    driver::do_not_linger();
    let handle = create();
    let context = registry().open::<Context>(handle, Kind::Generate).unwrap();
    assert!(context.check().is_ok());
    exit(7);
}

/// The worker exits from a callback while the main thread is in a call of its own.
pub(crate) fn exit_in_callback_of_a_worker() {
    start();
    let (mine, theirs) = (create(), create());
    elsewhere(move |begun| {
        let _context = registry().open::<Context>(theirs, Kind::Generate).unwrap();
        begun.send(()).unwrap();
        sleep(20);
        exit(7);
    });
    let (begun, _wait) = channel();
    generate(mine, 5_000, &begun);
    say("main came back");
}

pub(crate) fn bound_runs_out() {
    start();
    driver::tolerate_leaks();
    registry().set_waits(Waits::from_millis(150, 150)).unwrap();
    let handle = create();
    elsewhere(move |begun| {
        let _context = registry().open::<Context>(handle, Kind::Generate).unwrap();
        begun.send(()).unwrap();
        sleep(60_000);
    });
    exit(0);
}

/// A creator that is killed inside its load is in flight for ever.
pub(crate) fn killed_creator() {
    start();
    driver::tolerate_leaks();
    registry().set_waits(Waits::from_millis(150, 150)).unwrap();
    create();
    elsewhere(|begun| {
        let _call = registry().enter(Kind::Load).unwrap();
        begun.send(()).unwrap();
        // SAFETY: ends this thread as a kill would; it borrows nothing to others.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    exit(0);
}

/// A native caller begins a call, and its thread ends without ending it.
pub(crate) fn thread_ends_in_its_call() {
    start();
    create();
    thread::spawn(|| registry().begin(Kind::Load).unwrap()).join().unwrap();
    exit(0);
}

pub(crate) fn underscore_exit() {
    start();
    create();
    say("exiting");
    // SAFETY: ends the process.
    unsafe { libc::_exit(3) }
}

static WORKER: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn join_worker() {
    STOP.store(true, Ordering::SeqCst);
    // SAFETY: the id is of a thread that nobody else joins or detaches.
    let joined = unsafe { libc::pthread_join(WORKER.load(Ordering::SeqCst), ptr::null_mut()) };
    say(&format!("joined {joined}"));
}

extern "C" fn work(busy: *mut libc::c_void) -> *mut libc::c_void {
    while !STOP.load(Ordering::SeqCst) {
        let call = registry().enter(Kind::Generate).unwrap();
        sleep(if busy.is_null() { 0 } else { 30 });
        drop(call);
        sleep(if busy.is_null() { 30 } else { 0 });
    }
    ptr::null_mut()
}

fn joined_worker(busy: *mut libc::c_void) {
    at_exit(join_worker);
    start();
    create();
    let mut worker = 0;
    // SAFETY: `worker` is writable, and `work` never touches its argument.
    let started = unsafe { libc::pthread_create(&raw mut worker, ptr::null(), work, busy) };
    assert_eq!(started, 0);
    WORKER.store(worker, Ordering::SeqCst);
    sleep(45);
    exit(0);
}

pub(crate) fn host_joins_worker_in_call() {
    joined_worker(ptr::without_provenance_mut(1));
}

pub(crate) fn host_joins_worker_between_calls() {
    joined_worker(ptr::null_mut());
}

/// A host's handler that disposes of what teardown has freed.
pub(crate) fn host_frees_after_teardown() {
    static HANDLE: AtomicU64 = AtomicU64::new(0);
    extern "C" fn dispose() {
        let handle = tintype_registry::Handle::from_raw(HANDLE.load(Ordering::SeqCst)).unwrap();
        say(&format!("{:?}", registry().free(handle)));
        say(&format!("{:?}", registry().cancel(handle)));
        say(&format!("{:?}", registry().teardown()));
    }
    at_exit(dispose);
    start();
    HANDLE.store(create().to_raw(), Ordering::SeqCst);
    exit(0);
}

unsafe extern "C" {
    static stdout: *mut libc::c_void;
    fn flockfile(file: *mut libc::c_void);
}

pub(crate) fn locked_stdio() {
    start();
    let handle = create();
    elsewhere(move |begun| {
        // SAFETY: the C library's own stdout.
        unsafe { flockfile(stdout) };
        generate(handle, 5_000, begun);
    });
    exit(0);
}

pub(crate) fn explicit_teardown() {
    start();
    driver::do_not_linger();
    create();
    assert_eq!(registry().teardown(), Teardown::Freed { freed: 1, panicked: 0 });
    exit(0);
}

/// Children are forked while other threads hold the registry's lock as often as they can.
pub(crate) fn forked_child() {
    start();
    let handle = create();
    elsewhere(move |begun| generate(handle, 5_000, begun));
    elsewhere(|begun| {
        begun.send(()).unwrap();
        while registry().enter(Kind::Mark).is_ok() {}
    });
    let mine = registry().enter(Kind::Mark).unwrap();
    for number in 0..40 {
        // SAFETY: the child only uses what is allowed after a fork of a threaded process with glibc.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let parents = mine;
            assert!(registry().free(handle).is_err());
            drop(parents);
            assert_eq!(registry().tracked_count(), 0);
            create();
            if number % 2 == 0 {
                // A call of the child's own.
                std::mem::forget(registry().enter(Kind::Generate).unwrap());
            }
            // SAFETY: ends the child as a host does.
            unsafe { libc::exit(5) }
        }
        let mut status = 0;
        // SAFETY: `status` is writable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "child {number}: {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 5);
    }
    drop(mine);
    exit(0);
}

/// Loads and frees for a while; memory stays flat.
pub(crate) fn many_cycles() {
    start();
    driver::tolerate_leaks();
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0)
    };
    let cycle = |_| {
        let build = |_: &_| Ok::<_, tintype_registry::CreateError<()>>(Plain(vec![1; 1 << 16]));
        let token = tintype_registry::CancelToken::new();
        let handle = registry().create(tintype_registry::Stage::Context, &token, build).unwrap();
        registry().free(handle).unwrap();
        thread::spawn(|| drop(registry().enter(Kind::Mark).unwrap())).join().unwrap();
    };
    (0..200).for_each(cycle);
    let before = resident();
    (0..2_000).for_each(cycle);
    let grown = resident().saturating_sub(before);
    assert!(grown < 64, "{grown} pages more");
    exit(0);
}

struct Plain(Vec<u8>);

impl tintype_registry::Tracked for Plain {}

impl Drop for Plain {
    fn drop(&mut self) {
        assert_eq!(self.0[0], 1);
    }
}
