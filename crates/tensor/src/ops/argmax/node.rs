//! The place of the largest as a graph's node.

use tintype_gpu::{DType, Session};

use super::{TYPES_TAKEN, argmax};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// Place of the largest number of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgmaxOp;

impl Op for ArgmaxOp {
    fn name(&self) -> &'static str {
        "argmax"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [x] = exactly(self.name(), inputs)?;
        if Number::of(x.dtype).is_none() {
            return Err(refuse_dtype(self.name(), inputs, TYPES_TAKEN));
        }
        match x.shape.split_last() {
            Some((&n, outer)) if n > 0 && n <= i32::MAX as usize => {
                Ok(vec![Meta::new(DType::I32, outer)])
            }
            _ => Err(refuse_shape(self.name(), inputs, "the last axis has elements")),
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
        argmax(session, &inputs[0], &outputs[0])
    }
}

impl Graph {
    /// I32: the place of the largest of each row `x[.., :]`, the first of equals; −1 for a row of NaN.
    pub fn argmax(&mut self, x: Value) -> Result<Value> {
        self.apply(ArgmaxOp, &[x])
    }
}
