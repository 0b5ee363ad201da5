//! The verifier: what must hold of every graph, after building and after each pass that rewrites.
//! It must not repair.

use std::collections::HashMap;

use super::build::{Graph, Kind, Node, Value};
use super::storage::Homes;
use crate::error::{Error, Result};

impl Graph {
    /// Checks that every value is made once and before it is used, has the type and shape that its
    /// operation gives, and that nothing reads what an update has overwritten. `after` names the pass
    /// in the error.
    pub(crate) fn verify(&self, after: &'static str) -> Result<()> {
        let mut verifier = Verifier {
            graph: self,
            after,
            homes: Homes::empty(),
            versions: HashMap::new(),
            writable: HashMap::new(),
        };
        for node in &self.nodes {
            verifier.node(node)?;
        }
        for (name, value) in &self.outputs {
            verifier.readable(name, *value)?;
        }
        Ok(())
    }
}

struct Verifier<'a> {
    graph: &'a Graph,
    after: &'static str,
    homes: Homes,
    /// Updates of each root so far.
    versions: HashMap<Value, u32>,
    /// Whether operations may update a root.
    writable: HashMap<Value, bool>,
}

impl Verifier<'_> {
    fn refuse(&self, node: &str, reason: String) -> Error {
        Error::Graph { node: node.into(), reason: format!("{reason} (after {})", self.after) }
    }

    /// A value that a node before this point has made and no update has overwritten.
    fn readable(&self, node: &str, value: Value) -> Result<()> {
        self.graph.meta(value)?;
        let Some(home) = self.homes.get(value) else {
            let reason = format!("value {} is used before it is made", value.index);
            return Err(self.refuse(node, reason));
        };
        let now = self.versions.get(&home.root).copied().unwrap_or(0);
        if home.version != now {
            let reason = format!(
                "value {} was overwritten by a later update of its memory; read it before, or copy it",
                value.index
            );
            return Err(self.refuse(node, reason));
        }
        Ok(())
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        for &input in &node.inputs {
            self.readable(&node.label, input)?;
        }
        for &output in &node.outputs {
            self.graph.meta(output)?;
            if self.homes.get(output).is_some() {
                return Err(
                    self.refuse(&node.label, format!("value {} is made twice", output.index))
                );
            }
        }
        self.types(node)?;
        if let Kind::Op(op) = &node.kind {
            for &(_, input) in op.updates() {
                self.update(node, node.inputs[input])?;
            }
        }
        self.homes.add(self.graph, node);
        for &output in &node.outputs {
            let owns = self.homes.get(output).is_some_and(|home| home.root == output);
            if owns {
                let writable = matches!(node.kind, Kind::State(_) | Kind::Op(_));
                self.writable.insert(output, writable);
            }
        }
        Ok(())
    }

    /// The types that the operation gives are those that the graph holds.
    fn types(&self, node: &Node) -> Result<()> {
        let metas: Vec<_> =
            node.inputs.iter().map(|x| self.graph.metas[x.index as usize].clone()).collect();
        let given = match &node.kind {
            Kind::View(view) => match metas.as_slice() {
                [x] => vec![view.output(x)?],
                _ => return Err(self.refuse(&node.label, "a view takes one value".into())),
            },
            Kind::Op(op) => op.outputs(&metas)?,
            _ if metas.is_empty() && node.outputs.len() == 1 => return Ok(()),
            _ => {
                return Err(
                    self.refuse(&node.label, "an operand takes nothing and is one value".into())
                );
            }
        };
        let held = node.outputs.iter().map(|x| &self.graph.metas[x.index as usize]);
        if given.len() != node.outputs.len() || !given.iter().eq(held) {
            return Err(self.refuse(&node.label, "its results are not what the graph holds".into()));
        }
        Ok(())
    }

    fn update(&mut self, node: &Node, input: Value) -> Result<()> {
        let Some(home) = self.homes.get(input) else { return Ok(()) };
        let root = home.root;
        if node
            .inputs
            .iter()
            .filter(|&&x| self.homes.get(x).is_some_and(|h| h.root == root))
            .count()
            > 1
        {
            return Err(
                self.refuse(&node.label, "it reads what it updates through another operand".into())
            );
        }
        if !self.writable.get(&root).copied().unwrap_or(false) {
            let reason = "it updates an input or a weight; only states and results may be updated";
            return Err(self.refuse(&node.label, reason.into()));
        }
        *self.versions.entry(root).or_default() += 1;
        Ok(())
    }
}
