//! Text to token ids, by the vocabularies that weight files carry.
//! It must not know what a model does with the ids.

mod error;
#[cfg(test)]
mod tests;
mod unigram;

pub use error::TokenizerError;
pub use unigram::Unigram;
