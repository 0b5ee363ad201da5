//! Padding as a graph's node.

use tintype_gpu::Session;

use super::{AXES, Pad, pad};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// A value with borders.
#[derive(Debug, Clone, PartialEq)]
pub struct PadBy {
    /// What stands there.
    pub how: Pad,
    /// Before and after, along each axis.
    pub padding: Vec<[usize; 2]>,
}

impl Op for PadBy {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [a] = exactly("pad", inputs)?;
        if Number::of(a.dtype).is_none() {
            return Err(refuse_dtype("pad", inputs, "types are F32, F16 and BF16"));
        }
        if a.rank() != self.padding.len() || a.rank() > AXES {
            let pairs = self.padding.len();
            let reason = format!("the value has {pairs} axes, as the padding, at most {AXES}");
            return Err(refuse_shape("pad", inputs, reason));
        }
        let mut shape = Vec::with_capacity(a.rank());
        for (extent, [before, after]) in a.shape.iter().zip(&self.padding) {
            let farthest = *before.max(after);
            let short = match self.how {
                Pad::Constant(_) => false,
                Pad::Reflect => farthest > 0 && farthest >= *extent,
                Pad::Replicate => farthest > 0 && *extent == 0,
            };
            let padded = extent.checked_add(*before).and_then(|sum| sum.checked_add(*after));
            let Some(padded) = padded.filter(|_| !short) else {
                let reason = format!("{:?} by {:?} does not fit", self.how, self.padding);
                return Err(refuse_shape("pad", inputs, reason));
            };
            shape.push(padded);
        }
        Ok(vec![Meta::new(a.dtype, &shape)])
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
        pad(session, self.how, &self.padding, &inputs[0], &outputs[0])
    }
}

impl Graph {
    /// `a` with `padding[axis] = [before, after]` more along each axis.
    pub fn pad(&mut self, a: Value, how: Pad, padding: &[[usize; 2]]) -> Result<Value> {
        self.apply(PadBy { how, padding: padding.to_vec() }, &[a])
    }
}
