//! How a completion handler tells waiting threads that a command buffer has ended. Holds plain
//! values only: a handler that runs late, even while the process ends, touches nothing of Metal's.
//!
//! | outcome     | written by                   | means                                     |
//! |-------------|------------------------------|-------------------------------------------|
//! | `None`      |                              | committed, not ended                      |
//! | `Completed` | the completion handler, once | every command of it has run               |
//! | `Failed`    | the completion handler, once | it ended early; its outputs are undefined |

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How a command buffer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All of it ran.
    Completed,
    /// The code and words of Metal's error.
    Failed {
        /// The error's code; of `MTLCommandBufferErrorDomain`.
        code: isize,
        /// The error's description.
        reason: String,
    },
}

/// The state of one committed command buffer.
#[derive(Debug, Default)]
pub(super) struct Signal {
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

impl Signal {
    /// Records the end. Never panics: it is called from a foreign thread.
    pub(super) fn end(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.ended.notify_all();
    }

    /// The outcome, if it is there within `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Option<Outcome> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(outcome, timeout, |outcome| outcome.is_none());
        let (outcome, _) = waited.unwrap_or_else(PoisonError::into_inner);
        outcome.clone()
    }

    /// Whether it has ended, without waiting.
    pub(super) fn has_ended(&self) -> bool {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}
