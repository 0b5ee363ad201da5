//! The cache's update as a graph's node: operands are the cache, the rows, the positions; the result
//! is the cache, changed.

use tintype_gpu::{DType, Session};

use super::{TYPES_TAKEN, kv_copy, misfit};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// Rows into a cache at their positions modulo its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvCopyOp;

impl Op for KvCopyOp {
    fn name(&self) -> &'static str {
        "kv_copy"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let [cache, rows, positions] = exactly(op, inputs)?;
        let known = Number::of(cache.dtype).is_some() || cache.dtype == DType::Q8_0;
        if !known || Number::of(rows.dtype).is_none() || positions.dtype != DType::I32 {
            return Err(refuse_dtype(op, inputs, TYPES_TAKEN));
        }
        match misfit(&rows.shape, &positions.shape, &cache.shape) {
            Some(reason) => Err(refuse_shape(op, inputs, reason)),
            None => Ok(vec![cache.clone()]),
        }
    }

    fn layout(&self, input: usize) -> Layout {
        if input == 2 { Layout::Dense } else { Layout::Rows }
    }

    fn updates(&self) -> &[(usize, usize)] {
        &[(0, 0)]
    }

    fn flops(&self, inputs: &[Meta], _outputs: &[Meta]) -> f64 {
        inputs[1].elements() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        _outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        kv_copy(session, &inputs[1], &inputs[2], &inputs[0])
    }
}

impl Graph {
    /// `cache[b, h, positions[b, t] mod capacity, :] = rows[b, h, t, :]`: cache (a state, of numbers
    /// or Q8_0) `[batch, heads, capacity, n]`, rows `[batch, heads, tokens, n]`, positions I32
    /// `[tokens]` or `[batch, tokens]`; negative ones are not written. Gives the changed cache, which
    /// is what attention must read.
    pub fn kv_copy(&mut self, cache: Value, rows: Value, positions: Value) -> Result<Value> {
        self.apply(KvCopyOp, &[cache, rows, positions])
    }
}
