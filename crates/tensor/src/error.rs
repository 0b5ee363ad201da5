//! Why an operation or a view was refused; every message names the operation and the shapes.

use crate::Tensor;

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation or a view was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Operands whose shapes or strides an operation cannot take.
    #[error("{op}: {reason}; operands are {operands}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// What does not fit, and what would.
        reason: String,
        /// Type, shape and strides of each operand.
        operands: String,
    },
    /// Operands whose types an operation does not take.
    #[error("{op}: {reason}; operands are {operands}")]
    Type {
        /// The operation.
        op: &'static str,
        /// What is not taken, and what is.
        reason: String,
        /// Type, shape and strides of each operand.
        operands: String,
    },
    /// A view that its tensor does not have.
    #[error("{view} of {tensor}: {reason}")]
    View {
        /// The view asked for.
        view: &'static str,
        /// The tensor.
        tensor: String,
        /// Why it is not there.
        reason: String,
    },
    /// A node of a graph was refused.
    #[error("{node}: {error}")]
    Node {
        /// Where in the graph.
        node: String,
        /// Why.
        error: Box<Error>,
    },
    /// A graph or plan was used in a way that it does not allow.
    #[error("{node}: {reason}")]
    Graph {
        /// Where in the graph, or which plan.
        node: String,
        /// What is not allowed, and what is.
        reason: String,
    },
    /// The compute core refused or failed.
    #[error(transparent)]
    Gpu(#[from] tintype_gpu::Error),
}

/// Operands as errors show them: `F32 [2, 3], F16 [3] strides [2]`.
fn list(operands: &[&Tensor]) -> String {
    operands.iter().map(|tensor| tensor.to_string()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn shape(op: &'static str, operands: &[&Tensor], reason: impl Into<String>) -> Error {
    Error::Shape { op, reason: reason.into(), operands: list(operands) }
}

pub(crate) fn dtype(op: &'static str, operands: &[&Tensor], reason: impl Into<String>) -> Error {
    Error::Type { op, reason: reason.into(), operands: list(operands) }
}
