//! The cancel flag that long phases poll and any thread may set.
//! Owns one sticky bit; must not know the registry, calls or objects.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::sync::AtomicBool;

/// A request to stop, shared by everyone who may ask for it and everyone who must obey it.
///
/// | state | set by | left by |
/// |---|---|---|
/// | clear | creation, [`take`](Self::take) | [`cancel`](Self::cancel) |
/// | asked | [`cancel`](Self::cancel), teardown | [`take`](Self::take), by the work that reports `Cancelled` |
///
/// The flag is *sticky*: asked before the work starts, it stops that work at its first check. Whoever
/// reports the cancellation takes the flag, so that one request ends one piece of work. The flag
/// publishes no other data, so relaxed loads and stores suffice.
#[derive(Clone)]
pub struct CancelToken {
    asked: Arc<AtomicBool>,
    /// Asked whenever this one is.
    also: Option<Arc<CancelToken>>,
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self { asked: Arc::new(AtomicBool::new(false)), also: None }
    }

    /// A token for work that stops when either of two is asked: a request's own, and that of the object
    /// it works on. [`cancel`](Self::cancel) and [`take`](Self::take) of the result reach `self` only.
    pub fn joined(&self, other: &CancelToken) -> Self {
        let also = match &self.also {
            None => other.clone(),
            Some(also) => also.joined(other),
        };
        Self { asked: self.asked.clone(), also: Some(Arc::new(also)) }
    }

    /// Asks the work to stop. Never blocks, and is safe from any thread.
    pub fn cancel(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Fails once the work has been asked to stop. One relaxed load for each joined token: poll it in
    /// inner loops.
    #[inline]
    pub fn check(&self) -> Result<(), Cancelled> {
        match &self.also {
            _ if self.asked.load(Ordering::Relaxed) => Err(Cancelled),
            Some(also) => also.check(),
            None => Ok(()),
        }
    }

    /// Whether the work has been asked to stop.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.check().is_err()
    }

    /// Clears the request and returns whether there was one: called when work reports it.
    pub fn take(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("asked", &self.is_cancelled()).finish()
    }
}

/// The work was asked to stop, by a person or because the process is ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled")
    }
}

impl Error for Cancelled {}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_request_before_the_work_is_kept_and_ends_one_piece_of_work() {
        let token = CancelToken::new();
        let seen_by_work = token.clone();
        token.cancel();
        token.cancel();
        assert_eq!(seen_by_work.check(), Err(Cancelled));
        assert!(seen_by_work.take());
        assert_eq!(token.check(), Ok(()));
        assert!(!token.take());
    }

    #[test]
    fn joined_tokens_stop_work_each_and_are_asked_apart() {
        let tokens: [CancelToken; 3] = std::array::from_fn(|_| CancelToken::new());
        let all = tokens[0].joined(&tokens[1]).joined(&tokens[2]);
        for token in &tokens {
            assert!(all.check().is_ok());
            token.cancel();
            assert!(all.check().is_err());
            assert_eq!(tokens.iter().filter(|token| token.is_cancelled()).count(), 1);
            assert!(token.take());
        }
        all.cancel();
        assert!(tokens[0].is_cancelled() && !tokens[1].is_cancelled());
    }
}
