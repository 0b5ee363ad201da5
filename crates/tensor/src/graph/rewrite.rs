//! Small tools of the passes that rewrite a graph: who uses a value, replacing one value by another,
//! removing what nobody needs. It must not know patterns.

use std::collections::{HashMap, HashSet};

use super::build::{Graph, Kind, Value};
use super::storage::Homes;

/// For each value, the positions of the nodes that take it (once a use), and whether it is an output.
pub(crate) struct Uses {
    nodes: HashMap<Value, Vec<usize>>,
    outputs: HashSet<Value>,
}

impl Uses {
    pub(crate) fn of(graph: &Graph) -> Uses {
        let mut nodes: HashMap<Value, Vec<usize>> = HashMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            for &input in &node.inputs {
                nodes.entry(input).or_default().push(at);
            }
        }
        Uses { nodes, outputs: graph.outputs.iter().map(|(_, value)| *value).collect() }
    }

    /// The nodes that take a value, once a use.
    pub(crate) fn nodes(&self, value: Value) -> &[usize] {
        self.nodes.get(&value).map_or(&[], Vec::as_slice)
    }

    /// Whether a value is read after runs.
    pub(crate) fn is_output(&self, value: Value) -> bool {
        self.outputs.contains(&value)
    }
}

impl Graph {
    /// Puts inputs, weights and states before everything else: they depend on nothing, and a rewrite
    /// may want them earlier than they were written down.
    pub(crate) fn hoist(&mut self) {
        self.nodes.sort_by_key(|node| matches!(node.kind, Kind::View(_) | Kind::Op(_)));
    }

    /// Removes the nodes that neither an output nor an update of a state needs.
    pub(crate) fn prune(&mut self) {
        let homes = Homes::of(self);
        let states: HashSet<Value> = self
            .nodes
            .iter()
            .filter(|node| matches!(node.kind, Kind::State(_)))
            .flat_map(|node| node.outputs.clone())
            .collect();
        let mut needed: HashSet<Value> = self.outputs.iter().map(|(_, value)| *value).collect();
        let mut kept = vec![false; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().rev() {
            let changes_state = match &node.kind {
                Kind::Op(op) => op.updates().iter().any(|&(_, input)| {
                    homes.get(node.inputs[input]).is_some_and(|home| states.contains(&home.root))
                }),
                // The host may write an input whether or not anything reads it.
                Kind::Input(_) => true,
                _ => false,
            };
            if changes_state || node.outputs.iter().any(|value| needed.contains(value)) {
                kept[at] = true;
                needed.extend(&node.inputs);
            }
        }
        let mut kept = kept.into_iter();
        self.nodes.retain(|_| kept.next().unwrap_or(true));
    }
}
