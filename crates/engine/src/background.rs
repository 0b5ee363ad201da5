//! A request at work on a thread of its own. It must not know what the work is.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tintype_registry::CancelToken;

/// The thread of a request could not be started, or ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the generation ended without a result; this is a fault of Tintype, please report it")]
pub struct Lost;

/// A request at work on a thread of its own. Dropping it cancels the work and waits for its end.
///
/// Reports are an iterator: `for report in &mut work { … }`, then [`Background::finish`].
pub struct Background<R, T, E> {
    cancel: CancelToken,
    reports: Receiver<R>,
    /// Not a `JoinHandle`: in a process that is ending, the work's thread ends without a word, and then
    /// whoever waits for it is to wait too, not to panic.
    outcome: Receiver<Result<T, E>>,
    finished: bool,
}

impl<R, T, E> Background<R, T, E>
where
    R: Send + 'static,
    T: Send + 'static,
    E: From<Lost> + Send + 'static,
{
    pub(crate) fn spawn(
        work: impl FnOnce(&CancelToken, &mut dyn FnMut(R)) -> Result<T, E> + Send + 'static,
    ) -> Result<Self, E> {
        let cancel = CancelToken::new();
        let (sender, reports) = channel();
        let (ended, outcome) = channel();
        let token = cancel.clone();
        let thread = std::thread::Builder::new().name("tintype".into()).spawn(move || {
            // Nobody may be listening any more; the work goes on for the result.
            let made = work(&token, &mut |report| drop(sender.send(report)));
            drop(sender);
            drop(ended.send(made));
        });
        thread.map_err(|_| Lost)?;
        Ok(Background { cancel, reports, outcome, finished: false })
    }

    /// A handle that stops the work, from any thread. Sticky.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// Those of the work.
    pub fn finish(mut self) -> Result<T, E> {
        self.finished = true;
        self.outcome.recv().map_err(|_| Lost)?
    }
}

impl<R, T, E> Background<R, T, E> {
    /// The next report, if one comes within `patience`; else `None`. `Some(None)` once the work has ended.
    pub fn next_within(&mut self, patience: Duration) -> Option<Option<R>> {
        match self.reports.recv_timeout(patience) {
            Ok(report) => Some(Some(report)),
            Err(RecvTimeoutError::Disconnected) => Some(None),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

impl<R, T, E> Iterator for Background<R, T, E> {
    type Item = R;

    /// The next report; `None` once the work has ended.
    fn next(&mut self) -> Option<R> {
        self.reports.recv().ok()
    }
}

impl<R, T, E> Drop for Background<R, T, E> {
    fn drop(&mut self) {
        if !self.finished {
            self.cancel.cancel();
            // Its result is not wanted.
            drop(self.outcome.recv());
        }
    }
}
