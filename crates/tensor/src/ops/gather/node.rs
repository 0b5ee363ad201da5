//! Gathering as a graph's node: operands are x and the ids.

use tintype_gpu::{DType, Session};

use super::{TYPES_TAKEN, gather, missing};
use crate::error::Result;
use crate::graph::{
    Graph, Layout, Meta, Op, Value, broadcast_shape, exactly, refuse_dtype, refuse_shape,
};
use crate::{MAX_RANK, Tensor};

/// Positions along an axis by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherOp {
    /// The axis.
    pub axis: usize,
}

impl Op for GatherOp {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let [x, ids] = exactly(op, inputs)?;
        if missing(x.dtype).is_none() || !matches!(ids.dtype, DType::I32 | DType::U32) {
            return Err(refuse_dtype(op, inputs, TYPES_TAKEN));
        }
        let fits = self.axis < x.rank() && x.rank() < MAX_RANK && ids.rank() == x.rank();
        if !fits || x.shape[self.axis] == 0 || x.shape[self.axis] > i32::MAX as usize {
            let reason = "x and ids have the same axes, at most five, and the gathered one";
            return Err(refuse_shape(op, inputs, reason));
        }
        let mut shape = x.shape.clone();
        shape[self.axis] = ids.shape[self.axis];
        let out = Meta { dtype: x.dtype, shape };
        let own = ids.as_dtype(x.dtype);
        if broadcast_shape(op, &[out.clone(), own])? != out.shape {
            return Err(refuse_shape(op, inputs, "ids repeat along all axes but the gathered one"));
        }
        Ok(vec![out])
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
        gather(session, self.axis, &inputs[0], &inputs[1], &outputs[0])
    }
}

impl Graph {
    /// `out[.., i, ..] = x[.., ids[.., i, ..], ..]` along `axis`; ids (I32 or U32) have x's axes, of
    /// extent 1 where they repeat. An id outside gives NaN, or −1 of integers.
    pub fn gather(&mut self, x: Value, axis: usize, ids: Value) -> Result<Value> {
        self.apply(GatherOp { axis }, &[x, ids])
    }
}
