//! Laying out: every operand gets the strides that its operation asks for, every output lies dense.
//! Copies stand where a view does not do; one copy serves all that need it. It must not know devices.

use std::collections::HashMap;
use std::sync::Arc;

use super::build::{Graph, Kind, Node, Value};
use super::op::Layout;
use super::storage::Homes;
use super::view::Placed;
use crate::error::{Error, Result};
use crate::ops::copy::node::Copy;

/// Puts copies into a graph until every layout fits; returns how many.
pub(crate) fn lay_out(graph: &mut Graph) -> Result<usize> {
    let nodes = std::mem::take(&mut graph.nodes);
    let mut pass = Pass { homes: Homes::of(graph), graph, copies: HashMap::new() };
    for mut node in nodes {
        match &node.kind {
            Kind::View(view) => {
                let placed = pass.placed(node.inputs[0])?;
                if view.place(&placed).is_none() {
                    node.inputs[0] = pass.copy(node.inputs[0], &node.label);
                }
            }
            Kind::Op(op) => {
                for at in 0..node.inputs.len() {
                    let placed = pass.placed(node.inputs[at])?;
                    let fits = match op.layout(at) {
                        Layout::Any => true,
                        Layout::Rows => placed.has_rows(),
                        Layout::Dense => placed.is_dense(),
                    };
                    if fits {
                        continue;
                    }
                    if op.updates().iter().any(|&(_, input)| input == at) {
                        let reason = format!(
                            "operand {at} is updated in place and must lie {:?}",
                            op.layout(at)
                        );
                        return Err(Error::Graph { node: node.label.to_string(), reason });
                    }
                    node.inputs[at] = pass.copy(node.inputs[at], &node.label);
                }
            }
            _ => {}
        }
        pass.push(node);
    }
    for at in 0..pass.graph.outputs.len() {
        let (name, value) = pass.graph.outputs[at].clone();
        if !pass.placed(value)?.is_dense() {
            pass.graph.outputs[at].1 = pass.copy(value, &name);
        }
    }
    Ok(pass.copies.len())
}

struct Pass<'a> {
    homes: Homes,
    graph: &'a mut Graph,
    copies: HashMap<Value, Value>,
}

impl Pass<'_> {
    fn push(&mut self, node: Node) {
        self.homes.add(self.graph, &node);
        self.graph.nodes.push(node);
    }

    fn placed(&self, value: Value) -> Result<Placed> {
        let placed = self.homes.get(value).and_then(|home| home.placed.clone());
        placed.ok_or_else(|| Error::Graph {
            node: format!("value {}", value.index),
            reason: "it is used before it is made".into(),
        })
    }

    /// A dense copy of a value, made here or before.
    fn copy(&mut self, value: Value, label: &str) -> Value {
        if let Some(&copy) = self.copies.get(&value) {
            return copy;
        }
        let copy = self.graph.new_value(self.graph.metas[value.index as usize].clone());
        self.copies.insert(value, copy);
        let label = format!("{label}/copy").into();
        let kind = Kind::Op(Arc::new(Copy));
        self.push(Node { kind, label, inputs: vec![value], outputs: vec![copy] });
        copy
    }
}
