//! Linux and Apple: teardown is an `atexit` handler, registered again after every driver load.
//! Owns the calls into the C library; see the crate's documentation for why these and not others.

use super::AtExit;

pub(super) const AT_EXIT: AtExit = AtExit::Automatic;

#[cfg(not(loom))]
pub(crate) use real::{never_return, register_exit_handler, register_fork_handler};

#[cfg(not(loom))]
mod real {
    use std::ffi::c_void;
    use std::ptr;

    use crate::hooks::HookError;

    pub(crate) fn register_exit_handler(handler: extern "C" fn()) -> Result<(), HookError> {
        pin_library_of(handler);
        // SAFETY: the handler takes nothing, does not unwind, and its library stays loaded.
        match unsafe { libc::atexit(handler) } {
            0 => Ok(()),
            _ => Err(HookError { function: "atexit" }),
        }
    }

    pub(crate) fn register_fork_handler(in_child: extern "C" fn()) -> Result<(), HookError> {
        // SAFETY: the child's handler stores two atomics, which is allowed after a fork.
        match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
            0 => Ok(()),
            _ => Err(HookError { function: "pthread_atfork" }),
        }
    }

    /// Makes `dlclose` of the handler's library a no-op: parked threads and drivers still point into its code.
    /// An executable can not be unloaded, and `dlopen` says so by failing, which is as good.
    fn pin_library_of(handler: extern "C" fn()) {
        let here = handler as *const c_void;
        // SAFETY: all-zero is a valid Dl_info (null pointers).
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable, and any address may be asked about.
        if unsafe { libc::dladdr(here, &raw mut info) } == 0 || info.dli_fname.is_null() {
            return;
        }
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the name is the loader's own string; nothing is loaded that is not already.
        let _: *mut c_void = unsafe { libc::dlopen(info.dli_fname, flags) };
    }

    /// The thread ends here, without unwinding and without destructors: to whoever joins it, it is over.
    ///
    /// glibc's `pthread_join` waits for the kernel to clear the thread's id, which the bare system call
    /// makes it do. A host's exit handler that joins its worker therefore goes on; were the thread merely
    /// parked, it would hang. The main thread parks, because its end would empty `/proc/self` for the
    /// handlers that still run; nobody joins it.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub(crate) fn never_return() -> ! {
        // SAFETY: these take nothing and cannot fail.
        let is_main = unsafe { libc::gettid() == libc::getpid() };
        if !is_main {
            // SAFETY: ends only the calling thread. Its stack stays mapped until it is joined, and
            // nothing of this crate is borrowed from it by other threads.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        park()
    }

    /// Elsewhere a thread can not end without running its destructors, so it sleeps.
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub(crate) fn never_return() -> ! {
        park()
    }

    fn park() -> ! {
        loop {
            // SAFETY: sleeps without touching memory; a signal only makes it sleep again.
            unsafe { libc::poll(ptr::null_mut(), 0, -1) };
        }
    }
}
