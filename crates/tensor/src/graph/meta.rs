//! What is known of a value before it exists: its type and its extents; and how operations refuse
//! such operands. It must not know memory.

use tintype_gpu::DType;

use crate::MAX_RANK;
use crate::error::{Error, Result};

/// Type and extents of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Type of the elements.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
}

impl Meta {
    /// A value of `dtype` and `shape`.
    pub fn new(dtype: DType, shape: &[usize]) -> Self {
        Meta { dtype, shape: shape.to_vec() }
    }

    /// The same extents in another type.
    pub fn as_dtype(&self, dtype: DType) -> Self {
        Meta { dtype, shape: self.shape.clone() }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |count, &extent| count.saturating_mul(extent))
    }

    /// Extent of the last axis; 1 where there is none.
    pub fn last(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Bytes of a dense tensor of it; `None` for partial blocks and what cannot be counted.
    pub fn bytes(&self) -> Option<u64> {
        tintype_gpu::byte_len(self.dtype, &self.shape).ok()
    }

    /// Refuses what no tensor can be.
    pub(crate) fn check(&self, op: &'static str) -> Result<()> {
        let inputs = std::slice::from_ref(self);
        if self.rank() > MAX_RANK {
            return Err(refuse_shape(op, inputs, format!("at most {MAX_RANK} axes")));
        }
        match self.bytes() {
            Some(_) => Ok(()),
            None if self.dtype.is_quantized() => {
                let block = self.dtype.block_elements();
                Err(refuse_shape(
                    op,
                    inputs,
                    format!("{} keeps blocks of {block} whole", self.dtype),
                ))
            }
            None => Err(refuse_shape(op, inputs, "it has more bytes than can be counted")),
        }
    }
}

impl std::fmt::Display for Meta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

fn list(inputs: &[Meta]) -> String {
    match inputs {
        [] => "none".into(),
        _ => inputs.iter().map(Meta::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Refuses operands for their shapes.
pub fn refuse_shape(op: &'static str, inputs: &[Meta], reason: impl Into<String>) -> Error {
    Error::Shape { op, reason: reason.into(), operands: list(inputs) }
}

/// Refuses operands for their types.
pub fn refuse_dtype(op: &'static str, inputs: &[Meta], reason: impl Into<String>) -> Error {
    Error::Type { op, reason: reason.into(), operands: list(inputs) }
}

/// The operands as an array, or a refusal that says how many there should be.
pub fn exactly<'a, const N: usize>(op: &'static str, inputs: &'a [Meta]) -> Result<&'a [Meta; N]> {
    inputs.try_into().map_err(|_| {
        refuse_shape(op, inputs, format!("it takes {N} operands, {} are given", inputs.len()))
    })
}

/// The shape that both repeat to, as NumPy broadcasts.
pub fn broadcast_shape(op: &'static str, inputs: &[Meta]) -> Result<Vec<usize>> {
    let rank = inputs.iter().map(Meta::rank).max().unwrap_or(0);
    let mut shape = vec![1usize; rank];
    for input in inputs {
        for (own, out) in input.shape.iter().rev().zip(shape.iter_mut().rev()) {
            match (*own, *out) {
                (own, out) if own == out => {}
                (own, 1) => *out = own,
                (1, _) => {}
                _ => return Err(refuse_shape(op, inputs, "shapes do not repeat to a common one")),
            }
        }
    }
    Ok(shape)
}
