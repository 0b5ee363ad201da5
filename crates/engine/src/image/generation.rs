//! A request at work on a thread of its own. It must not know what the work is.

use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

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
    thread: Option<JoinHandle<Result<ImageResult, ImageError>>>,
}

impl Generation {
    pub(super) fn spawn(
        work: impl FnOnce(&CancelToken, &mut dyn Observer) -> Result<ImageResult, ImageError>
        + Send
        + 'static,
    ) -> Result<Self, ImageError> {
        let cancel = CancelToken::new();
        let (sender, progress) = channel();
        let token = cancel.clone();
        let thread = std::thread::Builder::new().name("tintype image".into()).spawn(move || {
            // Nobody may be listening any more; the work goes on for the result.
            work(&token, &mut |progress: &Progress| drop(sender.send(progress.clone())))
        });
        let thread = thread.map_err(|_| ImageError::Lost)?;
        Ok(Generation { cancel, progress, thread: Some(thread) })
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
        let thread = self.thread.take().ok_or(ImageError::Lost)?;
        thread.join().map_err(|_| ImageError::Lost)?
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
        if let Some(thread) = self.thread.take() {
            self.cancel.cancel();
            // Its result is not wanted.
            drop(thread.join());
        }
    }
}
