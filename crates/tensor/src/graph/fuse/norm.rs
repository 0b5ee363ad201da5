//! A sum that is normed: both in one pass over memory, sum and norm as two results.
//! It must not know how norms are computed.

use std::collections::HashSet;
use std::sync::Arc;

use tintype_gpu::Device;

use crate::error::Result;
use crate::graph::build::{Graph, Kind, Node, Value};
use crate::graph::rewrite::Uses;
use crate::ops::norm::RowNormOp;
use crate::ops::pointwise::Binary;
use crate::ops::pointwise::node::BinaryOp;

/// Joins `sum = x + residual` and the first row norm of `sum`, where all have one type and shape.
pub(super) fn rewrite(graph: &mut Graph, _device: &Device) -> Result<usize> {
    let uses = Uses::of(graph);
    let mut made: HashSet<Value> = HashSet::new();
    let mut gone = vec![false; graph.nodes.len()];
    for at in 0..graph.nodes.len() {
        if let Some((norm, op)) = pattern(graph, &uses, at) {
            // The pair stands where the sum stood, so gain and shift must be made by then.
            let weights = graph.nodes[norm].inputs[1..].to_vec();
            if weights.iter().all(|value| made.contains(value)) {
                let (sum, normed) = (graph.nodes[at].outputs[0], graph.nodes[norm].outputs[0]);
                let inputs = [&graph.nodes[at].inputs[..], &weights].concat();
                graph.nodes[at] = Node {
                    kind: Kind::Op(Arc::new(RowNormOp { residual: true, ..op })),
                    label: graph.nodes[norm].label.clone(),
                    inputs,
                    outputs: vec![normed, sum],
                };
                gone[norm] = true;
            }
        }
        made.extend(&graph.nodes[at].outputs);
    }
    let count = gone.iter().filter(|gone| **gone).count();
    let mut gone = gone.into_iter();
    graph.nodes.retain(|_| !gone.next().unwrap_or(false));
    Ok(count)
}

/// The row norm of the sum that a node makes.
fn pattern(graph: &Graph, uses: &Uses, at: usize) -> Option<(usize, RowNormOp)> {
    let node = &graph.nodes[at];
    let Kind::Op(op) = &node.kind else { return None };
    if op.downcast::<BinaryOp>()?.function != Binary::Add {
        return None;
    }
    let meta = |value: Value| &graph.metas[value.index as usize];
    let sum = node.outputs[0];
    if node.inputs.iter().any(|&x| meta(x) != meta(sum)) || node.inputs[0] == node.inputs[1] {
        return None;
    }
    uses.nodes(sum).iter().find_map(|&user| {
        let Kind::Op(op) = &graph.nodes[user].kind else { return None };
        let norm = op.downcast::<RowNormOp>().filter(|norm| !norm.residual)?;
        (graph.nodes[user].inputs[0] == sum).then_some((user, *norm))
    })
}
