//! GGUF, versions 2 and 3. It must not know what metadata keys mean, but for the alignment.
//! Source: docs/gguf.md of ggml; type numbers as Python `gguf` 0.19 and ggml.h list them.

mod read;
mod types;
mod write;

pub(crate) use read::read;
pub(crate) use types::id_of;
pub(crate) use write::{DIMENSIONS, header};

/// Bytes that tensor data is aligned to where a file does not say otherwise.
const ALIGNMENT: u64 = 32;
/// The key by which a file says otherwise.
const ALIGNMENT_KEY: &str = "general.alignment";
