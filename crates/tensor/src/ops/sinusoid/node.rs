//! Sinusoids as a graph's node.

use tintype_gpu::{DType, Session};

use super::{TYPES_TAKEN, sinusoid};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};

/// Sines and cosines of x times each frequency, F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinusoidOp {
    /// Cosines first (diffusers' `flip_sin_to_cos`).
    pub cosines_first: bool,
}

impl Op for SinusoidOp {
    fn name(&self) -> &'static str {
        "sinusoid"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [x, frequencies] = exactly(self.name(), inputs)?;
        if [x, frequencies].iter().any(|meta| meta.dtype != DType::F32) {
            return Err(refuse_dtype(self.name(), inputs, TYPES_TAKEN));
        }
        match frequencies.shape[..] {
            [half] => Ok(vec![Meta::new(DType::F32, &[&x.shape[..], &[2 * half]].concat())]),
            _ => Err(refuse_shape(self.name(), inputs, "frequencies have one axis")),
        }
    }

    fn layout(&self, input: usize) -> Layout {
        if input == 0 { Layout::Any } else { Layout::Dense }
    }

    fn flops(&self, _inputs: &[Meta], outputs: &[Meta]) -> f64 {
        16.0 * outputs[0].elements() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        sinusoid(session, self.cosines_first, &inputs[0], &inputs[1], &outputs[0])
    }
}

impl Graph {
    /// F32 `[.., 2·half]`: sines, then cosines (or the other way round) of x `[..]` times frequencies
    /// `[half]` ([`crate::ops::sinusoid::frequencies`]).
    pub fn sinusoid(&mut self, x: Value, frequencies: Value, cosines_first: bool) -> Result<Value> {
        self.apply(SinusoidOp { cosines_first }, &[x, frequencies])
    }
}
