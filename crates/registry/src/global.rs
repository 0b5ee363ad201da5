//! The registry of this process image: made at its first use, never freed, left behind by a fork.
//! Owns the statics; must not know what is tracked.

#[cfg(not(loom))]
pub(crate) use real::{at_exit, ensure_hooks, watch_this_thread};

#[cfg(not(loom))]
mod real {
    use std::process;
    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

    use crate::Registry;
    use crate::entry::Origin;
    use crate::hooks::{self, HookError};

    /// Null → a leaked registry → null again in a forked child. What it pointed to is never freed, so
    /// that it works before, during and after everything else's destruction.
    static GLOBAL: AtomicPtr<Registry> = AtomicPtr::new(ptr::null_mut());

    /// The process that made it. A child that was cloned without fork handlers is told by this.
    static OWNER: AtomicU32 = AtomicU32::new(0);

    /// Set once the exit and fork handlers stand.
    static HOOKED: AtomicBool = AtomicBool::new(false);

    impl Registry {
        /// The registry of this copy of the library in this process.
        pub fn global() -> &'static Registry {
            if let Some(registry) = current() {
                return registry;
            }
            let fresh = Box::into_raw(Box::new(Registry::with_role(true)));
            OWNER.store(process::id(), Ordering::Relaxed);
            match GLOBAL.compare_exchange(
                ptr::null_mut(),
                fresh,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                // SAFETY: just leaked, and nothing frees what GLOBAL points to.
                Ok(_) => unsafe { &*fresh },
                Err(winner) => {
                    // SAFETY: `fresh` was made above and shown to nobody.
                    drop(unsafe { Box::from_raw(fresh) });
                    // SAFETY: another thread leaked it, and nothing frees what GLOBAL points to.
                    unsafe { &*winner }
                }
            }
        }
    }

    fn current() -> Option<&'static Registry> {
        // SAFETY: null or leaked; nothing frees what GLOBAL points to.
        unsafe { GLOBAL.load(Ordering::Acquire).as_ref() }
    }

    /// Registers the handlers unless they stand. Two first callers may both do so; handlers repeat
    /// harmlessly.
    pub(crate) fn ensure_hooks() -> Result<(), HookError> {
        if !HOOKED.load(Ordering::Acquire) {
            hooks::register_fork_handler(in_forked_child)?;
            hooks::register_exit_handler(at_exit)?;
            HOOKED.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The process is in `exit()`.
    pub(crate) extern "C" fn at_exit() {
        if OWNER.load(Ordering::Relaxed) != process::id() {
            return;
        }
        // An image that was never used still keeps late threads out of a driver that is going.
        let _ = Registry::global().tear_down(Origin::Exit);
    }

    /// `fork()` made this process; its other threads, and what they did, are not here.
    extern "C" fn in_forked_child() {
        let parents = GLOBAL.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: null or leaked; nothing frees what GLOBAL points to.
        if let Some(parents) = unsafe { parents.as_ref() } {
            parents.abandon();
        }
    }

    struct ThreadEnd;

    impl Drop for ThreadEnd {
        fn drop(&mut self) {
            if let Some(registry) = current() {
                registry.forget_this_thread();
            }
        }
    }

    /// Has the registry told when the calling thread ends. In a thread that is ending already there is
    /// nothing to tell.
    pub(crate) fn watch_this_thread() {
        thread_local!(static END: ThreadEnd = const { ThreadEnd });
        let _ = END.try_with(|_| {});
    }
}

/// Models have no process around them.
#[cfg(loom)]
pub(crate) fn ensure_hooks() -> Result<(), crate::hooks::HookError> {
    Ok(())
}

#[cfg(loom)]
pub(crate) fn watch_this_thread() {}
