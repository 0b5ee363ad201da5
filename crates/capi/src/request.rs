//! Requests: work on a thread of the library, polled, waited for, cancelled. It must not know what the
//! work is.

use std::ffi::c_char;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::image::{Phase as EnginePhase, Progress as EngineProgress};
use tintype_registry::{CancelToken, CreateError, Handle, Kind, Stage, Tracked};

use crate::edge::{RawHandle, call, call_for, catch, handle, put, put_text, registry};
use crate::image::Images;
use crate::log::Log;
use crate::ring::{Report, Ring};
use crate::status::{Failure, Status, keep_error};

/// What a request is doing.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reading a model and compiling its plans.
    Load = 0,
    /// Prompt to states.
    Text = 1,
    /// First picture to latents.
    Encode = 2,
    /// Noise to latents, step by step.
    Denoise = 3,
    /// Latents to picture.
    Decode = 4,
}

impl From<EnginePhase> for Phase {
    fn from(phase: EnginePhase) -> Self {
        match phase {
            EnginePhase::Load => Phase::Load,
            EnginePhase::Text => Phase::Text,
            EnginePhase::Encode => Phase::Encode,
            EnginePhase::Denoise => Phase::Denoise,
            EnginePhase::Decode => Phase::Decode,
        }
    }
}

/// One report of progress.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Its number, from 1. A jump means that the reports between were overwritten before they were read.
    pub sequence: u64,
    /// Nanoseconds since the phase began.
    pub elapsed_ns: u64,
    /// A tintype_phase.
    pub phase: u32,
    /// Units of the phase that are done: steps when denoising, else parts.
    pub done: u32,
    /// Units in all.
    pub total: u32,
    /// Which picture of the request, from 0.
    pub picture: u32,
    /// Pictures of the request.
    pub pictures: u32,
    /// Zero.
    pub reserved: u32,
}

/// What a request came to.
pub(crate) enum Outcome {
    Running,
    /// A model that nobody has taken yet.
    Model(Handle),
    /// A model that the caller owns now.
    Taken,
    Images(Images),
    Failed(Failure),
    /// The request was freed: nobody asks.
    Abandoned,
}

/// What the caller and the worker share. No driver object is in it.
pub(crate) struct Shared {
    pub(crate) token: CancelToken,
    pub(crate) log: Log,
    ring: Ring,
    outcome: Mutex<Outcome>,
    ended: Condvar,
}

impl Shared {
    pub(crate) fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self, progress: &EngineProgress) {
        let pair = |a: usize, b: usize| {
            let word = |x| u64::from(u32::try_from(x).unwrap_or(u32::MAX));
            word(a) << 32 | word(b)
        };
        let elapsed = u64::try_from(progress.elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.ring.push([
            elapsed,
            Phase::from(progress.phase) as u64,
            pair(progress.done, progress.total),
            pair(progress.picture, progress.pictures),
            0,
        ]);
        if progress.done == progress.total {
            let name = progress.phase.name();
            self.log.say(format!("{name}: {} in {:.1?}", progress.total, progress.elapsed));
        }
    }

    /// Stores what the work came to and wakes who waits; returns what nobody will ask for.
    fn end(&self, outcome: Outcome) -> Option<Outcome> {
        let mut place = self.outcome();
        if matches!(*place, Outcome::Abandoned) {
            return Some(outcome);
        }
        *place = outcome;
        drop(place);
        self.ended.notify_all();
        None
    }
}

/// A request as the registry keeps it.
pub(crate) struct Request(Arc<Shared>);

impl Tracked for Request {}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.token.cancel();
        let outcome = std::mem::replace(&mut *self.0.outcome(), Outcome::Abandoned);
        self.0.ended.notify_all();
        free_untaken(outcome);
    }
}

fn free_untaken(outcome: Outcome) {
    if let Outcome::Model(model) = outcome {
        // Teardown may have been first.
        let _freed_already = registry().free(model);
    }
}

/// Begins work on a thread of its own, in flight as `kind`; the request is tracked before it begins.
pub(crate) fn begin(
    kind: Kind,
    request: *mut RawHandle,
    work: impl FnOnce(&Shared) -> Result<Outcome, Failure> + Send + 'static,
) -> Result<(), Failure> {
    if request.is_null() {
        return Err(Failure::new(Status::Null, "request: there is no place for its handle"));
    }
    let token = CancelToken::new();
    let shared = Arc::new(Shared {
        token: token.clone(),
        log: Log::default(),
        ring: Ring::new(),
        outcome: Mutex::new(Outcome::Running),
        ended: Condvar::new(),
    });
    let build = |_: &CancelToken| Ok::<_, CreateError<std::io::Error>>(Request(shared.clone()));
    let handle = registry().create(Stage::User, &token, build).map_err(|error| match error {
        CreateError::Registry(error) => Failure::from(error),
        CreateError::Build(error) => Failure::new(Status::Internal, error.to_string()),
    })?;
    let worker = move || {
        let in_flight = registry().enter_with(kind, &shared.token);
        let outcome = match &in_flight {
            Ok(_) => catch(|| work(&shared)),
            Err(error) => Err(Failure::from(*error)),
        };
        let outcome = outcome.unwrap_or_else(|failure| {
            shared.log.say(failure.text.clone());
            Outcome::Failed(failure)
        });
        if let Some(unwanted) = shared.end(outcome) {
            free_untaken(unwanted);
        }
        // Once teardown has begun this does not return.
        drop(in_flight);
    };
    let thread = std::thread::Builder::new().name("tintype request".into()).spawn(worker);
    if let Err(error) = thread {
        // Nobody knows the handle yet.
        let _freed = registry().free(handle);
        let text = format!("no thread could be started: {error}");
        return Err(Failure::new(Status::Internal, text));
    }
    // SAFETY: not null; the exported function's caller promises that it may be written.
    unsafe { request.write(handle.to_raw()) };
    Ok(())
}

/// A request by its handle.
pub(crate) fn find(request: RawHandle) -> Result<Arc<Shared>, Failure> {
    Ok(registry().open::<Request>(handle(request)?, Kind::Mark)?.0.clone())
}

fn status_of(outcome: &Outcome) -> Status {
    match outcome {
        Outcome::Running => Status::Running,
        Outcome::Model(_) | Outcome::Taken | Outcome::Images(_) => Status::Ok,
        Outcome::Failed(failure) => {
            keep_error(&failure.text);
            failure.status
        }
        Outcome::Abandoned => Status::Freed,
    }
}

/// Where a request stands: TINTYPE_STATUS_RUNNING, TINTYPE_STATUS_OK, or why it failed.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_request_status(request: RawHandle) -> Status {
    call_for(|| Ok(status_of(&find(request)?.outcome())))
}

/// Waits until a request has ended, at most `timeout_ms` milliseconds, or without bound if that is
/// negative. Returns as tintype_request_status, or TINTYPE_STATUS_TIMEOUT.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_request_wait(request: RawHandle, timeout_ms: i64) -> Status {
    call_for(|| {
        let shared = find(request)?;
        // Waiting is no call in flight: teardown does not wait for who waits for work.
        let bound = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let deadline = bound.and_then(|bound| Instant::now().checked_add(bound));
        let mut outcome = shared.outcome();
        while matches!(*outcome, Outcome::Running) {
            let ended = &shared.ended;
            outcome = match deadline {
                None => ended.wait(outcome).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    let woken = ended.wait_timeout(outcome, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let status = status_of(&outcome);
        drop(outcome);
        // In a process that is ending this does not return.
        drop(registry().enter(Kind::Mark));
        Ok(if status == Status::Running { Status::Timeout } else { status })
    })
}

/// Reads reports of progress. `cursor` begins at 0 and is moved behind what was read; `count` receives how
/// many of `capacity` reports were written. The worker never waits for readers: it keeps its latest 64
/// reports, and a jump in their numbers shows what was missed.
///
/// # Safety
/// `cursor` and `count` are null or may be written; `reports` is null or an array of `capacity`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_request_progress(
    request: RawHandle,
    cursor: *mut u64,
    reports: *mut Progress,
    capacity: usize,
    count: *mut usize,
) -> Status {
    call(|| {
        if cursor.is_null() || reports.is_null() || count.is_null() {
            return Err(Failure::new(Status::Null, "progress: cursor, reports or count is null"));
        }
        let shared = find(request)?;
        // SAFETY: not null, and the caller's promise.
        let (mut at, mut read) = (unsafe { cursor.read() }, 0);
        while read < capacity
            && let Some((sequence, report)) = shared.ring.after(at)
        {
            // SAFETY: not null, and within the array by the caller's promise.
            unsafe { reports.add(read).write(unpack(sequence, report)) };
            (at, read) = (sequence, read + 1);
        }
        // SAFETY: not null, and the caller's promise.
        unsafe {
            cursor.write(at);
            count.write(read);
        }
        Ok(())
    })
}

fn unpack(sequence: u64, [elapsed_ns, phase, steps, pictures, _]: Report) -> Progress {
    let (high, low) = (|word: u64| (word >> 32) as u32, |word: u64| word as u32);
    Progress {
        sequence,
        elapsed_ns,
        phase: low(phase),
        done: high(steps),
        total: low(steps),
        picture: high(pictures),
        pictures: low(pictures),
        reserved: 0,
    }
}

/// Reads the next line of a request's log. `cursor` begins at 0 and is set to the number of the line that
/// was read, if its text was; a jump means that lines between were dropped. TINTYPE_STATUS_NOTHING if
/// there is none yet. The latest 256 lines are kept.
///
/// # Safety
/// `cursor` and `length` are null or may be written; `buffer` is null or has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_request_log(
    request: RawHandle,
    cursor: *mut u64,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    call_for(|| {
        if cursor.is_null() {
            return Err(Failure::new(Status::Null, "log: cursor is null"));
        }
        let shared = find(request)?;
        // SAFETY: not null, and the caller's promise.
        let Some((number, line)) = shared.log.after(unsafe { cursor.read() }) else {
            return Ok(Status::Nothing);
        };
        // SAFETY: the caller's promise.
        unsafe { put_text(&line, buffer, capacity, length) }?;
        if !buffer.is_null() {
            // SAFETY: not null, and the caller's promise.
            unsafe { cursor.write(number) };
        }
        Ok(Status::Ok)
    })
}

/// Why a request failed, in words for a person; empty if it has not.
///
/// # Safety
/// `buffer` is null or has `capacity` bytes; `length` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_request_error(
    request: RawHandle,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    call(|| {
        let shared = find(request)?;
        let text = match &*shared.outcome() {
            Outcome::Failed(failure) => failure.text.clone(),
            _ => String::new(),
        };
        // SAFETY: the caller's promise.
        unsafe { put_text(&text, buffer, capacity, length) }
    })
}

/// Takes the model out of a load that has ended: from here on the caller frees it, and the request can be
/// freed. TINTYPE_STATUS_RUNNING while the load is at work, TINTYPE_STATUS_NO_RESULT the second time.
///
/// # Safety
/// `model` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_request_take_model(
    request: RawHandle,
    model: *mut RawHandle,
) -> Status {
    call_for(|| {
        let shared = find(request)?;
        let mut outcome = shared.outcome();
        match &*outcome {
            Outcome::Model(made) => {
                // SAFETY: the caller's promise.
                unsafe { put("model", model, made.to_raw()) }?;
                *outcome = Outcome::Taken;
                Ok(Status::Ok)
            }
            Outcome::Taken => Err(Failure::new(Status::NoResult, "the model was taken before")),
            Outcome::Images(_) => {
                Err(Failure::new(Status::NoResult, "this request makes pictures, not a model"))
            }
            other => Ok(status_of(other)),
        }
    })
}
