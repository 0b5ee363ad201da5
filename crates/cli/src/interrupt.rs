//! Ctrl-C, SIGTERM and a closed terminal, as a flag for commands that have something to tidy up.
//! It must not know what that is. Other commands end at once, as the system does it.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

/// Set once and never cleared; a flag of its own, so no order with other memory is needed.
static ASKED: AtomicBool = AtomicBool::new(false);

/// The exit status of a command that the user stopped: 128 and the number of SIGINT.
pub(crate) const STOPPED: u8 = 130;

/// From now on the process does not end by itself; ask [`asked`] often.
pub(crate) fn watch() -> anyhow::Result<()> {
    watch_with(|| ())
}

/// As [`watch`]; `stop` is called as well, on a thread of its own.
pub(crate) fn watch_with(stop: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let asked = move || {
        ASKED.store(true, Ordering::Relaxed);
        stop();
    };
    ctrlc::set_handler(asked).context("cannot watch for Ctrl-C")
}

/// Whether the user wants to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
