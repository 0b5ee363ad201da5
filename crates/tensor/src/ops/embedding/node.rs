//! Embedding as a graph's node: operands are the table and the ids.

use tintype_gpu::{DType, Session};

use super::{UNKNOWN, embedding, is_known};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// Rows of a table by id, times a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EmbeddingOp {
    /// Factor.
    pub scale: f32,
    /// Type of the result.
    pub dtype: DType,
}

impl Op for EmbeddingOp {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let [table, ids] = exactly(op, inputs)?;
        let of_ids = matches!(ids.dtype, DType::I32 | DType::U32);
        if !is_known(table.dtype) || Number::of(self.dtype).is_none() {
            return Err(refuse_dtype(op, inputs, UNKNOWN));
        }
        if !of_ids {
            return Err(refuse_dtype(op, inputs, "ids are I32 or U32"));
        }
        if table.rank() != 2 || table.shape[0] == 0 || !self.scale.is_finite() {
            return Err(refuse_shape(op, inputs, "the table is a matrix, the factor finite"));
        }
        Ok(vec![Meta { dtype: self.dtype, shape: [&ids.shape[..], &[table.last()]].concat() }])
    }

    fn layout(&self, input: usize) -> Layout {
        if input == 0 { Layout::Rows } else { Layout::Any }
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        embedding(session, self.scale, &inputs[0], &inputs[1], &outputs[0])
    }
}

impl Graph {
    /// `table[ids]·scale` in `dtype`: table `[vocabulary, n]`, dense or quantized, ids I32 or U32 of any
    /// shape. An id outside the table gives NaN.
    pub fn embedding(
        &mut self,
        table: Value,
        ids: Value,
        scale: f32,
        dtype: DType,
    ) -> Result<Value> {
        self.apply(EmbeddingOp { scale, dtype }, &[table, ids])
    }
}
