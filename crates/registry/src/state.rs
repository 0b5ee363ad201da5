//! The protocol as a pure state machine: what is tracked, who is in a call, what each thread may do.
//! Owns every rule but the waiting; must not know locks, clocks (time is an argument) or processes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::entry::{Entry, Origin};
use crate::handle::{Handle, Tag};
use crate::sync::{ThreadKey, Time, real_time};
use crate::{CancelToken, RegistryError};

/// How long after leaving a call a thread may still read an object before teardown frees it.
pub(crate) const GRACE: Duration = real_time(Duration::from_millis(250));

/// What a call in flight is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Creates an object.
    Load,
    /// Works on a tracked object.
    Generate,
    /// Asks a driver for its devices, which creates and frees driver objects.
    Query,
    /// Frees an object.
    Free,
    /// A host marked a stretch of its own as a call; alone it keeps nothing alive.
    Mark,
}

impl Kind {
    /// Whether teardown waits the long bound for it.
    fn is_long(self) -> bool {
        matches!(self, Self::Load | Self::Generate | Self::Query)
    }

    /// Whether an object may come to be, or still be, under it while nothing is tracked.
    fn holds_objects(self) -> bool {
        !matches!(self, Self::Mark)
    }
}

/// How long teardown waits for calls in flight before it gives up and frees nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// While a load, generation or device query is in flight. 15 s at first.
    pub long: Duration,
    /// While only other calls are, counted from the end of the last long one. 2 s at first.
    pub short: Duration,
}

impl Waits {
    /// From milliseconds, where negative means zero.
    pub fn from_millis(long: i64, short: i64) -> Self {
        let clamp = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        Self { long: clamp(long), short: clamp(short) }
    }
}

impl Default for Waits {
    fn default() -> Self {
        Self { long: Duration::from_secs(15), short: Duration::from_secs(2) }
    }
}

/// Names one call in flight of one thread.
pub(crate) type FrameId = u64;

struct Frame {
    id: FrameId,
    kind: Kind,
    token: Option<CancelToken>,
    /// Begun without a guard, by a native caller.
    raw: bool,
}

/// A thread that is in a call, or left one and may still be reading.
#[derive(Default)]
struct Thread {
    frames: Vec<Frame>,
    left: Time,
}

/// | phase | entered by | a thread outside a call | teardown's own thread |
/// |---|---|---|---|
/// | open | start | passes | |
/// | closing | `begin` | never returns | does nothing |
/// | closed | `close` | never returns | does nothing |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closing { began: Time, last_long: Time },
    Closed,
}

/// What a thread that enters the registry may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Pass,
    DoNothing,
    Never,
}

/// What a thread that ended a call must do once the lock is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Then {
    Return,
    NeverReturn,
}

/// What a thread that asks for teardown finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Nothing to free and nobody to wait for.
    Idle,
    /// This thread runs it: step until there is nothing to wait for.
    Run,
    /// Another thread runs it: wait until it is closed.
    Other,
    /// It is over, or this very thread is running it further up.
    Over,
}

/// What teardown does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    WaitUntil(Time),
    GiveUp { in_flight: usize },
    Free,
}

pub(crate) struct State {
    tag: Tag,
    /// By stage, then by serial, which is the order of tracking.
    entries: [BTreeMap<u64, Entry>; 3],
    addresses: BTreeMap<usize, u64>,
    next_serial: u64,
    threads: BTreeMap<ThreadKey, Thread>,
    next_frame: FrameId,
    prune_at: usize,
    phase: Phase,
    /// Threads that asked for teardown, the one that runs it first.
    exempt: Vec<(ThreadKey, Origin)>,
    pub(crate) waits: Waits,
}

/// Idle threads are forgotten once this many are remembered.
const REMEMBERED_THREADS: usize = 32;

impl State {
    pub(crate) fn new() -> Self {
        Self {
            tag: Tag::draw(),
            entries: [const { BTreeMap::new() }; 3],
            addresses: BTreeMap::new(),
            next_serial: 1,
            threads: BTreeMap::new(),
            next_frame: 1,
            prune_at: REMEMBERED_THREADS,
            phase: Phase::Open,
            exempt: Vec::new(),
            waits: Waits::default(),
        }
    }

    // Who may pass.

    /// A thread that it tells never to return reads nothing any more, so it is forgotten.
    pub(crate) fn gate(&mut self, thread: ThreadKey) -> Gate {
        if self.phase == Phase::Open {
            Gate::Pass
        } else if self.is_exempt(thread) {
            Gate::DoNothing
        } else if self.is_in_call(thread) {
            Gate::Pass
        } else {
            self.threads.remove(&thread);
            Gate::Never
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    fn is_exempt(&self, thread: ThreadKey) -> bool {
        self.exempt.iter().any(|&(exempt, _)| exempt == thread)
    }

    pub(crate) fn is_in_call(&self, thread: ThreadKey) -> bool {
        self.threads.get(&thread).is_some_and(|thread| !thread.frames.is_empty())
    }

    // Calls in flight.

    pub(crate) fn enter(
        &mut self,
        thread: ThreadKey,
        kind: Kind,
        token: Option<CancelToken>,
        raw: bool,
    ) -> FrameId {
        let id = self.next_frame;
        self.next_frame += 1;
        let frame = Frame { id, kind, token, raw };
        self.threads.entry(thread).or_default().frames.push(frame);
        id
    }

    /// Ends a call. Safe to repeat: a frame that is gone changes nothing.
    pub(crate) fn leave(&mut self, thread: ThreadKey, frame: FrameId, now: Time) -> Then {
        let Some(slot) = self.threads.get_mut(&thread) else { return Then::Return };
        slot.frames.retain(|other| other.id != frame);
        if !slot.frames.is_empty() {
            return Then::Return;
        }
        slot.left = now;
        if self.is_closing() && !self.is_exempt(thread) {
            self.threads.remove(&thread);
            return Then::NeverReturn;
        }
        self.prune(now);
        Then::Return
    }

    /// Ends the latest call that this thread began without a guard.
    pub(crate) fn leave_raw(
        &mut self,
        thread: ThreadKey,
        now: Time,
    ) -> Result<Then, RegistryError> {
        let frames = self.threads.get(&thread).map(|thread| thread.frames.as_slice());
        let latest = frames.unwrap_or_default().iter().rev().find(|frame| frame.raw);
        let id = latest.ok_or(RegistryError::NoCall)?.id;
        Ok(self.leave(thread, id, now))
    }

    /// The thread ends: no call of it is in flight, nor will it read anything.
    #[cfg(not(loom))]
    pub(crate) fn forget_thread(&mut self, thread: ThreadKey) {
        self.threads.remove(&thread);
    }

    #[cfg(test)]
    pub(crate) fn remembered_threads(&self) -> usize {
        self.threads.len()
    }

    fn prune(&mut self, now: Time) {
        if self.threads.len() >= self.prune_at {
            self.threads.retain(|_, thread| !thread.frames.is_empty() || thread.left + GRACE > now);
            self.prune_at = REMEMBERED_THREADS.max(self.threads.len() * 2);
        }
    }

    fn others_in_call(&self) -> impl Iterator<Item = &Thread> {
        let others = self.threads.iter().filter(|(key, _)| !self.is_exempt(**key));
        others.map(|(_, thread)| thread).filter(|thread| !thread.frames.is_empty())
    }

    fn others_do(&self, what: fn(Kind) -> bool) -> bool {
        self.others_in_call().any(|thread| thread.frames.iter().any(|frame| what(frame.kind)))
    }

    // Objects.

    /// Tracks an object and returns its serial, and whether it replaces one at the same address.
    pub(crate) fn track(&mut self, entry: Entry) -> Result<(Handle, bool), RegistryError> {
        let serial = self.next_serial;
        let handle = self.tag.seal(serial)?;
        self.next_serial += 1;
        let replaced = entry.address().and_then(|address| self.addresses.insert(address, serial));
        if let Some(old) = replaced {
            self.remove(old);
        }
        self.entries[entry.stage as usize].insert(serial, entry);
        Ok((handle, replaced.is_some()))
    }

    fn get(&self, serial: u64) -> Option<&Entry> {
        self.entries.iter().find_map(|stage| stage.get(&serial))
    }

    fn remove(&mut self, serial: u64) -> Option<Entry> {
        self.entries.iter_mut().find_map(|stage| stage.remove(&serial))
    }

    fn serial_of(&self, handle: Handle) -> Result<u64, RegistryError> {
        let serial = self.tag.open(handle)?;
        match self.get(serial) {
            Some(entry) if entry.address().is_none() => Ok(serial),
            Some(_) => Err(RegistryError::Foreign),
            None if serial < self.next_serial => Err(RegistryError::Freed),
            None => Err(RegistryError::Foreign),
        }
    }

    pub(crate) fn find(&self, handle: Handle) -> Result<&Entry, RegistryError> {
        let serial = self.serial_of(handle)?;
        self.get(serial).ok_or(RegistryError::Freed)
    }

    pub(crate) fn untrack(&mut self, handle: Handle) -> Result<Entry, RegistryError> {
        let serial = self.serial_of(handle)?;
        self.remove(serial).ok_or(RegistryError::Freed)
    }

    pub(crate) fn untrack_address(&mut self, address: usize) -> Result<Entry, RegistryError> {
        let serial = self.addresses.remove(&address).ok_or(RegistryError::NotTracked)?;
        self.remove(serial).ok_or(RegistryError::NotTracked)
    }

    pub(crate) fn tracked(&self) -> usize {
        self.entries.iter().map(BTreeMap::len).sum()
    }

    // Teardown.

    pub(crate) fn begin(&mut self, thread: ThreadKey, origin: Origin, now: Time) -> Begin {
        let known = self.is_exempt(thread);
        if !known {
            self.exempt.push((thread, origin));
        }
        match self.phase {
            Phase::Closed => Begin::Over,
            Phase::Closing { .. } if known => Begin::Over,
            Phase::Closing { .. } => Begin::Other,
            Phase::Open => {
                if self.tracked() == 0 && !self.others_do(Kind::holds_objects) {
                    self.phase = Phase::Closed;
                    return Begin::Idle;
                }
                self.phase = Phase::Closing { began: now, last_long: now };
                Begin::Run
            }
        }
    }

    /// Asks everything to stop, then says what to wait for. To be repeated until it says otherwise.
    pub(crate) fn step(&mut self, now: Time, repeat: Duration) -> Step {
        self.cancel_all();
        let long = self.others_do(Kind::is_long);
        let in_flight = self.others_in_call().count();
        let Phase::Closing { began, ref mut last_long } = self.phase else {
            return Step::GiveUp { in_flight };
        };
        if long {
            *last_long = now;
        }
        let deadline = if long { began + self.waits.long } else { *last_long + self.waits.short };
        if in_flight > 0 {
            if now >= deadline {
                return Step::GiveUp { in_flight };
            }
            return Step::WaitUntil(deadline.min(now + repeat));
        }
        match self.read_until() {
            Some(until) if now < until => Step::WaitUntil(until),
            _ => Step::Free,
        }
    }

    /// Until when the threads that left a call before teardown began may still read.
    fn read_until(&self) -> Option<Time> {
        let others = self.threads.iter().filter(|(key, _)| !self.is_exempt(**key));
        let idle = others.filter(|(_, thread)| thread.frames.is_empty());
        idle.map(|(_, thread)| thread.left + GRACE).max()
    }

    fn cancel_all(&self) {
        for entry in self.entries.iter().flat_map(BTreeMap::values) {
            entry.token.cancel();
        }
        let frames = self.others_in_call().flat_map(|thread| &thread.frames);
        frames.filter_map(|frame| frame.token.as_ref()).for_each(CancelToken::cancel);
    }

    /// Takes out the object that is freed next: the lowest stage, the latest within it. Says also in
    /// which way: frames that use it run again if their thread only called teardown.
    pub(crate) fn take_next(&mut self) -> Option<(Entry, Origin)> {
        let (_, entry) = self.entries.iter_mut().find_map(BTreeMap::pop_last)?;
        if let Some(address) = entry.address() {
            self.addresses.remove(&address);
        }
        let returns = |&(thread, origin): &(ThreadKey, Origin)| {
            origin == Origin::Host && self.is_in_call(thread)
        };
        let origin = if self.exempt.iter().any(returns) { Origin::Host } else { Origin::Exit };
        Some((entry, origin))
    }

    pub(crate) fn close(&mut self) {
        self.phase = Phase::Closed;
    }
}
