//! Tensors one after another as a graph's node.

use tintype_gpu::Session;

use super::concat;
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, refuse_dtype, refuse_shape};

/// All operands along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
}

impl Op for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let Some(first) = inputs.first() else {
            return Err(refuse_shape("concat", inputs, "it takes at least one operand"));
        };
        if first.dtype.is_quantized() || inputs.iter().any(|part| part.dtype != first.dtype) {
            return Err(refuse_dtype("concat", inputs, "parts have one type, not quantized"));
        }
        let mut shape = first.shape.clone();
        let mut total = 0usize;
        for part in inputs {
            let Some(&extent) = part.shape.get(self.axis) else {
                let reason = format!("each part has an axis {}", self.axis);
                return Err(refuse_shape("concat", inputs, reason));
            };
            shape[self.axis] = extent;
            if part.shape != shape {
                let reason = format!("parts differ along axis {} only", self.axis);
                return Err(refuse_shape("concat", inputs, reason));
            }
            total = total.saturating_add(extent);
        }
        shape[self.axis] = total;
        Ok(vec![Meta::new(first.dtype, &shape)])
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
        let parts: Vec<&Tensor> = inputs.iter().collect();
        concat(session, &parts, self.axis, &outputs[0])
    }
}

impl Graph {
    /// `parts` one after another along `axis`; other extents are equal.
    pub fn concat(&mut self, parts: &[Value], axis: usize) -> Result<Value> {
        self.apply(Concat { axis }, parts)
    }
}
