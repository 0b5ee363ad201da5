//! What can go wrong on the way to a picture, in words a user can act on.

use super::progress::Phase;
use crate::background::Lost;
use crate::families::SettingError;
use crate::sampling::SamplingError;
use crate::tokenizer::TokenizerError;
use crate::weights::WeightError;

/// Why a model was not opened or a picture not made. Nothing is left behind by any of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The work was asked to stop.
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
    /// A file that holds no image model of a family that is supported.
    #[error(
        "no image model: {0}; supported are GGUF files with a T5 encoder, a PixArt transformer and a \
         TAESD-shaped autoencoder, such as the built-in \"pocket\""
    )]
    Unsupported(String),
    /// A model whose parts do not fit one another.
    #[error("the model is inconsistent: {0}")]
    Model(String),
    /// A setting of the model's file.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A saved generation that cannot go on.
    #[error("no checkpoint of a picture: {0}")]
    Checkpoint(String),
    /// The file's bytes.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// The file's vocabulary.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// Noise levels and samplers.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A device refused or failed: memory, a lost device, no driver.
    #[error("{phase}: {error}")]
    Compute {
        /// What was being done.
        phase: Phase,
        /// Why it failed.
        error: tintype_tensor::Error,
    },
    /// NaN or infinity came out, or every number is the same: the weights or the device are wrong.
    #[error("{phase} gave {found}; the weights are damaged, or {device} computes wrongly")]
    Broken {
        /// What was being done.
        phase: Phase,
        /// What came out.
        found: &'static str,
        /// The device.
        device: String,
    },
    /// The model was freed, or the process is ending.
    #[error("the model cannot be used: {0}")]
    Registry(#[from] tintype_registry::RegistryError),
    /// The thread that generated ended without a result.
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl ImageError {
    /// An error of the tensor crate, met in `phase`; a cancellation is told as one.
    pub(crate) fn at(phase: Phase) -> impl Fn(tintype_tensor::Error) -> Self {
        move |error| match error {
            tintype_tensor::Error::Gpu(tintype_gpu::Error::Cancelled) => Self::Cancelled(phase),
            error => Self::Compute { phase, error },
        }
    }

    pub(crate) fn request(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Request { what, reason: reason.into() }
    }
}
