//! Choosing tokens as a graph's node.

use tintype_gpu::{DType, Session};

use super::{SETTINGS, TYPES_TAKEN, sample};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// A token of each row, by settings and uniform numbers that are operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleOp;

impl Op for SampleOp {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let [x, settings, uniform] = exactly(op, inputs)?;
        if Number::of(x.dtype).is_none() || [settings, uniform].map(|m| m.dtype) != [DType::F32; 2]
        {
            return Err(refuse_dtype(op, inputs, TYPES_TAKEN));
        }
        let outer = match x.shape.split_last() {
            Some((&n, outer)) if n > 0 && n <= i32::MAX as usize => outer,
            _ => return Err(refuse_shape(op, inputs, "x's last axis has elements")),
        };
        if settings.shape != [outer, &[SETTINGS]].concat() || uniform.shape != outer {
            let reason = "x [.., n] takes settings [.., 4] and uniform numbers [..]";
            return Err(refuse_shape(op, inputs, reason));
        }
        Ok(vec![Meta::new(DType::I32, outer)])
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn flops(&self, inputs: &[Meta], _outputs: &[Meta]) -> f64 {
        64.0 * inputs[0].elements() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        sample(session, &inputs[0], &inputs[1], &inputs[2], &outputs[0])
    }
}

impl Graph {
    /// I32 `[..]`: a token of each row of logits x `[.., n]`. Settings F32 `[.., 4]` are temperature,
    /// top-k, top-p, min-p (see [`crate::ops::sample::sample`]), uniform numbers F32 `[..]` in 0..1.
    pub fn sample(&mut self, x: Value, settings: Value, uniform: Value) -> Result<Value> {
        self.apply(SampleOp, &[x, settings, uniform])
    }
}
