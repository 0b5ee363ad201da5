//! What can go wrong on the way to a text, in words a user can act on.

use super::progress::Phase;
use crate::background::Lost;
use crate::families::SettingError;
use crate::tokenizer::TokenizerError;
use crate::weights::WeightError;

/// Why a model was not opened or a text not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The work was asked to stop. What was streamed until then stands.
    #[error("cancelled while {0}")]
    Cancelled(Phase),
    /// The request cannot be met; nothing was begun.
    #[error("{what}: {reason}")]
    Request {
        /// Which part of the request.
        what: &'static str,
        /// What is wrong with it, and what is allowed.
        reason: String,
    },
    /// Prompt and answer are longer than the context; nothing was begun.
    #[error(
        "the prompt has {prompt} tokens and {wanted} more are wanted, but the context holds {context}; \
         shorten the prompt, ask for fewer tokens, or open the model with a larger context (it was \
         trained on {trained})"
    )]
    Context {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        wanted: usize,
        /// Tokens that the context holds.
        context: usize,
        /// Tokens that the model was trained to see.
        trained: usize,
    },
    /// A model of an architecture that is not written here.
    #[error("the model's architecture is {found:?}; supported are {supported}")]
    Architecture {
        /// Its name in the file.
        found: String,
        /// Names that would do.
        supported: String,
    },
    /// A model whose parts do not fit one another.
    #[error("the model is inconsistent or of an unknown kind: {0}")]
    Model(String),
    /// The device has too little memory; nothing was loaded.
    #[error(
        "{device} has {free} bytes free, {needed} are needed; take a smaller context, a cache in Q8_0 or \
         another device"
    )]
    Memory {
        /// The device.
        device: String,
        /// Bytes of weights and cache.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A setting of the model's file.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The file's bytes.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// The file's vocabulary, or a text that it cannot tell.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A device refused or failed: memory, a lost device, no driver.
    #[error("{phase}: {error}")]
    Compute {
        /// What was being done.
        phase: Phase,
        /// Why it failed.
        error: tintype_tensor::Error,
    },
    /// NaN or infinity came out: the weights or the device are wrong.
    #[error("{phase} gave NaN or infinity; the weights are damaged, or {device} computes wrongly")]
    Broken {
        /// What was being done.
        phase: Phase,
        /// The device.
        device: String,
    },
    /// The thread ended without a result.
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl TextError {
    /// An error of the tensor crate, met in `phase`; a cancellation is told as one.
    pub(super) fn at(phase: Phase) -> impl Fn(tintype_tensor::Error) -> Self {
        move |error| match error {
            tintype_tensor::Error::Gpu(tintype_gpu::Error::Cancelled) => Self::Cancelled(phase),
            error => Self::Compute { phase, error },
        }
    }
}
