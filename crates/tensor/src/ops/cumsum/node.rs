//! Running sums as a graph's node.

use tintype_gpu::Session;

use super::cumsum;
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// Running sums along the last axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CumsumOp;

impl Op for CumsumOp {
    fn name(&self) -> &'static str {
        "cumsum"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [x] = exactly(self.name(), inputs)?;
        if Number::of(x.dtype).is_none() {
            return Err(refuse_dtype(self.name(), inputs, "x is F32, F16 or BF16"));
        }
        match x.rank() {
            0 => Err(refuse_shape(self.name(), inputs, "x has an axis or more")),
            _ => Ok(vec![x.clone()]),
        }
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn flops(&self, inputs: &[Meta], _outputs: &[Meta]) -> f64 {
        inputs[0].elements() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        cumsum(session, &inputs[0], &outputs[0])
    }
}

impl Graph {
    /// Running sums `x[.., 0] + … + x[.., i]`, in x's type.
    pub fn cumsum(&mut self, x: Value) -> Result<Value> {
        self.apply(CumsumOp, &[x])
    }
}
