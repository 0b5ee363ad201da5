//! A copy of the library for the exit tests: a few C functions over its own registry.

use std::ffi::{c_char, c_int};
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

use tintype_registry::{CancelToken, Handle, Registry, RegistryError, Stage, Tracked};

static NAME: AtomicU8 = AtomicU8::new(b'?');

struct Said(c_int);

impl Tracked for Said {}

impl Drop for Said {
    fn drop(&mut self) {
        let name = char::from(NAME.load(Ordering::SeqCst));
        // At exit there is nobody to tell that it could not be said.
        let _ = writeln!(std::io::stdout(), "{name} frees {}", self.0);
    }
}

/// Names this copy in what it says.
#[unsafe(no_mangle)]
pub extern "C" fn copy_name(name: c_char) {
    NAME.store(name as u8, Ordering::SeqCst);
}

/// Creates an object that says when it is freed; zero if it could not.
#[unsafe(no_mangle)]
pub extern "C" fn copy_create(number: c_int) -> u64 {
    let build = |_: &CancelToken| Ok::<_, RegistryError>(Said(number));
    let handle = Registry::global().create(Stage::Context, &CancelToken::new(), build);
    handle.map_or(0, Handle::to_raw)
}

/// 0 freed, 1 freed before, 2 not this copy's, 3 anything else.
#[unsafe(no_mangle)]
pub extern "C" fn copy_free(handle: u64) -> c_int {
    match Handle::from_raw(handle).and_then(|handle| Registry::global().free(handle)) {
        Ok(()) => 0,
        Err(RegistryError::Freed) => 1,
        Err(RegistryError::Foreign) => 2,
        Err(_) => 3,
    }
}
