//! Softmax as a graph's node. The result has the type of `x`.

use tintype_gpu::Session;

use super::softmax;
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, broadcast_shape, refuse_dtype, refuse_shape};
use crate::number::Number;

/// `softmax(x·scale + mask)`; operands are x and the mask, if any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftmaxOp {
    /// Factor of x.
    pub scale: f32,
}

impl Op for SoftmaxOp {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        if inputs.iter().any(|meta| Number::of(meta.dtype).is_none()) {
            return Err(refuse_dtype(self.name(), inputs, "types are F32, F16 and BF16"));
        }
        let fits = match inputs {
            [x] => x.rank() > 0,
            [x, _] => x.rank() > 0 && broadcast_shape(self.name(), inputs)? == x.shape,
            _ => false,
        };
        if !fits || !self.scale.is_finite() {
            let reason = "it takes x and a mask that repeats to x's shape, and a finite scale";
            return Err(refuse_shape(self.name(), inputs, reason));
        }
        Ok(vec![inputs[0].clone()])
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn flops(&self, inputs: &[Meta], _outputs: &[Meta]) -> f64 {
        20.0 * inputs[0].elements() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        softmax(session, self.scale, &inputs[0], inputs.get(1), &outputs[0])
    }
}

impl Graph {
    /// `softmax(x·scale + mask)` over the last axis; the mask repeats to the shape of `x`.
    pub fn softmax(&mut self, x: Value, scale: f32, mask: Option<Value>) -> Result<Value> {
        let operands: Vec<Value> = [Some(x), mask].into_iter().flatten().collect();
        self.apply(SoftmaxOp { scale }, &operands)
    }
}
