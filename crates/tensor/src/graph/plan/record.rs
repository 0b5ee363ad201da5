//! From a planned graph to recorded passes: tensors over the arena, operations in order of stages,
//! barriers between, cut into segments. It must not run anything.

use std::collections::HashMap;
use std::ops::Range;

use tintype_gpu::{Buffer, Device, Ordering, Pass, SessionOptions};

use super::{PlanOptions, at_node};
use crate::Tensor;
use crate::error::{Error, Result};
use crate::graph::allocate::Allocation;
use crate::graph::build::{Graph, Kind, Value};
use crate::graph::meta::Meta;
use crate::graph::storage::Homes;

/// All that recording needs, kept to record again what a cancelled run has lost.
pub(super) struct Recipe {
    pub(super) graph: Graph,
    pub(super) homes: Homes,
    pub(super) stages: Vec<Vec<usize>>,
    pub(super) scratch: HashMap<usize, Vec<Meta>>,
    pub(super) allocation: Allocation,
    pub(super) arena: Buffer,
    pub(super) options: PlanOptions,
    /// Buffers of inputs, by the value that they hold.
    pub(super) inputs: HashMap<Value, Buffer>,
}

impl Recipe {
    /// Allocates the inputs; returns them by name.
    pub(super) fn allocate_inputs(&mut self, device: &Device) -> Result<HashMap<String, Tensor>> {
        let mut named = HashMap::new();
        for node in &self.graph.nodes {
            if let Kind::Input(name) = &node.kind {
                let meta = &self.graph.metas[node.outputs[0].index as usize];
                let buffer = device.buffer(meta.dtype, &meta.shape)?.named(name);
                named.insert(name.clone(), Tensor::of(&buffer)?);
                self.inputs.insert(node.outputs[0], buffer);
            }
        }
        Ok(named)
    }

    /// The tensors that hold the outputs.
    pub(super) fn outputs(&self) -> Result<HashMap<String, Tensor>> {
        let outputs = self.graph.outputs.iter();
        outputs.map(|(name, value)| Ok((name.clone(), self.tensor(*value)?))).collect()
    }

    /// Bytes of the weights and states that operations read.
    pub(super) fn weight_bytes(&self) -> u64 {
        let bytes = |kind: &Kind| match kind {
            Kind::Weight(tensor) | Kind::State(tensor) => tensor.span_bytes(),
            _ => 0,
        };
        self.graph.nodes.iter().map(|node| bytes(&node.kind)).sum()
    }

    /// The tensor that holds a value.
    fn tensor(&self, value: Value) -> Result<Tensor> {
        let lost = || Error::Graph {
            node: format!("value {}", value.index),
            reason: "it has no place in memory".into(),
        };
        let home = self.homes.get(value).ok_or_else(lost)?;
        let placed = home.placed.as_ref().ok_or_else(lost)?;
        let meta = &self.graph.metas[home.root.index as usize];
        let buffer = match self.allocation.root(home.root) {
            Some(offset) => self.arena.view(offset, meta.dtype, &meta.shape)?,
            None => match self.inputs.get(&home.root) {
                Some(buffer) => buffer.clone(),
                None => self.operand(home.root).ok_or_else(lost)?.buffer().clone(),
            },
        };
        Tensor::strided(&buffer, &placed.shape, &placed.strides, placed.start)
    }

    /// The weight or state that is a root.
    fn operand(&self, root: Value) -> Option<&Tensor> {
        self.graph.nodes.iter().find_map(|node| match &node.kind {
            Kind::Weight(tensor) | Kind::State(tensor) if node.outputs[0] == root => Some(tensor),
            _ => None,
        })
    }

    /// Ranges of stages that make a submission each.
    pub(super) fn segments(&self) -> Vec<Range<usize>> {
        let mut segments = Vec::new();
        let (mut start, mut flops, mut operations) = (0, 0.0, 0);
        for (stage, nodes) in self.stages.iter().enumerate() {
            for &at in nodes {
                let node = &self.graph.nodes[at];
                let metas = |values: &[Value]| -> Vec<Meta> {
                    values.iter().map(|x| self.graph.metas[x.index as usize].clone()).collect()
                };
                if let Kind::Op(op) = &node.kind {
                    flops += op.flops(&metas(&node.inputs), &metas(&node.outputs));
                    operations += 1;
                }
            }
            let full = flops >= self.options.segment_flops
                || operations >= self.options.segment_dispatches;
            if full {
                segments.push(start..stage + 1);
                (start, flops, operations) = (stage + 1, 0.0, 0);
            }
        }
        if start < self.stages.len() {
            segments.push(start..self.stages.len());
        }
        segments
    }

    /// Records the stages of a segment.
    pub(super) fn record(&self, device: &Device, segment: &Range<usize>) -> Result<Pass> {
        let options = SessionOptions {
            label: self.options.label.clone(),
            ordering: self.options.ordering,
            timestamps: self.options.timestamps,
            adversary: self.options.adversary,
        };
        let mut session = device.session_with(options)?;
        for stage in segment.clone() {
            let first = stage == segment.start;
            let automatic = self.options.ordering == Ordering::Automatic;
            // The device orders whole passes; barrier `n` is the one before stage `n + 1`.
            if !first && !automatic && self.options.without_barrier != Some(stage - 1) {
                session.barrier();
            }
            for &at in &self.stages[stage] {
                self.record_node(&mut session, at)?;
            }
        }
        Ok(session.finish()?)
    }

    fn record_node(&self, session: &mut tintype_gpu::Session<'_>, at: usize) -> Result<()> {
        let node = &self.graph.nodes[at];
        let Kind::Op(op) = &node.kind else { return Ok(()) };
        let all = |values: &[Value]| -> Result<Vec<Tensor>> {
            values.iter().map(|&value| self.tensor(value)).collect()
        };
        let (inputs, outputs) = (all(&node.inputs)?, all(&node.outputs)?);
        let mut scratch = Vec::new();
        let metas = self.scratch.get(&at).into_iter().flatten();
        for (meta, &offset) in metas.zip(self.allocation.scratch(at)) {
            scratch.push(Tensor::of(&self.arena.view(offset, meta.dtype, &meta.shape)?)?);
        }
        op.record(session, &inputs, &outputs, &scratch).map_err(|error| at_node(&node.label, error))
    }
}
