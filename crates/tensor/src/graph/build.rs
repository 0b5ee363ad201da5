//! The graph as it is built: values, and the nodes that make them, in the order in which they were
//! written down. Checked node by node. It must not know devices or plans.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tintype_gpu::DType;

use super::meta::Meta;
use super::op::Op;
use super::view::View;
use crate::Tensor;
use crate::error::{Error, Result};

/// Numbers graphs, so that a value of one is not taken for another's. Never reset.
static GRAPHS: AtomicU32 = AtomicU32::new(0);

/// A value of a graph: a handle, cheap to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value {
    graph: u32,
    pub(crate) index: u32,
}

/// What makes a value.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Written by the host before runs.
    Input(String),
    /// Device memory that the plan only reads.
    Weight(Tensor),
    /// Device memory that outlives runs and that operations may update.
    State(Tensor),
    /// A view of another value.
    View(View),
    /// An operation.
    Op(Arc<dyn Op>),
}

/// A node: what it is, what it takes, what it gives.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Where it was written: scopes and name, `block 3/attention/linear`.
    pub(crate) label: Arc<str>,
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
}

/// Values and operations, and which values a plan shall give back.
#[derive(Debug, Clone)]
pub struct Graph {
    number: u32,
    pub(crate) nodes: Vec<Node>,
    /// Of every value ever made, by index; rewriting adds and never removes.
    pub(crate) metas: Vec<Meta>,
    pub(crate) outputs: Vec<(String, Value)>,
    scopes: Vec<String>,
}

impl Default for Graph {
    fn default() -> Self {
        Graph::new()
    }
}

impl Graph {
    /// A graph of nothing.
    pub fn new() -> Self {
        Graph {
            number: GRAPHS.fetch_add(1, Ordering::Relaxed),
            nodes: Vec::new(),
            metas: Vec::new(),
            outputs: Vec::new(),
            scopes: Vec::new(),
        }
    }

    /// A value that the host writes before runs; it keeps what was written until it is written again.
    pub fn input(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Result<Value> {
        let taken = |node: &Node| matches!(&node.kind, Kind::Input(other) if other == name);
        if self.nodes.iter().any(taken) {
            return Err(self.refuse(name, "an input of this name is there already"));
        }
        let meta = Meta::new(dtype, shape);
        meta.check("input").map_err(|error| self.at(name, error))?;
        Ok(self.push(Kind::Input(name.into()), name, &[], vec![meta])[0])
    }

    /// A tensor in device memory that runs only read: weights, quantized ones included.
    pub fn weight(&mut self, name: &str, tensor: &Tensor) -> Value {
        let meta = Meta::new(tensor.dtype(), tensor.shape());
        self.push(Kind::Weight(tensor.clone()), name, &[], vec![meta])[0]
    }

    /// A tensor in device memory that keeps its contents between runs and that operations may update
    /// (a KV cache).
    pub fn state(&mut self, name: &str, tensor: &Tensor) -> Value {
        let meta = Meta::new(tensor.dtype(), tensor.shape());
        self.push(Kind::State(tensor.clone()), name, &[], vec![meta])[0]
    }

    /// Applies an operation that gives one value.
    pub fn apply(&mut self, op: impl Op, inputs: &[Value]) -> Result<Value> {
        let name = op.name();
        match self.apply_many(op, inputs)?.as_slice() {
            [value] => Ok(*value),
            values => Err(self.refuse(name, format!("it gives {} values, not one", values.len()))),
        }
    }

    /// Applies an operation; its values in order.
    pub fn apply_many(&mut self, op: impl Op, inputs: &[Value]) -> Result<Vec<Value>> {
        let name = op.name();
        let metas = self.metas_of(name, inputs)?;
        let outputs = op.outputs(&metas).map_err(|error| self.at(name, error))?;
        for meta in &outputs {
            meta.check(name).map_err(|error| self.at(name, error))?;
        }
        for &(output, input) in op.updates() {
            if outputs.get(output) != metas.get(input) || output >= outputs.len() {
                return Err(
                    self.refuse(name, format!("result {output} does not update operand {input}"))
                );
            }
        }
        Ok(self.push(Kind::Op(Arc::new(op)), name, inputs, outputs))
    }

    /// A view of a value.
    pub fn view(&mut self, x: Value, view: View) -> Result<Value> {
        let name = view.name();
        let metas = self.metas_of(name, &[x])?;
        let meta = view.output(&metas[0]).map_err(|error| self.at(name, error))?;
        if meta == metas[0] && !matches!(view, View::Permute(_)) {
            return Ok(x);
        }
        Ok(self.push(Kind::View(view), name, &[x], vec![meta])[0])
    }

    /// The same elements in another shape.
    pub fn reshape(&mut self, x: Value, shape: &[usize]) -> Result<Value> {
        self.view(x, View::Reshape(shape.to_vec()))
    }

    /// Axes in another order: axis `n` of the result is axis `axes[n]` of `x`.
    pub fn permute(&mut self, x: Value, axes: &[usize]) -> Result<Value> {
        self.view(x, View::Permute(axes.to_vec()))
    }

    /// The last two axes exchanged.
    pub fn transpose(&mut self, x: Value) -> Result<Value> {
        let rank = self.metas_of("transpose", &[x])?[0].rank();
        if rank < 2 {
            return Err(self.refuse("transpose", "the value has fewer than two axes"));
        }
        let mut axes: Vec<_> = (0..rank).collect();
        axes.swap(rank - 2, rank - 1);
        self.permute(x, &axes)
    }

    /// Positions `range` along an axis.
    pub fn slice(&mut self, x: Value, axis: usize, range: Range<usize>) -> Result<Value> {
        self.view(x, View::slice(axis, range))
    }

    /// Cut along an axis into `parts` of equal extent.
    pub fn chunk(&mut self, x: Value, axis: usize, parts: usize) -> Result<Vec<Value>> {
        let meta = self.metas_of("chunk", &[x])?.remove(0);
        let extent = meta.shape.get(axis).copied().unwrap_or(0);
        if parts == 0 || extent == 0 || !extent.is_multiple_of(parts) {
            let reason = format!("{meta} does not divide into {parts} parts along axis {axis}");
            return Err(self.refuse("chunk", reason));
        }
        let part = extent / parts;
        (0..parts).map(|n| self.slice(x, axis, n * part..(n + 1) * part)).collect()
    }

    /// Repeated to a shape, as NumPy broadcasts.
    pub fn broadcast_to(&mut self, x: Value, shape: &[usize]) -> Result<Value> {
        self.view(x, View::Broadcast(shape.to_vec()))
    }

    /// Makes a value readable by name after runs.
    pub fn output(&mut self, name: &str, x: Value) -> Result<()> {
        self.metas_of("output", &[x])?;
        if self.outputs.iter().any(|(other, _)| other == name) {
            return Err(self.refuse(name, "an output of this name is there already"));
        }
        self.outputs.push((name.into(), x));
        Ok(())
    }

    /// Type and shape of a value of this graph.
    pub fn meta(&self, x: Value) -> Result<&Meta> {
        match self.metas.get(x.index as usize) {
            Some(meta) if x.graph == self.number => Ok(meta),
            _ => Err(self.refuse("value", "it belongs to another graph")),
        }
    }

    /// Shape of a value of this graph.
    pub fn shape(&self, x: Value) -> Result<Vec<usize>> {
        Ok(self.meta(x)?.shape.clone())
    }

    /// Type of a value of this graph.
    pub fn dtype(&self, x: Value) -> Result<DType> {
        Ok(self.meta(x)?.dtype)
    }

    /// Names what `build` adds: labels read `name/…` in errors, dumps and timings.
    pub fn within<T>(&mut self, name: &str, build: impl FnOnce(&mut Graph) -> T) -> T {
        self.scopes.push(name.into());
        let built = build(self);
        self.scopes.pop();
        built
    }

    /// Number of nodes, views and operands included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn metas_of(&self, name: &str, values: &[Value]) -> Result<Vec<Meta>> {
        values
            .iter()
            .map(|&value| self.meta(value).cloned().map_err(|error| self.at(name, error)))
            .collect()
    }

    fn push(&mut self, kind: Kind, name: &str, inputs: &[Value], outputs: Vec<Meta>) -> Vec<Value> {
        let outputs: Vec<Value> = outputs.into_iter().map(|meta| self.new_value(meta)).collect();
        let label = self.label(name).into();
        self.nodes.push(Node { kind, label, inputs: inputs.to_vec(), outputs: outputs.clone() });
        outputs
    }

    /// A value that no node makes yet.
    pub(crate) fn new_value(&mut self, meta: Meta) -> Value {
        self.metas.push(meta);
        Value { graph: self.number, index: (self.metas.len() - 1) as u32 }
    }

    fn label(&self, name: &str) -> String {
        let mut label = self.scopes.join("/");
        if !label.is_empty() {
            label.push('/');
        }
        label + name
    }

    fn at(&self, name: &str, error: Error) -> Error {
        if self.scopes.is_empty() {
            return error;
        }
        Error::Node { node: self.label(name), error: Box::new(error) }
    }

    fn refuse(&self, name: &str, reason: impl Into<String>) -> Error {
        Error::Graph { node: self.label(name), reason: reason.into() }
    }
}
