//! The places of the first as a graph's node.

use tintype_gpu::{DType, Session};

use super::{MAX_PLACES, TYPES_TAKEN, top_k};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, exactly, refuse_dtype, refuse_shape};
use crate::number::Number;

/// Places of the first `k` numbers of each row, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopK {
    /// How many.
    pub k: usize,
    /// The smallest first, not the largest.
    pub ascending: bool,
}

impl Op for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [x] = exactly(self.name(), inputs)?;
        if Number::of(x.dtype).is_none() {
            return Err(refuse_dtype(self.name(), inputs, TYPES_TAKEN));
        }
        match x.shape.split_last() {
            Some((&n, outer)) if self.k <= n.min(MAX_PLACES) && n <= i32::MAX as usize => {
                Ok(vec![Meta::new(DType::I32, &[outer, &[self.k]].concat())])
            }
            _ => {
                let reason = format!("k is {}: at most x's last axis and {MAX_PLACES}", self.k);
                Err(refuse_shape(self.name(), inputs, reason))
            }
        }
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn flops(&self, inputs: &[Meta], _outputs: &[Meta]) -> f64 {
        16.0 * inputs[0].elements() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        top_k(session, self.ascending, &inputs[0], &outputs[0])
    }
}

impl Graph {
    /// I32 `[.., k]`: places of the `k` largest of each row `x[.., :]`, the largest first, the earlier
    /// of equals first, NaN last. [`Graph::gather`] gives the numbers.
    pub fn top_k(&mut self, x: Value, k: usize) -> Result<Value> {
        self.apply(TopK { k, ascending: false }, &[x])
    }

    /// I32: the places of a row's numbers from the smallest to the largest, equals in order, NaN last;
    /// of rows of at most [`MAX_PLACES`] numbers.
    pub fn argsort(&mut self, x: Value) -> Result<Value> {
        let k = self.meta(x)?.last();
        self.apply(TopK { k, ascending: true }, &[x])
    }
}
