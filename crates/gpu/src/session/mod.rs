//! Recording a pass: any number of dispatches, ordered only by barriers, hazards checked as they
//! are recorded. A session borrows its device, so it cannot outlive it; finishing consumes it.
//!
//! ```text
//! Session ──finish──▶ Pass ──submit──▶ Submission ──wait──▶ (Pass, Done)
//!  recorded            encoded          in flight            results readable
//! ```
//! It must not know backends.

mod dispatch;
mod pass;
mod submission;

use std::sync::Arc;

pub use dispatch::{CpuGrid, Dispatch, Split};
pub use pass::{DispatchId, Pass};
pub use submission::{Done, StillRunning, Submission, Timing};

use crate::backend::{BarrierRange, Command, EncodeOptions};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::hazard::{Access, Conflict, Hazard, Region, Tracker};
use crate::memory::{ReadSpan, Span, WriteSpan};

/// What happens when a dispatch conflicts with an earlier one and nothing orders them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ordering {
    /// It is refused, with an error that names both.
    #[default]
    Checked,
    /// A barrier is put before it: the fewest barriers that make the pass right, as recorded.
    Automatic,
    /// It is recorded as it is. For measured need, and for tests of races.
    Unchecked,
}

/// How a session records.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Name of the pass, for debuggers.
    pub label: String,
    /// What to do about hazards.
    pub ordering: Ordering,
    /// Record a time before and after each dispatch.
    pub timestamps: bool,
    /// CPU backend only: run what nothing orders in a hostile order drawn from this seed, so that a
    /// missing barrier fails on every run. Other backends refuse it.
    pub adversary: Option<u64>,
}

/// A pass being recorded.
#[must_use = "a session does nothing until it is finished and submitted"]
pub struct Session<'d> {
    device: &'d Device,
    options: SessionOptions,
    record: Record,
}

/// What has been recorded, and its hazard state. Shared with [`Pass`], which re-checks after a
/// rebinding.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) commands: Vec<Command>,
    /// For each dispatch: its place among the commands, and what it touches.
    pub(crate) dispatches: Vec<(usize, Vec<Access>)>,
    tracker: Tracker,
    /// Barriers that automatic ordering put in.
    pub(crate) automatic_barriers: usize,
}

impl<'d> Session<'d> {
    pub(crate) fn new(device: &'d Device, options: SessionOptions) -> Result<Self> {
        let info = device.info();
        if options.adversary.is_some() && info.limits.threads == 0 {
            return Err(Error::Unsupported {
                device: info.name.clone(),
                what: "the adversarial executor".into(),
                instead: "open the \"cpu\" device for it".into(),
            });
        }
        if options.timestamps && !info.features.timestamps {
            return Err(Error::Unsupported {
                device: info.name.clone(),
                what: "timestamps".into(),
                instead: "time the whole submission on the host".into(),
            });
        }
        device.shared().check()?;
        Ok(Session { device, options, record: Record::default() })
    }

    /// The device.
    pub fn device(&self) -> &'d Device {
        self.device
    }

    /// Records a dispatch. On an error nothing is recorded and the session goes on.
    pub fn dispatch(&mut self, dispatch: Dispatch) -> Result<DispatchId> {
        let number = self.record.dispatches.len();
        let (command, accesses) = dispatch.check(self.device.shared(), number)?;
        if let Some(conflict) = self.record.tracker.conflict(&accesses) {
            match self.options.ordering {
                Ordering::Checked => {
                    let hazard = self.record.name(&conflict, &command);
                    return Err(Error::Unordered(Box::new(hazard)));
                }
                Ordering::Automatic => {
                    self.record.barrier();
                    self.record.automatic_barriers += 1;
                }
                Ordering::Unchecked => {}
            }
        }
        self.record.tracker.record(number, &accesses);
        self.record.dispatches.push((self.record.commands.len(), accesses));
        self.record.commands.push(Command::Dispatch(command));
        Ok(DispatchId(number))
    }

    /// Orders everything recorded so far before everything that follows.
    pub fn barrier(&mut self) {
        self.record.barrier();
    }

    /// Orders for the next users of these spans only: later reads of `reads` see every earlier write
    /// there; later accesses of `writes` come after every earlier access there.
    pub fn barrier_between(&mut self, reads: &[ReadSpan], writes: &[WriteSpan]) -> Result<()> {
        let device = self.device.shared().number();
        let spans = reads
            .iter()
            .map(|read| (&read.0, false))
            .chain(writes.iter().map(|write| (&write.0, true)));
        let mut ranges = Vec::with_capacity(reads.len() + writes.len());
        for (span, full) in spans {
            let Span { allocation, start, end } = span.clone();
            if allocation.device().number() != device {
                return Err(Error::ForeignDevice {
                    what: format!("buffer {}", allocation.name()),
                    owner: allocation.device().describe(),
                    device: self.device.shared().describe(),
                });
            }
            if start < end {
                ranges.push(BarrierRange { memory: allocation, range: start..end, full });
            }
        }
        self.record.barrier_between(ranges);
        Ok(())
    }

    /// Dispatches recorded so far.
    pub fn dispatches(&self) -> usize {
        self.record.dispatches.len()
    }

    /// Barriers recorded so far, automatic ones included.
    pub fn barriers(&self) -> usize {
        self.record.commands.len() - self.record.dispatches.len()
    }

    /// Barriers that automatic ordering put in.
    pub fn automatic_barriers(&self) -> usize {
        self.record.automatic_barriers
    }

    /// Forgets everything recorded; releases what it held.
    pub fn reset(&mut self) {
        self.record = Record::default();
    }

    /// Encodes the pass.
    pub fn finish(self) -> Result<Pass> {
        let shared = self.device.shared();
        shared.check()?;
        let options = EncodeOptions {
            label: self.options.label.clone(),
            timestamps: self.options.timestamps,
            adversary: self.options.adversary,
        };
        Pass::encode(shared.clone(), self.record, self.options.ordering, options)
    }
}

impl Record {
    pub(crate) fn barrier(&mut self) {
        self.tracker.barrier();
        // Two barriers in a row order nothing more than one.
        if !matches!(self.commands.last(), None | Some(Command::Barrier)) {
            self.commands.push(Command::Barrier);
        }
    }

    fn barrier_between(&mut self, ranges: Vec<BarrierRange>) {
        let (reads, writes) = regions(&ranges);
        self.tracker.barrier_between(&reads, &writes);
        if !ranges.is_empty() && !matches!(self.commands.last(), None | Some(Command::Barrier)) {
            self.commands.push(Command::BarrierBetween(ranges));
        }
    }

    /// Puts the caller's names on a conflict with `later`.
    fn name(&self, conflict: &Conflict, later: &crate::backend::DispatchCommand) -> Hazard {
        let bound = later.bindings.iter().find(|bound| bound.memory.id == conflict.region.memory);
        Hazard {
            kind: conflict.kind,
            earlier: self.label(conflict.earlier).to_string(),
            later: later.label.to_string(),
            buffer: bound.map(|bound| bound.memory.name().to_string()).unwrap_or_default(),
            start: conflict.region.start,
            end: conflict.region.end,
        }
    }

    fn label(&self, dispatch: usize) -> Arc<str> {
        match self.dispatches.get(dispatch).map(|(at, _)| &self.commands[*at]) {
            Some(Command::Dispatch(command)) => command.label.clone(),
            _ => format!("#{dispatch}").into(),
        }
    }

    /// Walks the whole record again and returns the first hazard.
    pub(crate) fn recheck(&self) -> Result<()> {
        let mut tracker = Tracker::new();
        let mut number = 0;
        for command in &self.commands {
            match command {
                Command::Barrier => tracker.barrier(),
                Command::BarrierBetween(ranges) => {
                    let (reads, writes) = regions(ranges);
                    tracker.barrier_between(&reads, &writes);
                }
                Command::Dispatch(command) => {
                    let accesses = &self.dispatches[number].1;
                    if let Some(conflict) = tracker.conflict(accesses) {
                        return Err(Error::Unordered(Box::new(self.name(&conflict, command))));
                    }
                    tracker.record(number, accesses);
                    number += 1;
                }
            }
        }
        Ok(())
    }
}

/// The regions of a ranged barrier: (reads, writes).
pub(crate) fn regions(ranges: &[BarrierRange]) -> (Vec<Region>, Vec<Region>) {
    let region = |range: &BarrierRange| Region {
        memory: range.memory.id,
        start: range.range.start,
        end: range.range.end,
    };
    let (writes, reads): (Vec<_>, Vec<_>) = ranges.iter().partition(|range| range.full);
    (reads.into_iter().map(region).collect(), writes.into_iter().map(region).collect())
}
