//! Copies as a graph's node: a value of its own, dense, from any view.

use tintype_gpu::Session;

use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly};

/// A dense copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy;

impl Op for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [a] = exactly("copy", inputs)?;
        Ok(vec![a.clone()])
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        super::copy(session, &inputs[0], &outputs[0])
    }
}

impl Graph {
    /// A dense copy. Seldom needed: plans copy views by themselves where an operation asks for it.
    pub fn copy(&mut self, x: Value) -> Result<Value> {
        self.apply(Copy, &[x])
    }
}
