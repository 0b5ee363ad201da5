//! Products with chosen experts as a graph's node.

use tintype_gpu::{DType, Session};

use super::{TYPES_TAKEN, expert_matmul, is_known};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// `weights[ids[t, u]]·x[t, u]`, in x's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpertMatmulOp;

impl Op for ExpertMatmulOp {
    fn name(&self) -> &'static str {
        "expert_matmul"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let [weights, x, ids] = exactly(op, inputs)?;
        if !is_known(weights.dtype) || Number::of(x.dtype).is_none() || ids.dtype != DType::I32 {
            return Err(refuse_dtype(op, inputs, TYPES_TAKEN));
        }
        let (&[experts, n, k], &[tokens, used]) = (&weights.shape[..], &ids.shape[..]) else {
            return Err(refuse_shape(
                op,
                inputs,
                "weights are [experts, n, k], ids [tokens, used]",
            ));
        };
        if x.shape != [tokens, 1, k] && x.shape != [tokens, used, k] || experts == 0 {
            return Err(refuse_shape(
                op,
                inputs,
                "x is [tokens, used or 1, k], and there are experts",
            ));
        }
        Ok(vec![Meta::new(x.dtype, &[tokens, used, n])])
    }

    fn layout(&self, input: usize) -> Layout {
        if input == 1 { Layout::Rows } else { Layout::Dense }
    }

    fn flops(&self, inputs: &[Meta], outputs: &[Meta]) -> f64 {
        2.0 * outputs[0].elements() as f64 * inputs[1].last() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        expert_matmul(session, &inputs[0], &inputs[1], &inputs[2], &outputs[0])
    }
}

impl Graph {
    /// `[tokens, used, n]`: each token's product with the experts that `ids` I32 `[tokens, used]` name
    /// (from [`Graph::top_k`] of a router's logits): weights `[experts, n, k]`, dense or quantized, x
    /// `[tokens, used, k]` or `[tokens, 1, k]`.
    pub fn expert_matmul(&mut self, weights: Value, x: Value, ids: Value) -> Result<Value> {
        self.apply(ExpertMatmulOp, &[weights, x, ids])
    }
}
