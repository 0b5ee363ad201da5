//! One dispatch as its caller describes it: kernel, spans in slot order, immediates, size. Checked
//! against the kernel's reflection and the device's limits before it is recorded.

use std::ops::Range;
use std::sync::Arc;

use crate::backend::{Bound, DispatchCommand};
use crate::device::DeviceShared;
use crate::error::{Error, Result};
use crate::hazard::{Access, AccessKind};
use crate::kernel::Kernel;
use crate::memory::{Binding, ReadSpan, Span, WriteSpan};

/// How the bytes of a written slot are shared out among a dispatch's CPU units. Units run
/// concurrently, so each owns a part that no other touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// One unit owns all of it; only for grids of one unit.
    Whole,
    /// Unit `u` owns bytes `u·n .. (u+1)·n`, cut at the end of the span.
    Chunks(u64),
    /// The span is rows of `row_bytes`. Units form a grid `columns` wide, row-major; unit
    /// `(y, x)` owns rows `y·tile_rows ..` and, in each, bytes `x·tile_bytes ..`, cut at the edges.
    Tiles {
        /// Bytes of a whole row.
        row_bytes: u64,
        /// Rows of a tile.
        tile_rows: u64,
        /// Bytes of a tile's row.
        tile_bytes: u64,
        /// Tiles in a row of tiles.
        columns: u32,
    },
}

/// How the CPU backend cuts a dispatch: number of units, and a [`Split`] for each writable slot in
/// slot order. GPUs ignore it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuGrid {
    /// Units, run in any order and concurrently.
    pub units: u32,
    /// Ownership of each writable slot.
    pub splits: Vec<Split>,
}

impl Default for CpuGrid {
    /// One unit that owns everything.
    fn default() -> Self {
        CpuGrid { units: 1, splits: Vec::new() }
    }
}

/// A dispatch to be recorded.
#[derive(Debug, Clone)]
pub struct Dispatch {
    pub(crate) kernel: Kernel,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) bindings: Vec<BindingDebug>,
    pub(crate) immediates: Vec<u8>,
    pub(crate) groups: [u32; 3],
    pub(crate) cpu: CpuGrid,
}

/// A binding, printable.
#[derive(Clone)]
pub(crate) struct BindingDebug(pub(crate) Binding);

impl std::fmt::Debug for BindingDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Binding::Read(span) => span.fmt(f),
            Binding::Write(span) => span.fmt(f),
        }
    }
}

impl Dispatch {
    /// A dispatch of `kernel`: one workgroup, nothing bound.
    pub fn new(kernel: &Kernel) -> Self {
        Dispatch {
            kernel: kernel.clone(),
            label: None,
            bindings: Vec::new(),
            immediates: Vec::new(),
            groups: [1; 3],
            cpu: CpuGrid::default(),
        }
    }

    /// Names the dispatch in errors and timings; the kernel's name and a number otherwise.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Binds the next slot.
    pub fn bind(mut self, span: impl Into<Binding>) -> Self {
        self.bindings.push(BindingDebug(span.into()));
        self
    }

    /// Sets the immediates (the kernel's `var<immediate>` struct).
    pub fn immediates<T: bytemuck::NoUninit>(mut self, value: &T) -> Self {
        self.immediates = bytemuck::bytes_of(value).to_vec();
        self
    }

    /// Sets the immediates from bytes.
    pub fn immediate_bytes(mut self, bytes: &[u8]) -> Self {
        self.immediates = bytes.to_vec();
        self
    }

    /// Workgroups along x, y, z on a GPU.
    pub fn groups(mut self, groups: [u32; 3]) -> Self {
        self.groups = groups;
        self
    }

    /// Units on the CPU backend, and who owns which bytes of each writable slot.
    pub fn cpu(mut self, units: u32, splits: impl Into<Vec<Split>>) -> Self {
        self.cpu = CpuGrid { units, splits: splits.into() };
        self
    }

    /// The dispatch that a recorded command came from.
    pub(super) fn from_command(command: &DispatchCommand) -> Self {
        let binding = |bound: &Bound| {
            let Range { start, end } = bound.range;
            let span = Span { allocation: bound.memory.clone(), start, end };
            BindingDebug(match bound.write {
                true => Binding::Write(WriteSpan(span)),
                false => Binding::Read(ReadSpan(span)),
            })
        };
        Dispatch {
            kernel: command.kernel.clone(),
            label: Some(command.label.clone()),
            bindings: command.bindings.iter().map(binding).collect(),
            immediates: command.immediates.clone(),
            groups: command.groups,
            cpu: command.cpu.clone(),
        }
    }

    /// Checks everything but hazards; returns the command and what it touches.
    pub(crate) fn check(
        self,
        device: &DeviceShared,
        number: usize,
    ) -> Result<(DispatchCommand, Vec<Access>)> {
        let label =
            self.label.clone().unwrap_or_else(|| format!("{}#{number}", self.kernel.name()).into());
        let checker = Checker { dispatch: &self, device, label: &label };
        checker.owner()?;
        let mut bindings = Vec::with_capacity(self.bindings.len());
        let mut accesses = Vec::with_capacity(self.bindings.len() + 1);
        checker.slot_count()?;
        for slot in 0..self.bindings.len() {
            bindings.push(checker.slot(slot, &mut accesses)?);
        }
        checker.aliasing(&bindings)?;
        checker.immediates()?;
        checker.groups()?;
        checker.cpu_grid(&bindings)?;
        let Dispatch { kernel, immediates, groups, cpu, .. } = self;
        Ok((DispatchCommand { label, kernel, bindings, immediates, groups, cpu }, accesses))
    }
}

/// The checks, one a function.
struct Checker<'a> {
    dispatch: &'a Dispatch,
    device: &'a DeviceShared,
    label: &'a Arc<str>,
}

impl Checker<'_> {
    fn bad(&self, reason: String) -> Error {
        Error::BadDispatch {
            dispatch: self.label.to_string(),
            kernel: self.dispatch.kernel.name().into(),
            reason,
        }
    }

    fn owner(&self) -> Result<()> {
        if self.dispatch.kernel.device() != self.device.number() {
            return Err(Error::ForeignDevice {
                what: format!("kernel {}", self.dispatch.kernel.name()),
                owner: format!("device #{}", self.dispatch.kernel.device()),
                device: self.device.describe(),
            });
        }
        Ok(())
    }

    fn slot_count(&self) -> Result<()> {
        let slots = &self.dispatch.kernel.reflection().slots;
        if slots.len() != self.dispatch.bindings.len() {
            let names: Vec<_> = slots.iter().map(|slot| slot.name.as_str()).collect();
            return Err(self.bad(format!(
                "{} spans are bound, the kernel has {} slots ({})",
                self.dispatch.bindings.len(),
                slots.len(),
                names.join(", ")
            )));
        }
        Ok(())
    }

    fn slot(&self, at: usize, accesses: &mut Vec<Access>) -> Result<Bound> {
        let slot = &self.dispatch.kernel.reflection().slots[at];
        let binding = &self.dispatch.bindings[at].0;
        let write = matches!(binding, Binding::Write(_));
        let span = binding.span();
        let buffer = || span.allocation.name();
        if span.allocation.device().number() != self.device.number() {
            return Err(Error::ForeignDevice {
                what: format!("buffer {}", buffer()),
                owner: span.allocation.device().describe(),
                device: self.device.describe(),
            });
        }
        if slot.writable != write {
            let (given, wanted) =
                if write { ("writing", "reading") } else { ("reading", "writing") };
            return Err(self.bad(format!(
                "slot {at} ({}) takes a span for {wanted}, {} is given for {given}",
                slot.name,
                buffer()
            )));
        }
        if write && span.allocation.read_only {
            return Err(Error::ReadOnly { buffer: buffer().to_string() });
        }
        if span.start == span.end {
            return Err(self.bad(format!(
                "slot {at} ({}) is bound to an empty span; leave out dispatches of nothing",
                slot.name
            )));
        }
        let limits = &self.device.info().limits;
        let bound = span.end - span.start / limits.binding_alignment * limits.binding_alignment;
        if bound > limits.max_binding_bytes {
            return Err(self.bad(format!(
                "slot {at} ({}) covers {bound} bytes, {} allows {} a binding; split the work",
                slot.name,
                self.device.info().name,
                limits.max_binding_bytes
            )));
        }
        let region = span.region();
        if slot.reads || !write {
            accesses.push(Access { region, kind: AccessKind::Read });
        }
        if write {
            accesses.push(Access { region, kind: AccessKind::Write });
        }
        Ok(Bound { memory: span.allocation.clone(), range: span.start..span.end, write })
    }

    /// Two slots over common bytes, one of them written: kernels may assume that this never is.
    fn aliasing(&self, bindings: &[Bound]) -> Result<()> {
        for (later, b) in bindings.iter().enumerate() {
            for (earlier, a) in bindings[..later].iter().enumerate() {
                let common = a.memory.id == b.memory.id
                    && a.range.start.max(b.range.start) < a.range.end.min(b.range.end);
                if common && (a.write || b.write) {
                    return Err(self.bad(format!(
                        "slots {earlier} and {later} overlap in buffer {} ({:?} and {:?}) and one is written",
                        a.memory.name(),
                        a.range,
                        b.range
                    )));
                }
            }
        }
        Ok(())
    }

    fn immediates(&self) -> Result<()> {
        let wanted = self.dispatch.kernel.reflection().immediate_bytes as usize;
        if self.dispatch.immediates.len() != wanted {
            return Err(self.bad(format!(
                "{} bytes of immediates are given, the kernel takes {wanted}",
                self.dispatch.immediates.len()
            )));
        }
        Ok(())
    }

    fn groups(&self) -> Result<()> {
        let most = self.device.info().limits.max_groups;
        let groups = self.dispatch.groups;
        if groups.contains(&0) || groups.iter().zip(most).any(|(&asked, most)| asked > most) {
            return Err(self.bad(format!(
                "{groups:?} workgroups; {} allows 1 to {most:?}",
                self.device.info().name
            )));
        }
        Ok(())
    }

    /// Only the CPU backend uses the grid, and only there must it fit.
    fn cpu_grid(&self, bindings: &[Bound]) -> Result<()> {
        if self.device.info().limits.threads == 0 {
            return Ok(());
        }
        let CpuGrid { units, splits } = &self.dispatch.cpu;
        let written = bindings.iter().filter(|bound| bound.write).count();
        let defaults = splits.is_empty() && *units == 1;
        if *units == 0 || (!defaults && splits.len() != written) {
            return Err(self.bad(format!(
                "a CPU grid of {units} units with {} splits; {written} slots are written",
                splits.len()
            )));
        }
        for (split, bound) in splits.iter().zip(bindings.iter().filter(|bound| bound.write)) {
            let bytes = bound.range.end - bound.range.start;
            if !split.covers(*units, bytes) {
                return Err(self.bad(format!(
                    "CPU split {split:?} does not share out {bytes} bytes among {units} units"
                )));
            }
        }
        Ok(())
    }
}

impl Split {
    /// Whether the parts of all units are disjoint and together hold `bytes`.
    fn covers(&self, units: u32, bytes: u64) -> bool {
        match *self {
            Split::Whole => units == 1,
            Split::Chunks(chunk) => chunk > 0 && chunk.saturating_mul(units.into()) >= bytes,
            Split::Tiles { row_bytes, tile_rows, tile_bytes, columns } => {
                let positive = row_bytes > 0 && tile_rows > 0 && tile_bytes > 0 && columns > 0;
                positive
                    && bytes.is_multiple_of(row_bytes)
                    && tile_bytes.saturating_mul(columns.into()) >= row_bytes
                    && tile_rows.saturating_mul(u64::from(units / columns.max(1)))
                        >= bytes / row_bytes
            }
        }
    }
}
