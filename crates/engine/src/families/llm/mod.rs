//! Language models that continue texts, an architecture a file, found by the key that GGUF files carry.
//! They must not know tokens' meaning, sampling or requests.

mod gemma3;

use std::fmt::Debug;

use tintype_tensor::Result;
use tintype_tensor::graph::Value;

use crate::nn::{Net, Step};
use crate::text::TextError;
use crate::weights::Weights;

/// What a layer keeps of each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Heads of keys.
    pub(crate) heads: usize,
    /// Numbers of a head.
    pub(crate) numbers: usize,
    /// How many tokens back the layer sees; `None` for all.
    pub(crate) window: Option<usize>,
}

/// A decoder: given tokens, what may come next.
pub(crate) trait Decoder: Debug + Send {
    /// Tokens that it was trained to see.
    fn context(&self) -> usize;

    /// Numbers of a state.
    fn width(&self) -> usize;

    /// Matrix of rows for ids.
    fn table(&self) -> &'static str {
        "token_embd.weight"
    }

    /// What each layer keeps, in order.
    fn kept(&self) -> Vec<Kept>;

    /// Writes one step; gives logits `[slots, rows, vocabulary]`.
    fn build(&self, net: &mut Net<'_>, step: &Step<'_>) -> Result<Value>;
}

type Read = fn(&Weights) -> std::result::Result<Box<dyn Decoder>, TextError>;

/// By the value of `general.architecture`.
const ARCHITECTURES: &[(&str, Read)] =
    &[("gemma3", |weights| Ok(Box::new(gemma3::Gemma3::read(weights)?)))];

/// The decoder that a file holds.
pub(crate) fn read(weights: &Weights) -> std::result::Result<Box<dyn Decoder>, TextError> {
    let found = weights.value("general.architecture").and_then(|value| value.as_str());
    match ARCHITECTURES.iter().find(|(name, _)| Some(*name) == found) {
        Some((_, read)) => read(weights),
        None => {
            let supported: Vec<_> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
            let found = found.unwrap_or("not named").chars().take(40).collect();
            Err(TextError::Architecture { found, supported: supported.join(", ") })
        }
    }
}
