//! Graphs and plans as text, one node a line, and as Graphviz pictures. It must not change anything.

use std::collections::HashMap;
use std::fmt::Write;

use super::build::{Graph, Kind, Node, Value};

impl Node {
    /// What the node is, with its parameters.
    fn describe(&self) -> String {
        match &self.kind {
            Kind::Input(name) => format!("input {name}"),
            Kind::Weight(tensor) => format!("weight {}", tensor.buffer().name()),
            Kind::State(tensor) => format!("state {}", tensor.buffer().name()),
            Kind::View(view) => format!("{view:?}"),
            Kind::Op(op) => op.describe(),
        }
    }
}

impl Graph {
    /// One node a line: `%7 F32 [2, 64] = linear(%3, %5)  # block 3/attention/q`.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let outputs = node.outputs.iter().map(|value| self.name(*value)).collect::<Vec<_>>();
            let inputs = node.inputs.iter().map(|x| format!("%{}", x.index)).collect::<Vec<_>>();
            // Writing to a String does not fail.
            let _always_ok = writeln!(
                text,
                "{} = {}({})  # {}",
                outputs.join(", "),
                node.describe(),
                inputs.join(", "),
                node.label
            );
        }
        for (name, value) in &self.outputs {
            let _always_ok = writeln!(text, "output {name} = %{}", value.index);
        }
        text
    }

    fn name(&self, value: Value) -> String {
        format!("%{} {}", value.index, self.metas[value.index as usize])
    }

    /// A picture for `dot -Tsvg`: operations as boxes, views dashed, weights grey, states yellow.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from(
            "digraph plan {\n  rankdir=TB; node [shape=box, fontname=\"Helvetica\", fontsize=10];\n  \
             edge [fontname=\"Helvetica\", fontsize=8];\n",
        );
        let mut makers: HashMap<Value, usize> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let style = match &node.kind {
                Kind::Input(_) => "style=filled, fillcolor=\"#cfe8ff\", shape=ellipse",
                Kind::Weight(_) => "style=filled, fillcolor=\"#eeeeee\", shape=ellipse",
                Kind::State(_) => "style=filled, fillcolor=\"#fff2b0\", shape=ellipse",
                Kind::View(_) => "style=dashed",
                Kind::Op(_) => "style=\"filled,rounded\", fillcolor=\"#ffffff\"",
            };
            let text = format!("{}\n{}", node.describe(), node.label);
            let _always_ok = writeln!(dot, "  n{at} [label={text:?}, {style}];");
            for &input in &node.inputs {
                if let Some(from) = makers.get(&input) {
                    let meta = self.metas[input.index as usize].to_string();
                    let _always_ok = writeln!(dot, "  n{from} -> n{at} [label={meta:?}];");
                }
            }
            makers.extend(node.outputs.iter().map(|&value| (value, at)));
        }
        for (at, (name, value)) in self.outputs.iter().enumerate() {
            let style = "style=filled, fillcolor=\"#d4f5d0\", shape=ellipse";
            let _always_ok = writeln!(dot, "  out{at} [label={name:?}, {style}];");
            if let Some(from) = makers.get(value) {
                let _always_ok = writeln!(dot, "  n{from} -> out{at};");
            }
        }
        dot.push_str("}\n");
        dot
    }
}
