//! An encoded pass: submitted as often as wanted, with new inputs in its buffers, other buffers, or
//! other immediates. Changing a binding checks the ordering again; any change re-encodes once, at
//! the next submission.

use std::sync::Arc;
use std::time::Duration;

use super::dispatch::{BindingDebug, Dispatch};
use super::submission::{Done, Submission};
use super::{Ordering, Record};
use crate::backend::{BackendPass, Command, EncodeOptions};
use crate::device::DeviceShared;
use crate::error::{Error, Result};
use crate::memory::{Allocation, Binding};

/// A dispatch of a pass, as [`super::Session::dispatch`] returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DispatchId(pub(crate) usize);

/// A recorded pass, ready to be submitted.
pub struct Pass {
    // Dropped before the memory and the device that it refers to.
    pub(super) backend: Box<dyn BackendPass>,
    pub(super) record: Record,
    /// Each allocation once, with whether the pass writes it.
    pub(super) memory: Vec<(Arc<Allocation>, bool)>,
    pub(super) device: Arc<DeviceShared>,
    options: EncodeOptions,
    ordering: Ordering,
    changed: bool,
}

impl Pass {
    pub(super) fn encode(
        device: Arc<DeviceShared>,
        record: Record,
        ordering: Ordering,
        options: EncodeOptions,
    ) -> Result<Pass> {
        let backend = device.note(device.backend().encode(&record.commands, &options))?;
        let memory = memory_of(&record);
        Ok(Pass { backend, record, memory, device, options, ordering, changed: false })
    }

    /// Number of dispatches.
    pub fn dispatches(&self) -> usize {
        self.record.dispatches.len()
    }

    /// Number of barriers.
    pub fn barriers(&self) -> usize {
        self.record.commands.len() - self.record.dispatches.len()
    }

    /// Each dispatch's label and its units on the CPU backend, in order. That backend polls for a
    /// cancellation before every unit.
    pub fn units(&self) -> impl Iterator<Item = (&str, u32)> {
        self.record.commands.iter().filter_map(|command| match command {
            Command::Dispatch(dispatch) => Some((&*dispatch.label, dispatch.cpu.units)),
            _ => None,
        })
    }

    /// Gives a dispatch other immediates for the next submissions.
    pub fn set_immediates<T: bytemuck::NoUninit>(
        &mut self,
        id: DispatchId,
        value: &T,
    ) -> Result<()> {
        self.change(id, |dispatch| dispatch.immediates(value))
    }

    /// Binds another span to a slot for the next submissions. In checked and automatic passes the
    /// whole pass is checked again, and a change that leaves a hazard is refused and undone.
    pub fn set_binding(
        &mut self,
        id: DispatchId,
        slot: usize,
        span: impl Into<Binding>,
    ) -> Result<()> {
        let binding = span.into();
        let slots = self.command(id)?.bindings.len();
        if slot >= slots {
            let command = self.command(id)?;
            return Err(Error::BadDispatch {
                dispatch: command.label.to_string(),
                kernel: command.kernel.name().into(),
                reason: format!("slot {slot} of {slots}"),
            });
        }
        self.change(id, |mut dispatch| {
            dispatch.bindings[slot] = BindingDebug(binding);
            dispatch
        })
    }

    /// Starts the pass. It comes back from [`Submission::wait`]; on an error it is dropped.
    pub fn submit(mut self) -> Result<Submission> {
        self.device.check()?;
        if self.changed {
            self.backend = self
                .device
                .note(self.device.backend().encode(&self.record.commands, &self.options))?;
            self.memory = memory_of(&self.record);
            self.changed = false;
        }
        let device = self.device.clone();
        let serial = device.submit(&self.memory, || self.backend.submit())?;
        Ok(Submission::new(self, serial))
    }

    /// Submits and waits.
    pub fn run(self, timeout: Duration) -> Result<(Pass, Done)> {
        Ok(self.submit()?.wait(timeout)?)
    }

    fn command(&self, id: DispatchId) -> Result<&crate::backend::DispatchCommand> {
        match self.record.dispatches.get(id.0).map(|(at, _)| &self.record.commands[*at]) {
            Some(Command::Dispatch(command)) => Ok(command),
            _ => Err(Error::BadDispatch {
                dispatch: format!("#{}", id.0),
                kernel: "(none)".into(),
                reason: format!("the pass has {} dispatches", self.record.dispatches.len()),
            }),
        }
    }

    /// Rebuilds one dispatch through the same checks as when it was recorded.
    fn change(&mut self, id: DispatchId, edit: impl FnOnce(Dispatch) -> Dispatch) -> Result<()> {
        let dispatch = Dispatch::from_command(self.command(id)?);
        let (command, accesses) = edit(dispatch).check(&self.device, id.0)?;
        let at = self.record.dispatches[id.0].0;
        let old_command =
            std::mem::replace(&mut self.record.commands[at], Command::Dispatch(command));
        let old_accesses = std::mem::replace(&mut self.record.dispatches[id.0].1, accesses);
        let rebound = old_accesses != self.record.dispatches[id.0].1;
        if rebound
            && self.ordering != Ordering::Unchecked
            && let Err(hazard) = self.record.recheck()
        {
            self.record.commands[at] = old_command;
            self.record.dispatches[id.0].1 = old_accesses;
            return Err(hazard);
        }
        self.changed = true;
        Ok(())
    }
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Pass({:?}: {} dispatches, {} barriers)",
            self.options.label,
            self.dispatches(),
            self.barriers()
        )
    }
}

/// Every allocation a record touches, once, with whether it is written.
fn memory_of(record: &Record) -> Vec<(Arc<Allocation>, bool)> {
    let mut seen = std::collections::HashMap::new();
    let mut out: Vec<(Arc<Allocation>, bool)> = Vec::new();
    for command in &record.commands {
        let Command::Dispatch(command) = command else { continue };
        for bound in &command.bindings {
            let at = *seen.entry(bound.memory.id).or_insert_with(|| {
                out.push((bound.memory.clone(), false));
                out.len() - 1
            });
            out[at].1 |= bound.write;
        }
    }
    out
}
