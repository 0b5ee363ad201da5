//! Runs of pointwise nodes become one chain: the running result stays in registers, memory is read
//! and written once. It must not know how chains are computed.

use std::collections::HashSet;
use std::sync::Arc;

use tintype_gpu::Device;

use crate::error::Result;
use crate::graph::build::{Graph, Kind, Node, Value};
use crate::graph::meta::Meta;
use crate::graph::rewrite::Uses;
use crate::ops::chain::node::Chain;
use crate::ops::chain::{MAX_SIDES, MAX_STEPS, Program, Step};
use crate::ops::pointwise::node::{BinaryOp, UnaryOp};

/// A run as it is found: the steps after `a`, and the other operands.
struct Run {
    a: Value,
    sides: Vec<Value>,
    steps: Vec<Step>,
    /// The nodes it replaces; the last one's result is the run's.
    nodes: Vec<usize>,
}

/// Replaces every run of two and more pointwise nodes by a chain.
pub(super) fn rewrite(graph: &mut Graph, device: &Device) -> Result<usize> {
    let uses = Uses::of(graph);
    let mut taken: HashSet<usize> = HashSet::new();
    let mut runs = Vec::new();
    for at in 0..graph.nodes.len() {
        if taken.contains(&at) {
            continue;
        }
        let Some(run) = follow(graph, &uses, at, &taken) else { continue };
        taken.extend(&run.nodes);
        runs.push(run);
    }
    let count = runs.len();
    replace(graph, device, runs)?;
    Ok(count)
}

/// The longest run that begins at a node.
fn follow(graph: &Graph, uses: &Uses, start: usize, taken: &HashSet<usize>) -> Option<Run> {
    let first = &graph.nodes[start];
    let a = running_operand(graph, first)?;
    let mut run = Run { a, sides: Vec::new(), steps: Vec::new(), nodes: Vec::new() };
    let (mut at, mut value) = (start, a);
    loop {
        let node = &graph.nodes[at];
        if taken.contains(&at) || !add(graph, &mut run, node, value) {
            break;
        }
        run.nodes.push(at);
        value = node.outputs[0];
        // Used once, or twice by one node (v·v).
        let Some(&next) = uses.nodes(value).first() else { break };
        if uses.nodes(value).iter().any(|&other| other != next) || uses.is_output(value) {
            break;
        }
        at = next;
    }
    (run.nodes.len() >= 2).then_some(run)
}

fn meta(graph: &Graph, value: Value) -> &Meta {
    &graph.metas[value.index as usize]
}

/// The operand that the first node's chain runs along: one of the result's shape, if there is one.
fn running_operand(graph: &Graph, node: &Node) -> Option<Value> {
    let Kind::Op(op) = &node.kind else { return None };
    if op.downcast::<UnaryOp>().is_some() {
        return node.inputs.first().copied();
    }
    op.downcast::<BinaryOp>()?;
    let shape = &meta(graph, node.outputs[0]).shape;
    node.inputs.iter().copied().find(|&x| meta(graph, x).shape == *shape)
}

/// Adds a node that takes `value` to a run, if it is pointwise and fits.
fn add(graph: &Graph, run: &mut Run, node: &Node, value: Value) -> bool {
    let Kind::Op(op) = &node.kind else { return false };
    // A result that is larger than the running one would be computed many times over.
    if run.steps.len() == MAX_STEPS
        || meta(graph, node.outputs[0]).shape != meta(graph, value).shape
    {
        return false;
    }
    let step = if let Some(unary) = op.downcast::<UnaryOp>() {
        Step::Unary(unary.function, unary.parameters)
    } else if let Some(BinaryOp { function }) = op.downcast::<BinaryOp>() {
        let function = *function;
        match node.inputs[..] {
            [v, w] if v == value && w == value => Step::Own(function),
            [v, w] => {
                let reversed = v != value;
                let other = if reversed { v } else { w };
                let known = run.sides.iter().position(|&side| side == other);
                let side = known.unwrap_or(run.sides.len());
                if side == MAX_SIDES {
                    return false;
                }
                if known.is_none() {
                    run.sides.push(other);
                }
                Step::Binary { function, side, reversed }
            }
            _ => return false,
        }
    } else {
        return false;
    };
    run.steps.push(step);
    true
}

/// Puts each run's chain where its last node stood: there all its operands are made.
fn replace(graph: &mut Graph, device: &Device, runs: Vec<Run>) -> Result<()> {
    let mut at_end = std::collections::HashMap::new();
    let mut gone = HashSet::new();
    for run in runs {
        if let Some(&last) = run.nodes.last() {
            gone.extend(run.nodes.iter().copied());
            at_end.insert(last, run);
        }
    }
    for (at, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        let Some(run) = at_end.remove(&at) else {
            if !gone.contains(&at) {
                graph.nodes.push(node);
            }
            continue;
        };
        let Run { a, sides, steps, .. } = run;
        let dtype = meta(graph, node.outputs[0]).dtype;
        let program = Program { steps };
        let mut inputs = vec![a];
        inputs.extend(sides);
        let types: Vec<_> = inputs.iter().map(|&x| meta(graph, x).dtype).collect();
        let tensor = program.tensor(device, &types, dtype)?;
        let steps = graph.new_value(Meta::new(tensor.dtype(), tensor.shape()));
        graph.nodes.push(Node {
            kind: Kind::Weight(tensor),
            label: format!("{}/program", node.label).into(),
            inputs: Vec::new(),
            outputs: vec![steps],
        });
        inputs.push(steps);
        let kind = Kind::Op(Arc::new(Chain { program, dtype }));
        graph.nodes.push(Node { kind, label: node.label, inputs, outputs: node.outputs });
    }
    Ok(())
}
