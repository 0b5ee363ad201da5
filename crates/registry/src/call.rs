//! Guards of calls in flight: alone, and together with the object they work on.
//! Own when a call ends; must not know what is done in it.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use crate::entry::{Entry, Tracked};
use crate::handle::Handle;
use crate::state::FrameId;
use crate::{CancelToken, Cancelled, Registry, RegistryError};

/// A call in flight of the thread that began it. Dropping it ends the call; once teardown has begun,
/// dropping a thread's outermost one never returns.
#[must_use = "the call ends when this is dropped"]
pub struct Call<'r> {
    registry: &'r Registry,
    frame: FrameId,
    token: Option<CancelToken>,
    /// Belongs to its thread: not Send.
    _thread: PhantomData<*const ()>,
}

impl<'r> Call<'r> {
    pub(crate) fn new(registry: &'r Registry, frame: FrameId, token: Option<CancelToken>) -> Self {
        Self { registry, frame, token, _thread: PhantomData }
    }

    /// Fails once this call has been asked to stop. A call without a token never is.
    #[inline]
    pub fn check(&self) -> Result<(), Cancelled> {
        self.token.as_ref().map_or(Ok(()), CancelToken::check)
    }

    /// What stops this call, if anything does.
    pub fn token(&self) -> Option<&CancelToken> {
        self.token.as_ref()
    }

    /// Ends the call that created an object: tracked and left at one instant.
    pub(crate) fn finish(self, created: Entry) -> Result<Handle, RegistryError> {
        let mut call = mem::ManuallyDrop::new(self);
        call.token = None;
        let handle = call.registry.leave(call.frame, Some(created));
        handle.unwrap_or(Err(RegistryError::Closed))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.registry.leave(self.frame, None);
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("frame", &self.frame).finish_non_exhaustive()
    }
}

/// An object in use by a call in flight: it is not freed before this is dropped.
#[must_use = "the call ends when this is dropped"]
pub struct Use<'r, T: Tracked> {
    // Dropped in this order: the object's last owner is still in flight.
    object: Arc<T>,
    call: Call<'r>,
}

impl<'r, T: Tracked> Use<'r, T> {
    pub(crate) fn new(object: Arc<T>, call: Call<'r>) -> Self {
        Self { object, call }
    }

    /// The call that this use is.
    pub fn call(&self) -> &Call<'r> {
        &self.call
    }

    /// Fails once the object's work has been asked to stop.
    #[inline]
    pub fn check(&self) -> Result<(), Cancelled> {
        self.call.check()
    }
}

impl<T: Tracked> Deref for Use<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: Tracked + fmt::Debug> fmt::Debug for Use<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Use").field("object", &*self.object).field("call", &self.call).finish()
    }
}
