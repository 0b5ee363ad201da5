//! Turns commands into a schedule: stages of dispatches that may run concurrently. Conflicting
//! dispatches never share a stage, whatever the session's ordering mode, so running a stage on many
//! threads is always sound.

use std::sync::Arc;
use std::time::Duration;

use super::adversary::{Step, hostile_order};
use super::memory::CpuMemory;
use super::pipeline::CpuPipeline;
use super::submit::{QueueHandle, Run};
use super::unit::RawSpan;
use crate::backend::{BackendPass, Command, DispatchCommand, DispatchTime, EncodeOptions};
use crate::error::{Error, Result};
use crate::hazard::{Access, AccessKind, Epoch, Item, Region, epochs};
use crate::kernel::{CpuFn, Kernel};
use crate::session::{CpuGrid, regions};

/// A dispatch, resolved to addresses.
pub(super) struct Job {
    pub(super) run: CpuFn,
    pub(super) kernel: Kernel,
    pub(super) spans: Vec<RawSpan>,
    pub(super) immediates: Vec<u8>,
    pub(super) grid: CpuGrid,
}

/// What a submission executes.
pub(super) struct Schedule {
    pub(super) jobs: Vec<Job>,
    pub(super) plan: Plan,
    pub(super) timestamps: bool,
}

/// In which order.
pub(super) enum Plan {
    /// Stages one after another, the units of a stage on all cores.
    Stages(Vec<Vec<usize>>),
    /// Single units, one after another, hostile.
    Hostile(Vec<Step>),
}

/// An encoded pass.
pub(crate) struct CpuPass {
    queue: Arc<QueueHandle>,
    schedule: Arc<Schedule>,
    run: Option<Arc<Run>>,
    times: Option<Vec<DispatchTime>>,
}

impl CpuPass {
    pub(super) fn encode(
        queue: Arc<QueueHandle>,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Self> {
        let epochs = epochs(&items(commands));
        let jobs = commands
            .iter()
            .filter_map(|command| match command {
                Command::Dispatch(dispatch) => Some(job(dispatch)),
                _ => None,
            })
            .collect::<Result<Vec<_>>>()?;
        let plan = match options.adversary {
            None => Plan::Stages(epochs.iter().flat_map(Epoch::levels).collect()),
            Some(seed) => {
                let units: Vec<u32> = jobs.iter().map(|job| job.grid.units).collect();
                Plan::Hostile(hostile_order(&epochs, &units, seed))
            }
        };
        let schedule = Arc::new(Schedule { jobs, plan, timestamps: options.timestamps });
        Ok(CpuPass { queue, schedule, run: None, times: None })
    }
}

/// The commands as the hazard model sees them. Writes count as reads too: a Rust kernel may read
/// what it is given to write.
fn items(commands: &[Command]) -> Vec<Item> {
    let item = |command: &Command| match command {
        Command::Barrier => Item::Barrier,
        Command::BarrierBetween(ranges) => {
            let (reads, writes) = regions(ranges);
            Item::BarrierBetween { reads, writes }
        }
        Command::Dispatch(dispatch) => Item::Dispatch(accesses(dispatch)),
    };
    commands.iter().map(item).collect()
}

fn accesses(dispatch: &DispatchCommand) -> Vec<Access> {
    let access = |bound: &crate::backend::Bound| Access {
        region: Region { memory: bound.memory.id, start: bound.range.start, end: bound.range.end },
        kind: if bound.write { AccessKind::Write } else { AccessKind::Read },
    };
    dispatch.bindings.iter().map(access).collect()
}

fn job(dispatch: &DispatchCommand) -> Result<Job> {
    let foreign = || Error::Driver {
        backend: "cpu",
        call: "encode",
        code: "an object of another backend".into(),
    };
    let pipeline: &CpuPipeline =
        dispatch.kernel.pipeline().as_any().downcast_ref().ok_or_else(foreign)?;
    let mut spans = Vec::with_capacity(dispatch.bindings.len());
    let mut written = 0;
    for bound in &dispatch.bindings {
        let memory: &CpuMemory =
            bound.memory.backend().as_any().downcast_ref().ok_or_else(foreign)?;
        spans.push(RawSpan {
            // SAFETY: the front checked that the range lies inside the allocation.
            pointer: unsafe { memory.pointer().add(bound.range.start as usize) },
            len: (bound.range.end - bound.range.start) as usize,
            write: bound.write,
            split: written,
        });
        written += usize::from(bound.write);
    }
    Ok(Job {
        run: pipeline.run,
        kernel: dispatch.kernel.clone(),
        spans,
        immediates: dispatch.immediates.clone(),
        grid: dispatch.cpu.clone(),
    })
}

impl BackendPass for CpuPass {
    fn submit(&mut self) -> Result<()> {
        self.times = None;
        self.run = Some(self.queue.submit(self.schedule.clone())?);
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool> {
        let Some(run) = &self.run else { return Ok(true) };
        match run.wait(timeout) {
            None => Ok(false),
            Some(Ok(times)) => {
                self.times = self.schedule.timestamps.then_some(times);
                Ok(true)
            }
            Some(Err(error)) => Err(error),
        }
    }

    fn cancel(&self) {
        if let Some(run) = &self.run {
            run.cancel();
        }
    }

    fn timings(&mut self) -> Result<Option<Vec<DispatchTime>>> {
        Ok(self.times.clone())
    }
}
