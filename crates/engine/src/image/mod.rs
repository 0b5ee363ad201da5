//! Pictures from prompts: requests, progress, cancellation, results. It must not know how a picture is
//! shown or stored, nor the flags of a command.

mod error;
mod files;
mod generate;
mod model;
mod parameters;
mod picture;
mod progress;
mod request;

pub use error::ImageError;
pub use files::{PictureError, png_parameters, write_whole};
pub use generate::{Generated, Generation, ImageResult, Timings};
pub use model::{ImageModel, ImageModelInfo, LoadOptions};
pub use parameters::parameters;
pub use picture::Picture;
pub use progress::{Phase, Progress};
pub use request::{ImageRequest, Settled};
pub use tintype_registry::CancelToken;
