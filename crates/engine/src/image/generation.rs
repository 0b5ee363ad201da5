//! A request at work on a thread of its own. It must not know what the work is.

use std::sync::mpsc::{Receiver, channel};

use tintype_registry::CancelToken;

use super::error::ImageError;
use super::generate::ImageResult;
use super::progress::{Observer, Progress};

/// A request at work on a thread of its own. Dropping it cancels the work and waits for its end.
///
/// Progress is an iterator: `for progress in &mut generation { … }`, then [`Generation::finish`].
pub struct Generation {
    cancel: CancelToken,
    progress: Receiver<Progress>,
    /// Not a `JoinHandle`: in a process that is ending, the work's thread ends without a word, and then
    /// whoever waits for it is to wait too, not to panic.
    outcome: Receiver<Result<ImageResult, ImageError>>,
    finished: bool,
}

impl Generation {
    pub(super) fn spawn(
        work: impl FnOnce(&CancelToken, &mut dyn Observer) -> Result<ImageResult, ImageError>
        + Send
        + 'static,
    ) -> Result<Self, ImageError> {
        let cancel = CancelToken::new();
        let (sender, progress) = channel();
        let (ended, outcome) = channel();
        let token = cancel.clone();
        let thread = std::thread::Builder::new().name("tintype image".into()).spawn(move || {
            // Nobody may be listening any more; the work goes on for the result.
            let made = work(&token, &mut |report: &Progress| drop(sender.send(report.clone())));
            drop(sender);
            drop(ended.send(made));
        });
        thread.map_err(|_| ImageError::Lost)?;
        Ok(Generation { cancel, progress, outcome, finished: false })
    }

    /// A handle that stops the work, from any thread. Sticky.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Waits for the pictures.
    ///
    /// # Errors
    /// Those of [`super::ImageModel::generate`].
    pub fn finish(mut self) -> Result<ImageResult, ImageError> {
        self.finished = true;
        self.outcome.recv().map_err(|_| ImageError::Lost)?
    }
}

impl Iterator for Generation {
    type Item = Progress;

    /// The next report; `None` once the work has ended.
    fn next(&mut self) -> Option<Progress> {
        self.progress.recv().ok()
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if !self.finished {
            self.cancel.cancel();
            // Its result is not wanted.
            drop(self.outcome.recv());
        }
    }
}
