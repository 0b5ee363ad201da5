//! Pictures from prompts: requests, progress, cancellation, results. It must not know how a picture is
//! shown or stored, nor the flags of a command.

mod checkpoint;
mod error;
mod files;
mod generate;
mod held;
mod model;
mod parameters;
mod parts;
mod picture;
mod progress;
mod request;

pub use checkpoint::{Checkpoint, SavedGeneration};
pub use error::ImageError;
pub use files::{PictureError, png_parameters, write_whole};
pub use generate::{Generated, ImageResult, Timings};
pub use model::{ImageModel, ImageModelInfo, LoadOptions, ModelSource};
pub use parameters::parameters;
pub use picture::Picture;
pub use progress::{Observer, Phase, Progress};
pub use request::{ImageRequest, Settled};
pub use tintype_registry::{CancelToken, Handle, RegistryError};

/// A request at work on a thread of its own; its reports are [`Progress`].
pub type Generation = crate::background::Background<Progress, ImageResult, ImageError>;
