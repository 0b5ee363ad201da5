//! What can be wrong with a vocabulary or a text. It must not know how the error is shown.

use crate::weights::WeightError;

/// A vocabulary that cannot be used or a text that cannot be read, and why.
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
    #[error("the file's tokenizer is {found:?}; supported here: {supported}")]
    Model {
        /// Its name in the file.
        found: String,
        /// The names that would do.
        supported: &'static str,
    },
    /// Pieces, scores and types that do not belong together.
    #[error("the vocabulary is damaged: {0}")]
    Damaged(String),
    /// A number that is no token.
    #[error("{token} is no token: the vocabulary has {known}")]
    NoSuchToken {
        /// The number.
        token: u32,
        /// How many tokens there are.
        known: usize,
    },
    /// A character without a token.
    #[error("no token for {0:?}, and none for its bytes")]
    NoTokenFor(String),
    /// More text than is read at once.
    #[error("a text of {bytes} bytes; at most {limit} are read at once")]
    TooLong {
        /// How much it is.
        bytes: usize,
        /// How much is read.
        limit: usize,
    },
}

/// What most functions here return.
pub(crate) type Result<T> = std::result::Result<T, TokenizerError>;

pub(super) fn missing(key: &'static str, expected: &'static str) -> TokenizerError {
    TokenizerError::Key { key, expected }
}
