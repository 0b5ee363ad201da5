//! The registry that threads share: the protocol of `state` behind one lock, with guards.
//! Owns the critical sections and who never returns; must not know GPUs, models or process hooks.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::call::{Call, Use};
use crate::entry::{Entry, FreeFn, Origin, Payload, Stage, Tracked};
use crate::handle::Handle;
use crate::state::{Begin, FrameId, Gate, Kind, State, Step, Then, Waits};
use crate::sync::{self, AtomicBool, Lock, ThreadKey};
use crate::teardown::{REPEAT, Teardown};
use crate::{CancelToken, CreateError, RegistryError};

/// Everything alive and every call in flight, behind one lock.
///
/// A process uses [`Registry::global`]; further ones serve tests. Every method that takes the lock obeys
/// one rule first: once teardown has begun, a thread outside a call **never returns** from it, and the
/// threads that asked for teardown get [`RegistryError::Closed`] (or zero, or false).
pub struct Registry {
    state: Lock<State>,
    /// Left behind by `fork()` in the child, where another thread's hold on the lock lasts for ever.
    abandoned: AtomicBool,
    global: bool,
}

impl Registry {
    /// An empty registry that no exit handler tears down.
    #[expect(clippy::new_without_default, reason = "registries are not values to default to")]
    pub fn new() -> Self {
        Self::with_role(false)
    }

    pub(crate) fn with_role(global: bool) -> Self {
        Self { state: Lock::new(State::new()), abandoned: AtomicBool::new(false), global }
    }

    /// Rules 5 and 11 for every entry: the work is done in one critical section, or the thread never
    /// returns.
    fn section<R>(
        &self,
        work: impl FnOnce(&mut State, ThreadKey) -> Result<R, RegistryError>,
    ) -> Result<R, RegistryError> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(RegistryError::Closed);
        }
        let me = sync::thread_key();
        let mut state = self.state.lock();
        match state.gate(me) {
            Gate::Pass => work(&mut state, me),
            Gate::DoNothing => Err(RegistryError::Closed),
            Gate::Never => {
                self.tell_teardown(&state, me);
                drop(state);
                sync::never_return()
            }
        }
    }

    /// The exit hooks must stand before anything is alive.
    fn hooked(&self) -> Result<(), RegistryError> {
        if self.global {
            crate::global::ensure_hooks().map_err(RegistryError::Hook)?;
            crate::global::watch_this_thread();
        }
        Ok(())
    }

    // Calls in flight.

    /// Begins a call that lasts as long as the guard. Calls nest; a thread's outermost one counts.
    pub fn enter(&self, kind: Kind) -> Result<Call<'_>, RegistryError> {
        self.hooked()?;
        let frame = self.section(|state, me| Ok(state.enter(me, kind, None, false)))?;
        Ok(Call::new(self, frame, None))
    }

    /// As [`enter`](Self::enter), for a call that teardown stops by this token.
    pub fn enter_with(&self, kind: Kind, token: &CancelToken) -> Result<Call<'_>, RegistryError> {
        self.hooked()?;
        let asked = Some(token.clone());
        let frame = self.section(|state, me| Ok(state.enter(me, kind, asked, false)))?;
        Ok(Call::new(self, frame, Some(token.clone())))
    }

    /// Begins a call without a guard, for a native caller. [`end`](Self::end) must follow on the same
    /// thread; a thread that ends has left its calls.
    pub fn begin(&self, kind: Kind) -> Result<(), RegistryError> {
        self.hooked()?;
        self.section(|state, me| {
            state.enter(me, kind, None, true);
            Ok(())
        })
    }

    /// Ends the calling thread's latest call begun by [`begin`](Self::begin).
    pub fn end(&self) -> Result<(), RegistryError> {
        let now = sync::now();
        let then = self.section(|state, me| {
            let then = state.leave_raw(me, now)?;
            self.tell_teardown(state, me);
            Ok(then)
        })?;
        obey(then);
        Ok(())
    }

    /// Ends a guarded call, tracking what it created in the same critical section.
    pub(crate) fn leave(
        &self,
        frame: FrameId,
        created: Option<Entry>,
    ) -> Option<Result<Handle, RegistryError>> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Some(Err(RegistryError::Closed));
        }
        let now = sync::now();
        let me = sync::thread_key();
        let mut refused = None;
        let mut state = self.state.lock();
        let handle = created.map(|entry| match state.gate(me) {
            Gate::Pass => state.track(entry).map(|(handle, _)| handle),
            // Not dropped here: its destructor runs without the lock.
            Gate::DoNothing | Gate::Never => {
                refused = Some(entry);
                Err(RegistryError::Closed)
            }
        });
        let then = state.leave(me, frame, now);
        self.tell_teardown(&state, me);
        drop(state);
        drop(refused);
        obey(then);
        handle
    }

    fn tell_teardown(&self, state: &State, me: ThreadKey) {
        if state.is_closing() && !state.is_in_call(me) {
            self.state.wake_all();
        }
    }

    // Objects.

    /// Builds an object in a call of its own and tracks it before returning its handle (rule 1).
    ///
    /// `token` stops the building now and the object's work later; asked before, it stops the building
    /// at its first check. `build` runs without the lock and may create other objects.
    pub fn create<T: Tracked, E>(
        &self,
        stage: Stage,
        token: &CancelToken,
        build: impl FnOnce(&CancelToken) -> Result<T, E>,
    ) -> Result<Handle, CreateError<E>> {
        let call = self.enter_with(Kind::Load, token)?;
        let object = build(token).map_err(CreateError::Build)?;
        let payload = Payload::Owned(Arc::new(object));
        Ok(call.finish(Entry { stage, token: token.clone(), payload })?)
    }

    /// Begins a call on an object, which stays alive until the returned guard is dropped.
    pub fn open<T: Tracked>(
        &self,
        handle: Handle,
        kind: Kind,
    ) -> Result<Use<'_, T>, RegistryError> {
        self.hooked()?;
        let (frame, object, token) = self.section(|state, me| {
            let entry = state.find(handle)?;
            let Payload::Owned(object) = &entry.payload else {
                return Err(RegistryError::WrongType);
            };
            let object: Arc<dyn std::any::Any + Send + Sync> = object.clone();
            let object = object.downcast::<T>().map_err(|_| RegistryError::WrongType)?;
            let token = entry.token.clone();
            Ok((state.enter(me, kind, Some(token.clone()), false), object, token))
        })?;
        Ok(Use::new(object, Call::new(self, frame, Some(token))))
    }

    /// Untracks and frees an object in one call in flight (rule 2), and asks its work to stop. An object
    /// that other calls are using is freed as the last of them ends. Again, or on any handle that names
    /// nothing: no effect.
    pub fn free(&self, handle: Handle) -> Result<(), RegistryError> {
        self.free_entry(|state| state.untrack(handle))
    }

    /// Untracks and frees the native object at this address, in one call in flight.
    pub fn free_object(&self, object: *mut c_void) -> Result<(), RegistryError> {
        self.free_entry(|state| state.untrack_address(address(object)?))
    }

    fn free_entry(
        &self,
        take: impl FnOnce(&mut State) -> Result<Entry, RegistryError>,
    ) -> Result<(), RegistryError> {
        let (frame, entry) = self.section(|state, me| {
            let entry = take(state)?;
            Ok((state.enter(me, Kind::Free, None, false), entry))
        })?;
        let call = Call::new(self, frame, None);
        entry.token.cancel();
        entry.free();
        drop(call);
        Ok(())
    }

    /// Asks an object's work to stop (rule 6): under the lock, so it never reaches a freed one, and
    /// without waiting. Asked before the work starts, it is kept.
    pub fn cancel(&self, handle: Handle) -> Result<(), RegistryError> {
        self.section(|state, _| {
            state.find(handle)?.token.cancel();
            Ok(())
        })
    }

    /// Takes the request that an object's work has obeyed, unless the object was freed meanwhile: a free
    /// ends everything that is done on it.
    pub fn take_cancel(&self, handle: Handle) -> bool {
        self.section(|state, _| Ok(state.find(handle)?.token.take())).unwrap_or(false)
    }

    /// Tracks a native object; returns whether it replaces an entry for the same address, whose free
    /// function then is not called.
    ///
    /// # Safety
    /// `free(object)` may be called once, from any thread, until the object is untracked; it must not
    /// unwind. Whoever frees the object otherwise untracks it first, and only if that returns true.
    pub unsafe fn track(
        &self,
        object: *mut c_void,
        free: FreeFn,
        stage: Stage,
    ) -> Result<bool, RegistryError> {
        address(object)?;
        self.hooked()?;
        let payload = Payload::Native { object, free };
        let entry = Entry { stage, token: CancelToken::new(), payload };
        self.section(|state, _| state.track(entry).map(|(_, replaced)| replaced))
    }

    /// Forgets a native object; returns whether it was tracked, which is the right to free it.
    pub fn untrack(&self, object: *mut c_void) -> bool {
        let take = |state: &mut State, _| state.untrack_address(address(object)?);
        self.section(take).is_ok()
    }

    /// How many objects are tracked.
    pub fn tracked_count(&self) -> usize {
        self.section(|state, _| Ok(state.tracked())).unwrap_or(0)
    }

    /// Sets how long teardown waits.
    pub fn set_waits(&self, waits: Waits) -> Result<(), RegistryError> {
        self.section(|state, _| {
            state.waits = waits;
            Ok(())
        })
    }

    // Teardown.

    /// Cancels everything, waits for the calls in flight, and frees what is tracked: once, for good.
    ///
    /// For hosts without a working exit handler (Windows, Android) and for those that want to be first.
    /// Afterwards the calling thread's calls do nothing and every other thread's never return.
    pub fn teardown(&self) -> Teardown {
        self.tear_down(Origin::Host)
    }

    pub(crate) fn tear_down(&self, origin: Origin) -> Teardown {
        if self.abandoned.load(Ordering::Relaxed) {
            return Teardown::Over;
        }
        let me = sync::thread_key();
        let mut state = self.state.lock();
        match state.begin(me, origin, sync::now()) {
            Begin::Idle => return Teardown::Idle,
            Begin::Over => return Teardown::Over,
            Begin::Other => {
                // The one that runs it may be waiting for this thread's calls, which are now over.
                self.state.wake_all();
                while !state.is_closed() {
                    state = self.state.wait(state);
                }
                return Teardown::Over;
            }
            Begin::Run => {}
        }
        loop {
            match state.step(sync::now(), REPEAT) {
                Step::WaitUntil(deadline) => state = self.state.wait_until(state, deadline),
                Step::Free => break,
                Step::GiveUp { in_flight } => {
                    let tracked = state.tracked();
                    state.close();
                    self.state.wake_all();
                    return Teardown::GaveUp { in_flight, tracked };
                }
            }
        }
        let (mut freed, mut panicked) = (0, 0);
        while let Some((entry, origin)) = state.take_next() {
            drop(state);
            freed += 1;
            panicked += usize::from(!entry.free_at_teardown(origin));
            state = self.state.lock();
        }
        state.close();
        self.state.wake_all();
        Teardown::Freed { freed, panicked }
    }

    // Threads and processes that end.

    /// The calling thread is ending.
    #[cfg(not(loom))]
    pub(crate) fn forget_this_thread(&self) {
        if self.abandoned.load(Ordering::Relaxed) {
            return;
        }
        let me = sync::thread_key();
        let mut state = self.state.lock();
        state.forget_thread(me);
        self.tell_teardown(&state, me);
    }

    /// In a forked child: the parent's objects are not this process's to free.
    #[cfg(not(loom))]
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

fn obey(then: Then) {
    if then == Then::NeverReturn {
        sync::never_return();
    }
}

fn address(object: *mut c_void) -> Result<usize, RegistryError> {
    if object.is_null() { Err(RegistryError::Null) } else { Ok(object as usize) }
}
