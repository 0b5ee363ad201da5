//! The CPU device's queue: one thread takes passes in order and works on each together with the
//! pool's threads. A panic or an error in a kernel ends its pass, not the device.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::encoder::{Plan, Schedule};
use super::unit::Unit;
use crate::backend::DispatchTime;
use crate::error::{Error, Result};
use crate::memory::lock;

/// Locks are taken one at a time here; none is held while a kernel runs.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    idle: Condvar,
    /// Helpers beside the queue's own thread; `None` with one thread.
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

#[derive(Default)]
struct Waiting {
    runs: VecDeque<(Arc<Schedule>, Arc<Run>)>,
    /// Runs taken and not finished.
    busy: bool,
    closed: bool,
}

/// One submission.
pub(super) struct Run {
    outcome: Mutex<Option<Result<Vec<DispatchTime>>>>,
    ended: Condvar,
    cancelled: AtomicBool,
}

impl Run {
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// The outcome, if it is there within `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Option<Result<Vec<DispatchTime>>> {
        let outcome = lock(&self.outcome);
        let waited = self.ended.wait_timeout_while(outcome, timeout, |outcome| outcome.is_none());
        let (outcome, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        outcome.clone()
    }
}

impl Queue {
    fn serve(&self) {
        loop {
            let mut waiting = lock(&self.waiting);
            let (schedule, run) = loop {
                if let Some(next) = waiting.runs.pop_front() {
                    waiting.busy = true;
                    break next;
                }
                waiting.busy = false;
                self.idle.notify_all();
                if waiting.closed {
                    return;
                }
                waiting =
                    self.arrived.wait(waiting).unwrap_or_else(std::sync::PoisonError::into_inner);
            };
            drop(waiting);
            let outcome = execute(&schedule, &run.cancelled, self);
            // The schedule goes first: once the outcome shows, the memory it points to may go too.
            drop(schedule);
            *lock(&run.outcome) = Some(outcome);
            run.ended.notify_all();
        }
    }
}

/// The device's end of the queue; dropping the last one closes it.
pub(crate) struct QueueHandle(Arc<Queue>);

impl QueueHandle {
    /// Starts the queue's thread and `threads - 1` helpers. The thread ends when the last device
    /// handle is gone and its work is done.
    pub(super) fn start(threads: usize) -> std::result::Result<Arc<Self>, String> {
        let pool = match threads {
            0 | 1 => None,
            _ => Some(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads - 1)
                    .thread_name(|at| format!("tintype-cpu-{}", at + 1))
                    .build()
                    .map_err(|error| error.to_string())?,
            ),
        };
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            idle: Condvar::new(),
            pool,
            threads: threads.max(1),
        });
        let worker = queue.clone();
        std::thread::Builder::new()
            .name("tintype-cpu-0".into())
            .spawn(move || worker.serve())
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(QueueHandle(queue)))
    }

    pub(super) fn submit(&self, schedule: Arc<Schedule>) -> Result<Arc<Run>> {
        let run = Arc::new(Run {
            outcome: Mutex::default(),
            ended: Condvar::new(),
            cancelled: AtomicBool::new(false),
        });
        lock(&self.0.waiting).runs.push_back((schedule, run.clone()));
        self.0.arrived.notify_one();
        Ok(run)
    }

    /// Waits until nothing is queued or running.
    pub(super) fn drain(&self, timeout: Duration) -> bool {
        let waiting = lock(&self.0.waiting);
        let waited = self.0.idle.wait_timeout_while(waiting, timeout, |waiting| {
            waiting.busy || !waiting.runs.is_empty()
        });
        let (waiting, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        !waiting.busy && waiting.runs.is_empty()
    }
}

impl Drop for QueueHandle {
    fn drop(&mut self) {
        lock(&self.0.waiting).closed = true;
        self.0.arrived.notify_one();
    }
}

/// When a dispatch's first unit began and its last ended, in nanoseconds since the pass began.
struct Clock {
    first: AtomicU64,
    last: AtomicU64,
}

/// What the threads working on one pass share.
struct Work<'a> {
    schedule: &'a Schedule,
    cancelled: &'a AtomicBool,
    failed: OnceLock<Error>,
    clocks: Vec<Clock>,
    began: Instant,
}

fn execute(
    schedule: &Schedule,
    cancelled: &AtomicBool,
    queue: &Queue,
) -> Result<Vec<DispatchTime>> {
    let clock = || Clock { first: AtomicU64::new(u64::MAX), last: AtomicU64::new(0) };
    let timed = if schedule.timestamps { schedule.jobs.len() } else { 0 };
    let work = Work {
        schedule,
        cancelled,
        failed: OnceLock::new(),
        clocks: std::iter::repeat_with(clock).take(timed).collect(),
        began: Instant::now(),
    };
    match &schedule.plan {
        Plan::Hostile(steps) => {
            for step in steps {
                if !work.unit(step.dispatch, step.unit) {
                    break;
                }
            }
        }
        Plan::Stages(stages) => {
            for stage in stages {
                if work.stopped() {
                    break;
                }
                work.stage(stage, queue);
            }
        }
    }
    if let Some(error) = work.failed.into_inner() {
        return Err(error);
    }
    if cancelled.load(Ordering::Relaxed) {
        return Err(Error::Cancelled);
    }
    let time = |clock: &Clock| DispatchTime {
        start: Duration::from_nanos(clock.first.load(Ordering::Relaxed)),
        end: Duration::from_nanos(clock.last.load(Ordering::Relaxed)),
    };
    Ok(work.clocks.iter().map(time).collect())
}

impl Work<'_> {
    fn stopped(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.failed.get().is_some()
    }

    /// Runs the units of all dispatches of a stage on all threads. Which thread takes which unit
    /// varies; what a unit computes does not.
    fn stage(&self, stage: &[usize], queue: &Queue) {
        // Unit numbers of the stage, as running totals.
        let mut ends = Vec::with_capacity(stage.len());
        let mut total = 0usize;
        for &dispatch in stage {
            total += self.schedule.jobs[dispatch].grid.units as usize;
            ends.push(total);
        }
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    break;
                }
                let at = ends.partition_point(|&end| end <= number);
                let first = if at == 0 { 0 } else { ends[at - 1] };
                if !self.unit(stage[at], (number - first) as u32) {
                    break;
                }
            }
        };
        match &queue.pool {
            Some(pool) if total > 1 => pool.in_place_scope(|scope| {
                for _ in 1..queue.threads.min(total) {
                    scope.spawn(|_| work());
                }
                work();
            }),
            _ => work(),
        }
    }

    /// Runs one unit; false if the pass is to stop.
    fn unit(&self, dispatch: usize, index: u32) -> bool {
        if self.stopped() {
            return false;
        }
        let job = &self.schedule.jobs[dispatch];
        let start = (!self.clocks.is_empty()).then(|| self.now());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            (job.run)(&mut Unit {
                index,
                grid: &job.grid,
                spans: &job.spans,
                immediates: &job.immediates,
                taken: Cell::new(0),
            })
        }));
        if let (Some(start), Some(clock)) = (start, self.clocks.get(dispatch)) {
            clock.first.fetch_min(start, Ordering::Relaxed);
            clock.last.fetch_max(self.now(), Ordering::Relaxed);
        }
        let reason = match outcome {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => match panic.downcast_ref::<&str>().map(|text| (*text).to_owned()) {
                Some(text) => format!("it panicked: {text}"),
                None => match panic.downcast::<String>() {
                    Ok(text) => format!("it panicked: {text}"),
                    Err(_) => "it panicked".into(),
                },
            },
        };
        let error = Error::KernelFailed { kernel: job.kernel.name().into(), reason };
        // The first failure is the one that is told.
        let _later_failure = self.failed.set(error);
        false
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
