//! The rules as an executable model: a plain account of what is alive and who is where, kept beside the
//! protocol through every short history of two workers and teardown. Where they differ, a rule is broken.
//! Single-threaded and exhaustive; `tests/loom.rs` covers the lock and the waiting.

use std::ffi::c_void;
use std::time::Duration;

use crate::CancelToken;
use crate::entry::{Entry, Origin, Payload, Stage};
use crate::handle::Handle;
use crate::state::{Begin, FrameId, GRACE, Gate, Kind, State, Step, Then};
use crate::sync::{ThreadKey, Time};

const WORKERS: [ThreadKey; 2] = [1, 2];
const TEARDOWN: ThreadKey = 9;
const REPEAT: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Load(usize),
    Generate(usize),
    Mark(usize),
    Free(usize),
    /// Ends the worker's innermost call, whatever it was.
    Finish(usize),
    /// The first worker cancels the latest object.
    Cancel,
    /// Time passes: a moment, a bit more than the grace, or more than any bound.
    Pass(u64),
    Begin,
    Step,
    FreeNext,
}

const OPS: [Op; 16] = [
    Op::Load(0),
    Op::Load(1),
    Op::Generate(0),
    Op::Generate(1),
    Op::Mark(0),
    Op::Free(0),
    Op::Free(1),
    Op::Finish(0),
    Op::Finish(1),
    Op::Cancel,
    Op::Pass(1),
    Op::Pass(300),
    Op::Pass(16_000),
    Op::Begin,
    Op::Step,
    Op::FreeNext,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Alive,
    Freed,
}

struct Object {
    handle: Handle,
    stage: Stage,
    life: Life,
    token: CancelToken,
}

#[derive(Default)]
struct Worker {
    calls: Vec<(FrameId, Kind)>,
    left: Option<Time>,
    /// Rule 11 took it.
    gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    NotBegun,
    Waiting { since: Time },
    Freeing,
    GaveUp,
    Over,
}

/// What is true, by the plain account, next to the protocol under test.
struct World {
    state: State,
    now: Time,
    objects: Vec<Object>,
    workers: [Worker; 2],
    ending: Ending,
    last_freed: Option<(Stage, usize)>,
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

impl World {
    fn new() -> Self {
        Self {
            state: State::new(),
            now: Duration::from_secs(1),
            objects: Vec::new(),
            workers: [Worker::default(), Worker::default()],
            ending: Ending::NotBegun,
            last_freed: None,
        }
    }

    fn begun(&self) -> bool {
        self.ending != Ending::NotBegun
    }

    fn alive(&self) -> impl Iterator<Item = (usize, &Object)> {
        self.objects.iter().enumerate().filter(|(_, object)| object.life == Life::Alive)
    }

    /// Rule 11 by the plain account; false where the worker is gone now.
    fn may_enter(&mut self, worker: usize) -> bool {
        let expected = if self.begun() && self.workers[worker].calls.is_empty() {
            Gate::Never
        } else {
            Gate::Pass
        };
        assert_eq!(self.state.gate(WORKERS[worker]), expected, "rule 11, entering");
        self.workers[worker].gone |= expected == Gate::Never;
        expected == Gate::Pass
    }

    fn enter(&mut self, worker: usize, kind: Kind, token: Option<CancelToken>) {
        let frame = self.state.enter(WORKERS[worker], kind, token, false);
        self.workers[worker].calls.push((frame, kind));
    }

    fn finish(&mut self, worker: usize) {
        let Some((frame, kind)) = self.workers[worker].calls.pop() else { return };
        let mut created = None;
        if kind == Kind::Load {
            let stage = [Stage::Context, Stage::Device, Stage::User][self.objects.len() % 3];
            let token = CancelToken::new();
            // Owned by type, so that it has a handle; the model itself plays its destructor.
            struct Inert;
            impl crate::Tracked for Inert {}
            let payload = Payload::Owned(std::sync::Arc::new(Inert));
            let entry = Entry { stage, token: token.clone(), payload };
            let (handle, replaced) = self.state.track(entry).unwrap();
            assert!(!replaced);
            created = Some(Object { handle, stage, life: Life::Alive, token });
        }
        let then = self.state.leave(WORKERS[worker], frame, self.now);
        self.objects.extend(created);
        let outermost = self.workers[worker].calls.is_empty();
        if outermost {
            self.workers[worker].left = Some(self.now);
        }
        let expected = if outermost && self.begun() { Then::NeverReturn } else { Then::Return };
        assert_eq!(then, expected, "rule 11, leaving");
        self.workers[worker].gone |= expected == Then::NeverReturn;
    }

    /// Plays one step; returns false where it could not happen, so that no history is played twice.
    fn play(&mut self, op: Op) -> bool {
        if let Op::Load(w) | Op::Generate(w) | Op::Mark(w) | Op::Free(w) | Op::Finish(w) = op {
            let calls = self.workers[w].calls.len();
            let possible = if matches!(op, Op::Finish(_)) { calls > 0 } else { calls < 2 };
            if self.workers[w].gone || !possible {
                return false;
            }
        }
        match op {
            Op::Load(worker) => {
                if self.may_enter(worker) {
                    self.enter(worker, Kind::Load, Some(CancelToken::new()));
                }
            }
            Op::Mark(worker) => {
                if self.may_enter(worker) {
                    self.enter(worker, Kind::Mark, None);
                }
            }
            Op::Generate(worker) => {
                let Some(object) = self.objects.last() else { return false };
                let (handle, life) = (object.handle, object.life);
                if self.may_enter(worker) {
                    let found = self.state.find(handle).map(|entry| entry.token.clone());
                    assert_eq!(found.is_ok(), life == Life::Alive, "rule 2, a stale handle");
                    if let Ok(token) = found {
                        self.enter(worker, Kind::Generate, Some(token));
                    }
                }
            }
            Op::Free(worker) => {
                let Some(object) = self.objects.last() else { return false };
                let (handle, life) = (object.handle, object.life);
                if self.may_enter(worker) {
                    let entry = self.state.untrack(handle);
                    assert_eq!(entry.is_ok(), life == Life::Alive, "rule 2, freed once");
                    if entry.is_ok() {
                        self.enter(worker, Kind::Free, None);
                        self.objects.last_mut().unwrap().life = Life::Freed;
                    }
                }
            }
            Op::Finish(worker) => self.finish(worker),
            Op::Cancel => {
                if self.workers[0].gone || !self.workers[0].calls.is_empty() {
                    return false;
                }
                let Some(object) = self.objects.last() else { return false };
                let (handle, life, token) = (object.handle, object.life, object.token.clone());
                if self.may_enter(0) {
                    let before = token.is_cancelled();
                    let found = self.state.find(handle).map(|entry| entry.token.cancel());
                    assert_eq!(found.is_ok(), life == Life::Alive, "rule 6, a stale handle");
                    assert_eq!(token.is_cancelled(), before || life == Life::Alive, "rule 6");
                }
            }
            Op::Pass(ms) => self.now += Duration::from_millis(ms),
            Op::Begin => {
                if self.begun() {
                    return false;
                }
                self.begin();
            }
            Op::Step => {
                let Ending::Waiting { since } = self.ending else { return false };
                self.step(since);
            }
            Op::FreeNext => {
                if self.ending != Ending::Freeing {
                    return false;
                }
                self.free_next();
            }
        }
        self.check();
        true
    }

    fn begin(&mut self) {
        let calls = self.workers.iter().flat_map(|worker| &worker.calls);
        let busy = calls.filter(|(_, kind)| *kind != Kind::Mark).count();
        let idle = self.alive().count() == 0 && busy == 0;
        let begin = self.state.begin(TEARDOWN, Origin::Exit, self.now);
        assert_eq!(begin, if idle { Begin::Idle } else { Begin::Run }, "rule 9");
        self.ending = if idle { Ending::Over } else { Ending::Waiting { since: self.now } };
        let again = self.state.begin(TEARDOWN, Origin::Exit, self.now);
        assert_eq!(again, Begin::Over, "rule 7, once");
        assert_eq!(self.state.gate(TEARDOWN), Gate::DoNothing, "rule 11, teardown's own thread");
    }

    fn step(&mut self, since: Time) {
        let step = self.state.step(self.now, REPEAT);
        for (_, object) in self.alive() {
            assert!(object.token.is_cancelled(), "rule 7, every tracked object is asked");
        }
        let in_flight = self.workers.iter().filter(|worker| !worker.calls.is_empty()).count();
        // Who returned from a call before teardown began, and has not come back, may be reading.
        let readers = self.workers.iter().filter(|worker| worker.calls.is_empty() && !worker.gone);
        let read_until = readers.filter_map(|worker| worker.left).max().map(|left| left + GRACE);
        let read_until = read_until.unwrap_or_default();
        match step {
            Step::GiveUp { in_flight: counted } => {
                assert_eq!(counted, in_flight);
                assert!(in_flight > 0 && self.now >= since + Duration::from_secs(2), "rule 8");
                self.state.close();
                self.ending = Ending::GaveUp;
            }
            Step::WaitUntil(until) => {
                assert!(until > self.now, "a wait that is over");
                let longest = since + Duration::from_secs(17);
                let bounded = in_flight > 0 && self.now < longest;
                assert!(bounded || self.now < read_until, "rule 8 or 10");
                if in_flight > 0 {
                    assert!(until <= self.now + REPEAT, "rule 7, every 20 ms");
                }
            }
            Step::Free => {
                assert_eq!(in_flight, 0, "rule 7, freed under a call in flight");
                assert!(self.now >= read_until, "rule 10, freed under a reader");
                self.ending = Ending::Freeing;
            }
        }
    }

    fn free_next(&mut self) {
        let tracked = self.alive().count();
        match self.state.take_next() {
            None => {
                assert_eq!(tracked, 0, "rule 7, everything is freed");
                self.state.close();
                self.ending = Ending::Over;
            }
            Some((entry, _)) => {
                let alive: Vec<_> = self.alive().map(|(at, object)| (object.stage, at)).collect();
                let order = |&(stage, at): &(Stage, usize)| (stage, usize::MAX - at);
                let next = alive.into_iter().min_by_key(order).unwrap();
                assert_eq!(entry.stage, next.0, "rule 4, by stage");
                assert!(self.last_freed.is_none_or(|last| order(&last) < order(&next)), "rule 4");
                let object = &mut self.objects[next.1];
                assert!(self.state.find(object.handle).is_err(), "rule 4, latest first");
                object.life = Life::Freed;
                self.last_freed = Some(next);
            }
        }
    }

    /// What holds at every instant.
    fn check(&self) {
        assert_eq!(self.state.tracked(), self.alive().count(), "rule 1, what is alive is tracked");
        for (_, object) in self.alive() {
            assert!(self.state.find(object.handle).is_ok(), "rule 1");
        }
        for (worker, key) in self.workers.iter().zip(WORKERS) {
            let in_call = !worker.calls.is_empty();
            assert_eq!(self.state.is_in_call(key), in_call, "rule 5, who is in a call");
        }
    }
}

/// Plays every history of this length that begins with `history`; returns how many.
fn explore(history: &mut Vec<Op>, length: usize) -> usize {
    let mut world = World::new();
    for &op in history.iter() {
        if !world.play(op) {
            return 0;
        }
    }
    if history.len() == length {
        return 1;
    }
    let mut played = 0;
    for op in OPS {
        history.push(op);
        played += explore(history, length);
        history.pop();
    }
    played
}

/// The history that a failed assertion was in.
struct Shown<'a>(&'a mut Vec<Op>);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("history: {:?}", self.0);
        }
    }
}

fn explore_after(prefix: &[Op], further: usize) -> usize {
    let mut history = prefix.to_vec();
    let length = prefix.len() + further;
    let shown = Shown(&mut history);
    explore(shown.0, length)
}

#[test]
fn every_short_history_obeys_the_rules() {
    let played = explore_after(&[], 6);
    assert!(played > 50_000, "only {played} histories");
    println!("{played} histories");
}

/// Deeper, from moments where much is going on.
#[test]
fn histories_around_teardown_obey_the_rules() {
    use Op::{Begin, Finish, Free, Generate, Load, Step};
    let made = [Load(0), Finish(0), Load(0), Finish(0), Load(1), Finish(1), Load(1), Finish(1)];
    let scenes: [&[Op]; 4] =
        [&[Generate(1), Begin], &[Load(0), Begin], &[Free(1), Begin], &[Begin, Step]];
    for scene in scenes {
        let played = explore_after(&[&made, scene].concat(), 5);
        assert!(played > 1_000, "only {played} histories after {scene:?}");
        println!("{played} histories after {scene:?}");
    }
}

#[test]
fn threads_that_came_and_went_are_forgotten() {
    let mut state = State::new();
    for thread in 100..1100 {
        let now = Duration::from_secs(thread);
        let frame = state.enter(thread, Kind::Mark, None, false);
        assert_eq!(state.leave(thread, frame, now), Then::Return);
    }
    assert!(state.remembered_threads() <= 64, "{} remembered", state.remembered_threads());
}

#[test]
fn the_short_bound_begins_when_the_last_long_call_ends() {
    let mut state = State::new();
    let entry = Entry {
        stage: Stage::Context,
        token: CancelToken::new(),
        payload: Payload::Native { object: 16 as *mut c_void, free: nothing },
    };
    state.track(entry).unwrap();
    let outer = state.enter(1, Kind::Mark, None, false);
    let inner = state.enter(1, Kind::Load, None, false);
    let at = Duration::from_millis;
    assert_eq!(state.begin(9, Origin::Exit, at(0)), Begin::Run);
    assert_eq!(state.step(at(5_000), REPEAT), Step::WaitUntil(at(5_020)));
    assert_eq!(state.leave(1, inner, at(5_010)), Then::Return);
    assert_eq!(state.step(at(5_010), REPEAT), Step::WaitUntil(at(5_030)));
    assert_eq!(state.step(at(6_990), REPEAT), Step::WaitUntil(at(7_000)));
    assert_eq!(state.step(at(7_000), REPEAT), Step::GiveUp { in_flight: 1 });
    state.close();
    assert_eq!(state.leave(1, outer, at(8_000)), Then::NeverReturn);
}
