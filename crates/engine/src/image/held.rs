//! A loaded model as the registry keeps it, and whose turn it is. It must not know what is done in a turn.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tintype_gpu::Device;
use tintype_registry::{CancelToken, Kind, Owned, Tracked};

use super::error::ImageError;
use super::model::ImageModelInfo;
use super::parts::Parts;
use super::progress::Phase;

/// A request that waits for its turn looks this often whether it was cancelled.
const LOOK: Duration = Duration::from_millis(10);
/// Longest wait at exit for what a device was given.
const SETTLE: Duration = Duration::from_secs(2);

/// A model: what it is, and its networks, which one request at a time takes out.
pub(super) struct Held {
    pub(super) info: Arc<ImageModelInfo>,
    device: Device,
    parts: Mutex<Option<Box<Parts>>>,
    back: Condvar,
}

impl Held {
    pub(super) fn new(info: ImageModelInfo, parts: Parts) -> Self {
        let device = parts.device.clone();
        let parts = Mutex::new(Some(Box::new(parts)));
        Held { info: Arc::new(info), device, parts, back: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Parts>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of this request, and takes the networks out.
    fn take(&self, cancel: &CancelToken) -> Result<Box<Parts>, ImageError> {
        let mut parts = self.lock();
        loop {
            cancel.check().map_err(|_| ImageError::Cancelled(Phase::Text))?;
            if let Some(parts) = parts.take() {
                return Ok(parts);
            }
            parts = match self.back.wait_timeout(parts, LOOK) {
                Ok((parts, _)) => parts,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

impl Tracked for Held {
    /// `exit()` was called from a report of progress: the networks are in use by frames that never run
    /// again, so they stay; the device only finishes what it was given, lest it work under its driver's
    /// own exit.
    fn release_at_exit(&self) {
        match self.parts.try_lock().ok().and_then(|mut parts| parts.take()) {
            Some(parts) => drop(parts),
            None => drop(self.device.idle(SETTLE)),
        }
    }
}

/// Gives the networks back, after a panic too: plans are rewritten by the next request, never read
/// half-written.
struct Seat<'a> {
    held: &'a Held,
    parts: Option<Box<Parts>>,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        *self.held.lock() = self.parts.take();
        self.held.back.notify_one();
    }
}

/// Does `work` on a model's networks, in flight from before its turn until after it. A request to stop
/// that was meant for the model, not for this work, ends one piece of work.
pub(super) fn with_parts<R>(
    owned: &Owned<Held>,
    cancel: &CancelToken,
    work: impl FnOnce(&mut Parts, &CancelToken) -> Result<R, ImageError>,
) -> Result<R, ImageError> {
    let held = owned.open(Kind::Generate)?;
    let cancel = held.call().token().map_or(cancel.clone(), |model| cancel.joined(model));
    let outcome = held.take(&cancel).and_then(|parts| {
        let mut seat = Seat { held: &held, parts: Some(parts) };
        match seat.parts.as_deref_mut() {
            Some(parts) => work(parts, &cancel),
            None => Err(crate::background::Lost.into()),
        }
    });
    if matches!(outcome, Err(ImageError::Cancelled(_))) {
        owned.take_cancel();
    }
    outcome
}
