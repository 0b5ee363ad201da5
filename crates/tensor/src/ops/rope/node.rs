//! Rotary positions as a graph's node: operands are x, positions, frequencies.

use tintype_gpu::{DType, Session};

use super::{Rope, rope};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{
    Graph, Layout, Meta, Op, Value, broadcast_shape, exactly, refuse_dtype, refuse_shape,
};
use crate::number::Number;

/// Rotary positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeOp(
    /// Which pairs are turned, and how.
    pub Rope,
);

impl Op for RopeOp {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let [x, positions, frequencies] = exactly(op, inputs)?;
        let types = (positions.dtype, frequencies.dtype);
        if Number::of(x.dtype).is_none() || types != (DType::I32, DType::F32) {
            let reason = "x is F32, F16 or BF16, positions I32, frequencies F32";
            return Err(refuse_dtype(op, inputs, reason));
        }
        if x.rank() < 2 || positions.rank() < 2 || positions.rank() > x.rank() {
            let reason = "x is [.., tokens, n], positions are [axes, .., tokens]";
            return Err(refuse_shape(op, inputs, reason));
        }
        let pairs = frequencies.elements();
        let sections = self.0.sections;
        let used = sections.iter().rposition(|&section| section > 0).map_or(0, |at| at + 1);
        let fits = frequencies.rank() == 1 && pairs > 0 && 2 * pairs <= x.last();
        let shared = sections.iter().sum::<usize>() == pairs && used <= positions.shape[0];
        if !fits || !shared || !self.0.scale.is_finite() {
            let reason = "frequencies are at most half of x's last axis, sections add up to them";
            return Err(refuse_shape(op, inputs, reason));
        }
        let rows = Meta::new(DType::I32, &x.shape[..x.rank() - 1]);
        let own = Meta::new(DType::I32, &positions.shape[1..]);
        if broadcast_shape(op, &[rows.clone(), own])? != rows.shape {
            return Err(refuse_shape(op, inputs, "positions must repeat to the rows of x"));
        }
        Ok(vec![x.clone()])
    }

    fn layout(&self, input: usize) -> Layout {
        if input == 2 { Layout::Dense } else { Layout::Any }
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        rope(session, &self.0, &inputs[0], &inputs[1], &inputs[2], &outputs[0])
    }
}

impl Graph {
    /// Turns pairs of the last axis of `x` by position·frequency: positions I32 `[axes, .., tokens]`,
    /// frequencies F32 `[pairs]`.
    pub fn rope(
        &mut self,
        spec: Rope,
        x: Value,
        positions: Value,
        frequencies: Value,
    ) -> Result<Value> {
        self.apply(RopeOp(spec), &[x, positions, frequencies])
    }
}
