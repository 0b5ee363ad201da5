//! Resizing as a graph's node.

use tintype_gpu::Session;

use super::{Resize, resize};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// Images brought to other extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResizeTo {
    /// How values between pixels are found.
    pub how: Resize,
    /// Height and width of the result.
    pub to: [usize; 2],
}

impl Op for ResizeTo {
    fn name(&self) -> &'static str {
        "resize"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [x] = exactly("resize", inputs)?;
        if Number::of(x.dtype).is_none() {
            return Err(refuse_dtype("resize", inputs, "types are F32, F16 and BF16"));
        }
        let &[n, c, h, w] = x.shape.as_slice() else {
            return Err(refuse_shape("resize", inputs, "x has four axes"));
        };
        let [oh, ow] = self.to;
        let places = self.how.line(h, oh).is_some() && self.how.line(w, ow).is_some();
        if !places || (oh > 0 && ow > 0) && (h == 0 || w == 0) {
            let reason = format!("images of {h} x {w} do not become {oh} x {ow}");
            return Err(refuse_shape("resize", inputs, reason));
        }
        Ok(vec![Meta::new(x.dtype, &[n, c, oh, ow])])
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
        resize(session, self.how, &inputs[0], &outputs[0])
    }
}

impl Graph {
    /// x `[n, c, h, w]` at extents `to`.
    pub fn resize(&mut self, x: Value, how: Resize, to: [usize; 2]) -> Result<Value> {
        self.apply(ResizeTo { how, to }, &[x])
    }

    /// x `[n, c, h, w]` with each pixel repeated `times` along both axes.
    pub fn upsample_nearest(&mut self, x: Value, times: usize) -> Result<Value> {
        let shape = self.shape(x)?;
        let extent = |back: usize| {
            let axis = shape.len().checked_sub(back);
            axis.map_or(0, |axis| shape[axis].saturating_mul(times))
        };
        self.resize(x, Resize::Nearest, [extent(2), extent(1)])
    }
}
