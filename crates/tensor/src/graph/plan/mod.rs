//! Plans: a graph compiled for one device. Compiling verifies, fuses, lays out, orders, plans memory
//! and records; running replays what was recorded. It must not know operations.

mod record;
mod run;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tintype_gpu::{Buffer, DType, Device, Done, Ordering, Pass};

use super::allocate::Allocation;
use super::build::{Graph, Kind};
use super::memory::lower_bound;
use super::storage::Homes;
use super::{fuse, order, place};
use crate::Tensor;
use crate::error::{Error, Result};
use record::Recipe;

/// How a plan is compiled.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    /// Name, for errors and debuggers.
    pub label: String,
    /// How the recorded passes treat hazards. Automatic places the fewest barriers; checked places
    /// one between stages and has every dispatch proven against them.
    pub ordering: Ordering,
    /// CPU only: the hostile executor's seed.
    pub adversary: Option<u64>,
    /// Times of every dispatch, by [`Plan::timings`].
    pub timestamps: bool,
    /// Rewrite patterns into fused operations.
    pub fuse: bool,
    /// Write results over operands that nobody needs afterwards.
    pub reuse: bool,
    /// Check the graph after every pass; always done in builds with debug assertions.
    pub verify: bool,
    /// A submission holds about this many floating-point operations; cancellation is polled between.
    pub segment_flops: f64,
    /// A submission holds at most about this many dispatches.
    pub segment_dispatches: usize,
    /// Memory to plan in, shared with plans that never run at the same time; their outputs are gone
    /// once another has run. Used if long enough, else the plan has memory of its own.
    pub arena: Option<Buffer>,
    /// For tests: leaves out one of the barriers between stages.
    #[doc(hidden)]
    pub without_barrier: Option<usize>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions {
            label: "plan".into(),
            ordering: Ordering::Automatic,
            adversary: None,
            timestamps: false,
            fuse: true,
            reuse: true,
            verify: cfg!(debug_assertions),
            segment_flops: 2e11,
            segment_dispatches: 512,
            arena: None,
            without_barrier: None,
        }
    }
}

/// What compiling made.
#[derive(Debug, Clone, Default)]
pub struct PlanStats {
    /// Nodes of the graph as it was built.
    pub nodes: usize,
    /// Operations that run.
    pub operations: usize,
    /// Rewrites that fusion made, by name.
    pub fused: Vec<(&'static str, usize)>,
    /// Copies put in because a view did not fit its operation.
    pub copies: usize,
    /// Stages.
    pub stages: usize,
    /// Dispatches recorded.
    pub dispatches: usize,
    /// Barriers recorded.
    pub barriers: usize,
    /// Submissions of a run.
    pub segments: usize,
    /// Results written over an operand.
    pub in_place: usize,
    /// Bytes of intermediate values: the arena.
    pub arena_bytes: u64,
    /// Most bytes alive in one stage: no arena could be shorter.
    pub alive_bytes: u64,
    /// Bytes of the intermediate values if none shared memory.
    pub sum_bytes: u64,
    /// Bytes of inputs.
    pub input_bytes: u64,
    /// Bytes of weights and states that it reads.
    pub weight_bytes: u64,
    /// Time for rewriting and planning.
    pub planning: Duration,
    /// Time for recording, kernels compiled on first use included.
    pub recording: Duration,
}

impl std::fmt::Display for PlanStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "{} nodes, {} operations in {} stages; {} dispatches, {} barriers, {} submissions; \
             {} copies, {} in place; arena {:.2} MiB (at once {:.2}, sum {:.2}), inputs {:.2} MiB, \
             weights {:.2} MiB; planned in {:.1?}, recorded in {:.1?}; fused",
            self.nodes,
            self.operations,
            self.stages,
            self.dispatches,
            self.barriers,
            self.segments,
            self.copies,
            self.in_place,
            mib(self.arena_bytes),
            mib(self.alive_bytes),
            mib(self.sum_bytes),
            mib(self.input_bytes),
            mib(self.weight_bytes),
            self.planning,
            self.recording,
        )?;
        if self.fused.iter().all(|(_, count)| *count == 0) {
            return f.write_str(" nothing");
        }
        let mut fused = self.fused.iter().filter(|(_, count)| *count > 0);
        fused.try_for_each(|(name, count)| write!(f, " {count} {name}"))
    }
}

/// A graph compiled for one device: inputs are written, it is run, outputs are read, as often as
/// wanted.
pub struct Plan {
    device: Device,
    recipe: Recipe,
    /// The recorded passes, in order; one is missing after a cancelled run, until the next.
    passes: Vec<Option<Pass>>,
    inputs: HashMap<String, Tensor>,
    outputs: HashMap<String, Tensor>,
    done: Option<Done>,
    timings: Vec<tintype_gpu::Timing>,
    stats: PlanStats,
}

impl Plan {
    /// Compiles a graph.
    pub fn compile(graph: &Graph, device: &Device, options: PlanOptions) -> Result<Plan> {
        let began = Instant::now();
        let mut stats = PlanStats { nodes: graph.len(), ..PlanStats::default() };
        let verify = |graph: &Graph, after| match options.verify || cfg!(debug_assertions) {
            true => graph.verify(after),
            false => Ok(()),
        };
        // What a builder may have got wrong is always checked once.
        graph.verify("building")?;
        let mut graph = graph.clone();
        graph.hoist();
        graph.prune();
        verify(&graph, "pruning")?;
        if options.fuse {
            for pass in fuse::PASSES {
                let count = (pass.rewrite)(&mut graph, device)?;
                stats.fused.push((pass.name, count));
                graph.prune();
                verify(&graph, pass.name)?;
            }
        }
        stats.copies = place::lay_out(&mut graph)?;
        graph.prune();
        verify(&graph, "laying out")?;
        let stages = order::stages(&graph);
        let homes = Homes::of(&graph);
        let mut scratch = HashMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            if let Kind::Op(op) = &node.kind {
                let metas: Vec<_> =
                    node.inputs.iter().map(|x| graph.metas[x.index as usize].clone()).collect();
                let wanted =
                    op.scratch(device, &metas).map_err(|error| at_node(&node.label, error))?;
                if !wanted.is_empty() {
                    scratch.insert(at, wanted);
                }
            }
        }
        let allocation = Allocation::plan(&graph, &homes, &stages, &scratch, options.reuse)?;
        if options.verify || cfg!(debug_assertions) {
            allocation.verify()?;
        }
        stats.operations = stages.iter().map(Vec::len).sum();
        stats.stages = stages.len();
        stats.in_place = allocation.in_place;
        stats.arena_bytes = allocation.arena_bytes;
        stats.sum_bytes = allocation.sum_bytes;
        stats.alive_bytes = lower_bound(&allocation.blocks);
        stats.planning = began.elapsed();

        let began = Instant::now();
        let arena = match &options.arena {
            Some(arena) if arena.bytes() >= allocation.arena_bytes => arena.clone(),
            _ => {
                device.buffer(DType::U8, &[allocation.arena_bytes as usize])?.named(&options.label)
            }
        };
        let inputs = HashMap::new();
        let mut recipe =
            Recipe { graph, homes, stages, scratch, allocation, arena, options, inputs };
        let inputs = recipe.allocate_inputs(device)?;
        let mut plan = Plan {
            device: device.clone(),
            passes: Vec::new(),
            outputs: recipe.outputs()?,
            inputs,
            recipe,
            done: None,
            timings: Vec::new(),
            stats,
        };
        plan.record_all()?;
        plan.stats.recording = began.elapsed();
        Ok(plan)
    }

    fn record_all(&mut self) -> Result<()> {
        let segments = self.recipe.segments();
        self.stats.segments = segments.len();
        for segment in segments {
            let pass = self.recipe.record(&self.device, &segment)?;
            self.stats.dispatches += pass.dispatches();
            self.stats.barriers += pass.barriers();
            self.passes.push(Some(pass));
        }
        self.stats.input_bytes = self.inputs.values().map(Tensor::span_bytes).sum();
        self.stats.weight_bytes = self.recipe.weight_bytes();
        Ok(())
    }

    /// What compiling made.
    pub fn stats(&self) -> &PlanStats {
        &self.stats
    }

    /// The memory of intermediate values, to be lent to another plan's [`PlanOptions::arena`].
    pub fn arena(&self) -> &Buffer {
        &self.recipe.arena
    }

    /// The graph as it runs: rewritten, laid out.
    pub fn graph(&self) -> &Graph {
        &self.recipe.graph
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plan({:?}: {})", self.recipe.options.label, self.stats)
    }
}

/// Says at which node an error arose.
fn at_node(label: &str, error: Error) -> Error {
    Error::Node { node: label.into(), error: Box::new(error) }
}
