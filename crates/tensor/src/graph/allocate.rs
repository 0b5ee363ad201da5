//! From stages to memory: which values share one block of the arena because one is written over the
//! other, from when to when each block lives, and where it lies. It must not know devices.

use std::collections::HashMap;

use super::build::{Graph, Kind, Value};
use super::memory::{Arena, Block, first_clash, place};
use super::meta::Meta;
use super::op::Op;
use super::storage::Homes;
use crate::error::{Error, Result};

/// Starts of blocks. Wide enough for every device's bindings and for whole cache lines.
const ALIGNMENT: u64 = 256;

/// Where the values and the scratch of a graph lie.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Byte offset in the arena of every root that lies there.
    offsets: HashMap<Value, u64>,
    /// Byte offset of each operation's scratch, by node.
    scratch: HashMap<usize, Vec<u64>>,
    /// Length of the arena.
    pub(crate) arena_bytes: u64,
    /// What the same values would take if none shared memory with another.
    pub(crate) sum_bytes: u64,
    /// Results written over an operand.
    pub(crate) in_place: usize,
    /// Blocks, and where they lie.
    pub(crate) blocks: Vec<Block>,
    arena: Arena,
}

impl Allocation {
    /// Plans the memory of a graph in `stages`. `scratch` holds what each operation asks for, by node;
    /// `reuse` allows results to be written over operands.
    pub(crate) fn plan(
        graph: &Graph,
        homes: &Homes,
        stages: &[Vec<usize>],
        scratch: &HashMap<usize, Vec<Meta>>,
        reuse: bool,
    ) -> Result<Allocation> {
        let mut planner = Planner::new(graph, homes, stages);
        if reuse {
            planner.merge(stages);
        }
        planner.allocate(stages, scratch)
    }

    /// Checks that blocks that live together share no bytes.
    pub(crate) fn verify(&self) -> Result<()> {
        match first_clash(&self.blocks, &self.arena) {
            None => Ok(()),
            Some((a, b)) => Err(Error::Graph {
                node: "plan".into(),
                reason: format!("blocks {a} and {b} of the arena overlap while both live"),
            }),
        }
    }

    /// Offset of the block that a root lies in, if it lies in the arena.
    pub(crate) fn root(&self, root: Value) -> Option<u64> {
        self.offsets.get(&root).copied()
    }

    /// Offsets of a node's scratch.
    pub(crate) fn scratch(&self, node: usize) -> &[u64] {
        self.scratch.get(&node).map_or(&[], Vec::as_slice)
    }
}

/// What is known of a root that lies in the arena.
#[derive(Debug, Clone)]
struct Life {
    bytes: u64,
    first: usize,
    last: usize,
    /// Operations that read it, with their stages; one entry an operand.
    readers: Vec<(usize, usize)>,
    /// It is read by the host after runs.
    kept: bool,
    /// The root whose block it shares.
    into: Option<Value>,
}

struct Planner<'a> {
    graph: &'a Graph,
    homes: &'a Homes,
    lives: HashMap<Value, Life>,
    in_place: usize,
    sum_bytes: u64,
}

impl<'a> Planner<'a> {
    fn new(graph: &'a Graph, homes: &'a Homes, stages: &[Vec<usize>]) -> Self {
        let mut planner =
            Planner { graph, homes, lives: HashMap::new(), in_place: 0, sum_bytes: 0 };
        for (stage, nodes) in stages.iter().enumerate() {
            for &at in nodes {
                for &output in &graph.nodes[at].outputs {
                    if homes.get(output).is_some_and(|home| home.root == output) {
                        let bytes = graph.metas[output.index as usize].bytes().unwrap_or(0);
                        let life = Life {
                            bytes,
                            first: stage,
                            last: stage,
                            readers: Vec::new(),
                            kept: false,
                            into: None,
                        };
                        planner.sum_bytes += bytes.next_multiple_of(ALIGNMENT);
                        planner.lives.insert(output, life);
                    }
                }
                for &input in &graph.nodes[at].inputs {
                    let root = homes.get(input).map(|home| home.root);
                    if let Some(life) = root.and_then(|root| planner.lives.get_mut(&root)) {
                        life.last = life.last.max(stage);
                        life.readers.push((at, stage));
                    }
                }
            }
        }
        for (_, value) in &graph.outputs {
            if let Some(home) = homes.get(*value)
                && let Some(life) = planner.lives.get_mut(&home.root)
            {
                (life.kept, life.last) = (true, stages.len().saturating_sub(1));
            }
        }
        planner
    }

    /// Joins results to operands that they may be written over, in order of stages.
    fn merge(&mut self, stages: &[Vec<usize>]) {
        for (stage, nodes) in stages.iter().enumerate() {
            for &at in nodes {
                let Kind::Op(op) = &self.graph.nodes[at].kind else { continue };
                self.merge_node(at, stage, op.as_ref());
            }
        }
    }

    fn merge_node(&mut self, at: usize, stage: usize, op: &dyn Op) {
        let node = &self.graph.nodes[at];
        let mut taken = Vec::new();
        for (position, &output) in node.outputs.iter().enumerate() {
            let own = self.homes.get(output).is_some_and(|home| home.root == output);
            if !own || self.lives.get(&output).is_none_or(|life| life.bytes == 0) {
                continue;
            }
            let found = (0..node.inputs.len()).find_map(|input| {
                if !op.reuse(position, input) {
                    return None;
                }
                let root = self.overwritable(at, stage, output, node.inputs[input])?;
                (!taken.contains(&root)).then_some(root)
            });
            if let Some(root) = found {
                taken.push(root);
                self.in_place += 1;
                self.join(output, root);
            }
        }
    }

    /// The root whose block `output` may be written over instead of `input`.
    fn overwritable(&self, at: usize, stage: usize, output: Value, input: Value) -> Option<Value> {
        let metas = &self.graph.metas;
        let home = self.homes.get(input)?;
        let placed = home.placed.as_ref()?;
        let root = self.representative(home.root);
        let life = self.lives.get(&root)?;
        let same = metas[output.index as usize] == metas[input.index as usize];
        let whole = placed.is_dense()
            && placed.start == 0
            && metas[home.root.index as usize].bytes() == metas[input.index as usize].bytes();
        // The last to read it, alone in its stage, and through this operand only.
        let last = life.last == stage && !life.kept;
        let alone = life.readers.iter().filter(|(_, read)| *read == stage).all(|(by, _)| *by == at)
            && life.readers.iter().filter(|(by, _)| *by == at).count() == 1;
        (same && whole && last && alone).then_some(root)
    }

    fn representative(&self, root: Value) -> Value {
        let mut at = root;
        while let Some(into) = self.lives.get(&at).and_then(|life| life.into) {
            at = into;
        }
        at
    }

    fn join(&mut self, output: Value, root: Value) {
        let Some(own) = self.lives.get_mut(&output) else { return };
        own.into = Some(root);
        let own = own.clone();
        if let Some(life) = self.lives.get_mut(&root) {
            life.last = life.last.max(own.last);
            life.kept |= own.kept;
            // Those before have read what was there before.
            life.readers = own.readers;
        }
    }

    fn allocate(
        mut self,
        stages: &[Vec<usize>],
        scratch: &HashMap<usize, Vec<Meta>>,
    ) -> Result<Allocation> {
        let too_large = || Error::Graph {
            node: "plan".into(),
            reason: "it needs more bytes than can be counted".into(),
        };
        let mut blocks = Vec::new();
        let mut owners = HashMap::new();
        // In order of values: plans of one graph are alike.
        let mut roots: Vec<Value> = self.lives.keys().copied().collect();
        roots.sort_unstable();
        for &root in &roots {
            let life = &self.lives[&root];
            if life.into.is_none() {
                owners.insert(root, blocks.len());
                blocks.push(Block { bytes: life.bytes, first: life.first, last: life.last });
            }
        }
        let mut temporary: HashMap<usize, Vec<usize>> = HashMap::new();
        for (stage, nodes) in stages.iter().enumerate() {
            for &at in nodes {
                for meta in scratch.get(&at).into_iter().flatten() {
                    let bytes = meta.bytes().ok_or_else(too_large)?;
                    temporary.entry(at).or_default().push(blocks.len());
                    self.sum_bytes += bytes.next_multiple_of(ALIGNMENT);
                    blocks.push(Block { bytes, first: stage, last: stage });
                }
            }
        }
        let arena = place(&blocks, ALIGNMENT).ok_or_else(too_large)?;
        let offset = |block: usize| arena.offsets[block];
        let offsets =
            roots.iter().map(|&root| (root, offset(owners[&self.representative(root)]))).collect();
        let scratch = temporary
            .into_iter()
            .map(|(at, blocks)| (at, blocks.into_iter().map(offset).collect()))
            .collect();
        Ok(Allocation {
            offsets,
            scratch,
            arena_bytes: arena.bytes,
            sum_bytes: self.sum_bytes,
            in_place: self.in_place,
            blocks,
            arena,
        })
    }
}
