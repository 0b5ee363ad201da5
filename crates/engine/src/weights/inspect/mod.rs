//! What a weight file holds, for people and programs. It must not touch tensor data, so that a
//! file of any size is looked at in an instant.

mod architecture;
mod memory;
mod tokenizer;
mod tree;

pub use architecture::{Guess, architecture};
pub use memory::{Context, Forecast, Needs, OverLimit, forecast, needs};
pub use tokenizer::{Special, Tokenizer, tokenizer};
pub use tree::{Amount, Branch, Leaf, tree};

use serde::Serialize;

use super::Weights;
use super::tensor::sum;
use crate::DType;

/// Everything about a file that its headers say.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The format's name.
    pub format: &'static str,
    /// The format's version, where it has one.
    pub version: Option<u32>,
    /// Files and their sizes.
    pub files: Vec<FileSize>,
    /// What model this seems to be.
    pub architecture: Option<Guess>,
    /// Values in all tensors, scales left out.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
    /// How many tensors.
    pub tensors: usize,
    /// Element types by their share of the bytes, largest first.
    pub dtypes: Vec<Share>,
    /// The tokenizer, if there is one.
    pub tokenizer: Option<Tokenizer>,
    /// Memory that running it would take.
    pub memory: Needs,
}

/// One file.
#[derive(Debug, Serialize)]
pub struct FileSize {
    /// Where it is.
    pub path: String,
    /// How large it is.
    pub bytes: u64,
}

/// How much of a file is of one type.
#[derive(Debug, Serialize)]
pub struct Share {
    /// The type's name.
    pub dtype: &'static str,
    /// Tensors of it.
    pub tensors: usize,
    /// Values in them.
    pub parameters: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of them divided by all bytes.
    pub share: f64,
}

/// Summarizes open weights.
pub fn summarize(weights: &Weights, context: Option<u64>) -> Summary {
    let tensors = weights.tensors();
    let tensor_bytes = sum(tensors.iter().map(|t| t.byte_len()));
    let file = |source: &super::Source| FileSize {
        path: source.path().display().to_string(),
        bytes: source.len(),
    };
    Summary {
        format: weights.format().name(),
        version: weights.version(),
        files: weights.files().iter().map(file).collect(),
        architecture: architecture(weights),
        parameters: sum(tensors.iter().map(|t| t.elements())),
        tensor_bytes,
        tensors: tensors.len(),
        dtypes: shares(weights, tensor_bytes),
        tokenizer: tokenizer(weights),
        memory: needs(weights, context),
    }
}

fn shares(weights: &Weights, all: u64) -> Vec<Share> {
    let of = |dtype: DType| {
        let mut share =
            Share { dtype: dtype.name(), tensors: 0, parameters: 0, bytes: 0, share: 0.0 };
        for tensor in weights.tensors().iter().filter(|t| t.dtype() == dtype) {
            share.tensors += 1;
            share.parameters = share.parameters.saturating_add(tensor.elements());
            share.bytes = share.bytes.saturating_add(tensor.byte_len());
        }
        share.share = if all == 0 { 0.0 } else { share.bytes as f64 / all as f64 };
        share
    };
    let mut shares: Vec<_> =
        DType::ALL.iter().map(|d| of(*d)).filter(|share| share.tensors > 0).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}
