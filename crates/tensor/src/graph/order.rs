//! The order of a plan: operations cut into stages. Operations of one stage depend on none of each
//! other and run concurrently; a barrier stands between stages. Pure; it must not know memory.

use std::collections::HashMap;

use super::build::{Graph, Kind, Value};
use super::storage::Homes;

/// How far ahead of the first waiting operation one may be taken into a stage. Wide enough for the
/// projections of an attention, narrow enough that values are not made long before they are needed.
const WINDOW: usize = 12;

/// The positions of a graph's operations, stage by stage.
pub(crate) fn stages(graph: &Graph) -> Vec<Vec<usize>> {
    let before = dependencies(graph);
    let mut waiting: Vec<usize> =
        (0..graph.nodes.len()).filter(|&at| matches!(graph.nodes[at].kind, Kind::Op(_))).collect();
    let mut done = vec![false; graph.nodes.len()];
    let mut stages = Vec::new();
    // Kept reversed: the first waiting operation is the last element.
    waiting.reverse();
    while !waiting.is_empty() {
        let seen = waiting.len().min(WINDOW);
        let window = waiting.split_off(waiting.len() - seen);
        let mut stage = Vec::new();
        let mut later = Vec::new();
        for &at in window.iter().rev() {
            match before[at].iter().all(|&earlier| done[earlier]) {
                true => stage.push(at),
                false => later.push(at),
            }
        }
        stage.iter().for_each(|&at| done[at] = true);
        waiting.extend(later.into_iter().rev());
        stages.push(stage);
    }
    stages
}

/// For each node, the operations that must be done before it: those that make what it reads, and
/// around updates, those that read or wrote the memory before.
fn dependencies(graph: &Graph) -> Vec<Vec<usize>> {
    let homes = Homes::of(graph);
    let mut writer: HashMap<Value, usize> = HashMap::new();
    let mut readers: HashMap<Value, Vec<usize>> = HashMap::new();
    let mut before = vec![Vec::new(); graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        let Kind::Op(op) = &node.kind else { continue };
        for (position, &input) in node.inputs.iter().enumerate() {
            let Some(home) = homes.get(input) else { continue };
            before[at].extend(writer.get(&home.root));
            let updated = op.updates().iter().any(|&(_, input)| input == position);
            if updated {
                before[at].extend(readers.remove(&home.root).unwrap_or_default());
            } else {
                readers.entry(home.root).or_default().push(at);
            }
        }
        for &output in &node.outputs {
            if let Some(home) = homes.get(output) {
                writer.insert(home.root, at);
            }
        }
        before[at].retain(|&earlier| earlier != at);
        before[at].sort_unstable();
        before[at].dedup();
    }
    before
}
