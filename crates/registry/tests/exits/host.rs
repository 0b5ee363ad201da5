//! What the scenarios' host programs share: a context over the driver, saying things, ending.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tintype_registry::{
    CancelToken, Cancelled, CreateError, Handle, Kind, Registry, Stage, Tracked,
};

use crate::driver::{self, Buffer};

pub(crate) fn registry() -> &'static Registry {
    Registry::global()
}

/// Writes a line at once, past every lock and buffer.
pub(crate) fn say(line: &str) {
    let line = format!("{line}\n");
    // SAFETY: the bytes are alive, and their length is right.
    unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
}

/// Ends the process as a C host does; the test's clock runs from here.
pub(crate) fn exit(code: c_int) -> ! {
    say("exiting");
    // SAFETY: `exit` may be called from any thread, once.
    unsafe { libc::exit(code) }
}

pub(crate) fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler takes nothing and does not unwind.
    assert_eq!(unsafe { libc::atexit(handler) }, 0);
}

/// The first handler of all, hence the last to run.
pub(crate) extern "C" fn report() {
    let (alive, freed) = driver::counts();
    let who = if driver::is_forked() { "child: " } else { "" };
    say(&format!("{who}alive {alive} freed {freed}"));
}

/// A driver loaded as applications do, and a registry that knows.
pub(crate) fn start() {
    at_exit(report);
    driver::load();
    tintype_registry::hooks::after_driver_load().unwrap();
}

/// A model on the driver.
pub(crate) struct Context(Mutex<Option<Buffer>>);

impl Context {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(Buffer::new())))
    }
}

impl Tracked for Context {
    fn release_at_exit(&self) {
        if let Ok(mut buffer) = self.0.try_lock() {
            buffer.take();
        }
    }
}

pub(crate) fn create() -> Handle {
    let build = |_: &CancelToken| Ok::<_, CreateError<()>>(Context::new());
    registry().create(Stage::Context, &CancelToken::new(), build).unwrap()
}

/// A load of `segments` submissions that can be cancelled between them.
pub(crate) fn load(segments: usize, begun: &Sender<()>) -> Result<Handle, CreateError<Cancelled>> {
    registry().create(Stage::Context, &CancelToken::new(), |token| {
        let context = Context::new();
        begun.send(()).unwrap();
        for _ in 0..segments {
            token.check()?;
            driver::submit();
        }
        Ok(context)
    })
}

/// A generation of `segments` submissions that can be cancelled between them.
pub(crate) fn generate(handle: Handle, segments: usize, begun: &Sender<()>) {
    let context = registry().open::<Context>(handle, Kind::Generate).unwrap();
    begun.send(()).unwrap();
    for _ in 0..segments {
        if context.check().is_err() {
            return;
        }
        driver::submit();
    }
}

/// Starts a thread that says when it is where it should be, and waits for that.
pub(crate) fn elsewhere(work: impl FnOnce(&Sender<()>) + Send + 'static) {
    let (begun, wait) = channel();
    thread::spawn(move || {
        work(&begun);
        say("a thread came back");
    });
    wait.recv().unwrap();
}

pub(crate) fn sleep(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}
