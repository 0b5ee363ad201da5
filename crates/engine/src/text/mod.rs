//! Texts that go on: language models, requests, streaming, cancellation. It must not know how text is
//! shown, nor the flags of a command.

mod choose;
mod core;
mod error;
mod generate;
mod model;
mod progress;
mod request;
mod stop;
#[cfg(test)]
mod tests;

pub use error::TextError;
pub use generate::{Finish, TextResult, TextToken, Timings};
pub use model::{CacheType, TextModel, TextModelInfo, TextOptions};
pub use progress::{Event, Observer, Phase, Progress};
pub use request::TextRequest;
pub use tintype_registry::CancelToken;

/// A request at work on a thread of its own; its reports are [`Event`]s.
pub type Generation = crate::background::Background<Event, TextResult, TextError>;
