//! Model families, a network a file, under the names of their checkpoints: each reads its settings,
//! and writes itself as a graph. They must not know pipelines, samplers or files.

pub(crate) mod autoencoder_tiny;
pub(crate) mod llm;
pub(crate) mod pixart;
mod settings;
pub(crate) mod t5;

pub use settings::SettingError;
pub(crate) use settings::Settings;
