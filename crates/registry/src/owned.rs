//! A registered object as a Rust value: whoever holds it owns the object, and dropping it frees it.
//! Owns nothing but the handle; must not know what the object is.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::Use;
use crate::entry::Tracked;
use crate::handle::Handle;
use crate::state::Kind;
use crate::{CancelToken, CreateError, Registry, RegistryError, Stage};

/// An object of the process's registry, freed when this is dropped, or at exit, whichever is first.
///
/// The object itself lies in the registry. Where the holder lives on in a static, or in a thread that is
/// never joined, teardown frees the object all the same, and every use of this answers so.
pub struct Owned<T: Tracked> {
    handle: Handle,
    /// Someone else frees it: a C caller that was given the handle.
    lent: AtomicBool,
    _object: PhantomData<fn() -> T>,
}

impl<T: Tracked> Owned<T> {
    /// Builds and tracks an object, as [`Registry::create`] does.
    ///
    /// # Errors
    /// What `build` returns, and the registry's refusals.
    pub fn create<E>(
        stage: Stage,
        token: &CancelToken,
        build: impl FnOnce(&CancelToken) -> Result<T, E>,
    ) -> Result<Self, CreateError<E>> {
        let handle = Registry::global().create(stage, token, build)?;
        Ok(Self { handle, lent: AtomicBool::new(false), _object: PhantomData })
    }

    /// A view of an object that someone else owns: dropping it frees nothing. What the handle names is
    /// found out when it is used.
    pub fn view(handle: Handle) -> Self {
        Self { handle, lent: AtomicBool::new(true), _object: PhantomData }
    }

    /// Gives ownership to whoever keeps the handle: from here on only [`Registry::free`] frees it.
    pub fn lend(&self) -> Handle {
        self.lent.store(true, Ordering::Relaxed);
        self.handle
    }

    /// Begins a call on the object, which stays alive until the guard is dropped.
    ///
    /// # Errors
    /// The object was freed, is of another type, or the process is ending.
    pub fn open(&self, kind: Kind) -> Result<Use<'static, T>, RegistryError> {
        Registry::global().open(self.handle, kind)
    }

    /// Takes the request to stop that the object's work has obeyed, so that it ends one piece of work.
    /// A freed object's stays.
    pub fn take_cancel(&self) -> bool {
        Registry::global().take_cancel(self.handle)
    }
}

impl<T: Tracked> Drop for Owned<T> {
    fn drop(&mut self) {
        if !*self.lent.get_mut() {
            // Teardown may have been first.
            let _freed_already = Registry::global().free(self.handle);
        }
    }
}

impl<T: Tracked> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owned").field(&self.handle).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Counted(#[expect(dead_code, reason = "counted by its owners")] Arc<()>);
    impl Tracked for Counted {}

    fn make(count: &Arc<()>) -> Owned<Counted> {
        let build = |_: &CancelToken| Ok::<_, std::io::Error>(Counted(count.clone()));
        Owned::create(Stage::Context, &CancelToken::new(), build).unwrap()
    }

    #[test]
    fn dropping_the_owner_frees_and_dropping_a_view_does_not() {
        let count = Arc::new(());
        let owned = make(&count);
        drop(Owned::<Counted>::view(owned.handle));
        assert!(owned.open(Kind::Generate).is_ok());
        let view = Owned::<Counted>::view(owned.handle);
        drop(owned);
        assert_eq!(Arc::strong_count(&count), 1);
        assert_eq!(view.open(Kind::Generate).map(drop), Err(RegistryError::Freed));
    }

    #[test]
    fn a_lent_object_is_freed_by_its_handle_only() {
        let count = Arc::new(());
        let owned = make(&count);
        let handle = owned.lend();
        drop(owned);
        assert_eq!(Arc::strong_count(&count), 2);
        assert_eq!(Registry::global().free(handle), Ok(()));
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[test]
    fn one_request_to_stop_ends_one_piece_of_work_but_a_free_ends_all() {
        let owned = make(&Arc::new(()));
        Registry::global().cancel(owned.handle).unwrap();
        let work = owned.open(Kind::Generate).unwrap();
        assert!(work.check().is_err());
        assert!(owned.take_cancel());
        assert!(work.check().is_ok());
        Registry::global().free(owned.handle).unwrap();
        assert!(!owned.take_cancel());
        assert!(work.check().is_err());
    }
}
