//! Which memory each value of a graph lies in, and where in it: views share their value's, updates
//! their operand's. Pure; it must not know devices.

use super::build::{Graph, Kind, Node, Value};
use super::view::Placed;

/// A value's memory: the value whose node made it, how often it was updated since, and the place.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    /// The value that owns the memory.
    pub(crate) root: Value,
    /// Updates of the root that this value has seen.
    pub(crate) version: u32,
    /// Where in the root's memory; `None` behind a view that has to move elements.
    pub(crate) placed: Option<Placed>,
}

/// The home of every value that a node makes, by index.
pub(crate) struct Homes(Vec<Option<Home>>);

impl Homes {
    /// Of no values.
    pub(crate) fn empty() -> Homes {
        Homes(Vec::new())
    }

    /// Follows the graph's nodes in order. Values that no earlier node makes have no home; the
    /// verifier says which.
    pub(crate) fn of(graph: &Graph) -> Homes {
        let mut homes = Homes(vec![None; graph.metas.len()]);
        for node in &graph.nodes {
            homes.add(graph, node);
        }
        homes
    }

    /// Adds the values that a node makes.
    pub(crate) fn add(&mut self, graph: &Graph, node: &Node) {
        self.0.resize(graph.metas.len(), None);
        for (at, &output) in node.outputs.iter().enumerate() {
            let own = |placed| Some(Home { root: output, version: 0, placed: Some(placed) });
            let dense = Placed::dense(&graph.metas[output.index as usize].shape);
            let home = match &node.kind {
                Kind::Input(_) => own(dense),
                Kind::Weight(tensor) | Kind::State(tensor) => own(Placed {
                    shape: tensor.shape().to_vec(),
                    strides: tensor.strides().to_vec(),
                    start: tensor.start(),
                }),
                Kind::View(view) => node.inputs.first().and_then(|&x| self.get(x)).map(|home| {
                    let placed = home.placed.as_ref().and_then(|placed| view.place(placed));
                    Home { placed, ..home.clone() }
                }),
                Kind::Op(op) => match op.updates().iter().find(|(output, _)| *output == at) {
                    None => own(dense),
                    Some(&(_, input)) => node
                        .inputs
                        .get(input)
                        .and_then(|&x| self.get(x))
                        .map(|home| Home { version: home.version + 1, ..home.clone() }),
                },
            };
            if let Some(slot) = self.0.get_mut(output.index as usize) {
                *slot = home;
            }
        }
    }

    /// The home of a value, if some node has made it.
    pub(crate) fn get(&self, value: Value) -> Option<&Home> {
        self.0.get(value.index as usize)?.as_ref()
    }
}
