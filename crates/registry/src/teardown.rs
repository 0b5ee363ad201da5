//! What teardown can come to, and how often it asks again.

use std::time::Duration;

/// Every tracked object and call in flight is asked to cancel this often: work that reports a
/// cancellation takes the request, and the same call may then begin more work.
pub(crate) const REPEAT: Duration = Duration::from_millis(20);

/// How teardown ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Teardown {
    /// Nothing was tracked and nothing that creates or frees was in flight; it returned at once.
    Idle,
    /// Every call ended and every object was freed.
    Freed {
        /// Objects freed.
        freed: usize,
        /// Objects among them whose destructor panicked.
        panicked: usize,
    },
    /// The bound ran out: nothing was freed.
    GaveUp {
        /// Threads still in a call.
        in_flight: usize,
        /// Objects left alive.
        tracked: usize,
    },
    /// It was over, or this thread runs it further up, or it belongs to the process that forked this one.
    Over,
}
