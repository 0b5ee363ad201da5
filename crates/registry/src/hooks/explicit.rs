//! Windows, Android and all else: the host calls teardown itself; nothing is hooked.
//! Windows ends all other threads before its exit handlers run, wherever they are, and Android kills
//! the process without running any, so a handler could only do harm there.

use super::AtExit;

pub(super) const AT_EXIT: AtExit = AtExit::Explicit;

#[cfg(not(loom))]
pub(crate) use real::{never_return, register_exit_handler, register_fork_handler};

#[cfg(not(loom))]
mod real {
    use crate::hooks::HookError;

    pub(crate) fn register_exit_handler(_: extern "C" fn()) -> Result<(), HookError> {
        Ok(())
    }

    pub(crate) fn register_fork_handler(_: extern "C" fn()) -> Result<(), HookError> {
        Ok(())
    }

    pub(crate) fn never_return() -> ! {
        loop {
            std::thread::park();
        }
    }
}
