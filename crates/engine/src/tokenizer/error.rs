//! What can be wrong with a vocabulary. It must not know how the error is shown.

use crate::weights::WeightError;

/// A vocabulary that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file could not be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// A metadata key that is needed and is not there, or has another type.
    #[error(
        "metadata key {key:?} is missing or not {expected}; export the GGUF with its tokenizer"
    )]
    Key {
        /// The key.
        key: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
    /// A vocabulary of another kind.
    #[error("the file's tokenizer is {0:?}; this model needs a unigram vocabulary (\"t5\")")]
    Model(String),
    /// Pieces, scores and types that do not belong together.
    #[error("the vocabulary is damaged: {0}")]
    Damaged(String),
}
