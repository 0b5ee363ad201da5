//! Where the registry meets the process: exit, fork, and threads that never return.
//! Owns the platform's mechanism; must not know what teardown does. One file a mechanism:
//! `automatic` (Linux, Apple) and `explicit` (everywhere else).

use std::error::Error;
use std::fmt;

#[cfg_attr(
    any(all(target_os = "linux", not(target_env = "ohos")), target_vendor = "apple"),
    path = "automatic.rs"
)]
#[cfg_attr(
    not(any(all(target_os = "linux", not(target_env = "ohos")), target_vendor = "apple")),
    path = "explicit.rs"
)]
mod platform;

#[cfg(not(loom))]
pub(crate) use platform::{never_return, register_exit_handler, register_fork_handler};

/// How this platform tears down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtExit {
    /// During `exit()`, from a handler that runs before those of every driver loaded so far.
    Automatic,
    /// Only when the host calls [`Registry::teardown`](crate::Registry::teardown). Without that call,
    /// objects alive at exit are left to the driver, which may crash on them.
    Explicit,
}

/// What this platform does at exit.
pub const AT_EXIT: AtExit = platform::AT_EXIT;

/// To be called each time a driver may have registered exit handlers of its own: after its library
/// was loaded, and after an instance and a device were made.
///
/// Exit handlers run latest first. A driver's own handlers crash on objects, and on threads, that
/// outlive them, so teardown's handler is registered again to run before them. Each call costs one
/// entry in the C library's list (32 bytes).
#[cfg(not(loom))]
pub fn after_driver_load() -> Result<AtExit, HookError> {
    let _ = crate::Registry::global();
    crate::global::ensure_hooks()?;
    register_exit_handler(crate::global::at_exit)?;
    Ok(AT_EXIT)
}

/// The C library refused a handler, for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookError {
    pub(crate) function: &'static str,
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` refused the handler that makes exit safe: the system is out of memory",
            self.function
        )
    }
}

impl Error for HookError {}
