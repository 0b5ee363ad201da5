//! Live objects, calls in flight, cancellation, and teardown at process exit.
#![doc = include_str!("../README.md")]

mod call;
mod cancel;
mod entry;
mod error;
mod global;
mod handle;
pub mod hooks;
#[cfg(test)]
#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod owned;
mod registry;
#[cfg(test)]
#[cfg(not(loom))]
mod rules;
mod state;
mod sync;
mod teardown;

pub use call::{Call, Use};
pub use cancel::{CancelToken, Cancelled};
pub use entry::{FreeFn, Stage, Tracked};
pub use error::{CreateError, RegistryError};
pub use handle::Handle;
#[cfg(not(loom))]
pub use owned::Owned;
pub use registry::Registry;
pub use state::{Kind, Waits};
pub use teardown::Teardown;

/// Under loom: what a thread that never returns unwinds with, out of its model.
#[cfg(loom)]
#[derive(Debug)]
pub struct NeverReturned;
