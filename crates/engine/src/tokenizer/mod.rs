//! Text to token ids and back, by the vocabularies that weight files carry: [`Tokenizer`] for language
//! models, [`Unigram`] for T5's encoders. It must not know what a model does with the ids.

mod error;
mod markers;
mod merge;
mod spm;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod unigram;
mod vocabulary;

pub use error::TokenizerError;
pub use stream::TextStream;
pub use text::{EncodeOptions, Token, Tokenizer};
pub use unigram::Unigram;
