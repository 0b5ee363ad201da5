//! What an operation implements to be a node of a graph. An implementation lives in its operation's
//! own folder (`ops/<op>/node.rs`), beside an `impl Graph` block with the method that builders call,
//! so that one operation touches one folder. It must not know planning.
//!
//! ```ignore
//! // ops/rms_norm/node.rs
//! #[derive(Debug)]
//! struct RmsNorm { epsilon: f32 }
//!
//! impl Op for RmsNorm {
//!     fn name(&self) -> &'static str { "rms_norm" }
//!
//!     fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
//!         let [x, weight] = exactly("rms_norm", inputs)?;
//!         if weight.shape != [x.last()] {
//!             return Err(refuse_shape("rms_norm", inputs, "the weight is as long as x's last axis"));
//!         }
//!         Ok(vec![x.clone()])
//!     }
//!
//!     fn layout(&self, _input: usize) -> Layout { Layout::Rows }
//!
//!     fn record(&self, session: &mut Session<'_>, inputs: &[Tensor], outputs: &[Tensor], _: &[Tensor]) -> Result<()> {
//!         super::rms_norm(session, self.epsilon, &inputs[0], &inputs[1], &outputs[0])
//!     }
//! }
//!
//! impl Graph {
//!     /// `x / √(mean(x²) + ε) · weight` over the last axis.
//!     pub fn rms_norm(&mut self, x: Value, weight: Value, epsilon: f32) -> Result<Value> {
//!         self.apply(RmsNorm { epsilon }, &[x, weight])
//!     }
//! }
//! ```

use std::any::Any;
use std::fmt::Debug;

use tintype_gpu::{Device, Session};

use super::Meta;
use crate::Tensor;
use crate::error::Result;

/// What an operation asks of an operand's strides. A plan puts a copy before the operation where a
/// view does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// Any strides, repeated axes (stride 0) included.
    Any,
    /// Neighbours along the last axis are neighbours in memory; other axes lie anyhow.
    Rows,
    /// Row-major without gaps.
    Dense,
}

/// An operation: given operands' types and shapes it tells those of its results, and given tensors
/// it records itself. It holds its parameters, never tensors.
///
/// What changes from run to run (a timestep, a position, a length) must be an operand, not a
/// parameter: a plan is recorded once and replayed.
pub trait Op: Any + Debug + Send + Sync {
    /// Name, as errors, dumps and timings show it.
    fn name(&self) -> &'static str;

    /// Types and shapes of the results, or why these operands are refused: see
    /// [`super::refuse_shape`], [`super::refuse_dtype`]. Every refusal belongs here; what passes must
    /// be recordable.
    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>>;

    /// Records the operation. Outputs and scratch are dense; inputs have the layouts asked for.
    /// Where the plan made use of [`Op::reuse`], an output is the same view as that input
    /// ([`Tensor::is_same_view`]).
    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        scratch: &[Tensor],
    ) -> Result<()>;

    /// Memory that it needs only while it runs.
    fn scratch(&self, _device: &Device, _inputs: &[Meta]) -> Result<Vec<Meta>> {
        Ok(Vec::new())
    }

    /// What it asks of an operand's strides.
    fn layout(&self, _input: usize) -> Layout {
        Layout::Dense
    }

    /// Whether `output` may be written over `input`, whose value nobody needs afterwards. Asked only
    /// where both have one type and shape and the input is dense and given once.
    fn reuse(&self, _output: usize, _input: usize) -> bool {
        false
    }

    /// Pairs (output, input) where the output *is* the input's memory, changed: a cache that is
    /// appended to. The input must be a [`super::Graph::state`] or a result that nobody else reads
    /// afterwards.
    fn updates(&self) -> &[(usize, usize)] {
        &[]
    }

    /// Floating-point operations, by which long plans are cut into submissions.
    fn flops(&self, _inputs: &[Meta], outputs: &[Meta]) -> f64 {
        outputs.iter().map(|meta| meta.elements() as f64).sum()
    }

    /// Name and parameters, for dumps. Operations whose descriptions are equal compute the same.
    fn describe(&self) -> String {
        format!("{self:?}")
    }
}

impl dyn Op {
    /// The operation as its own type, for the passes that rewrite it.
    pub fn downcast<T: Op>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Whether both compute the same.
    pub fn same(&self, other: &dyn Op) -> bool {
        self.type_id() == other.type_id() && self.describe() == other.describe()
    }
}
