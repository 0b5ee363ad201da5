//! Conversion: from any format read here to GGUF or safetensors, quantizing on the way.
//! It must not know how progress is shown. Plan first (`plan.rs`), then write (`write.rs`).
//!
//! Memory: one chunk of 2^20 values and its encoding at a time (two while verifying), less than any
//! large tensor. The file appears under its name when it is complete.

mod metadata;
mod plan;
mod verify;
mod write;

pub use plan::{Item, Plan, plan};
pub use verify::Check;
pub use write::{Phase, Progress, Report, Watch, convert};

use regex::Regex;

use crate::DType;

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// GGUF version 3.
    Gguf,
    /// One safetensors file.
    Safetensors,
}

impl Target {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gguf => "GGUF",
            Self::Safetensors => "safetensors",
        }
    }
}

/// A type for the tensors whose names a pattern matches.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Searched for anywhere in the name; anchor it with `^` and `$`.
    pub pattern: Regex,
    /// What those tensors become.
    pub dtype: DType,
}

/// What to make of the tensors.
#[derive(Debug, Clone, Default)]
pub struct Recipe {
    /// The first rule that matches a tensor's name decides.
    pub rules: Vec<Rule>,
    /// What tensors of two or more dimensions become where no rule matches; `None` keeps them.
    pub dtype: Option<DType>,
    /// The architecture to write into GGUF metadata, where it is not in the source.
    pub architecture: Option<String>,
    /// Read the file back and compare every tensor before it gets its name.
    pub verify: bool,
}

/// The encodable type of a name like `q8_0`, `Q4_K` or `bf16`.
pub fn parse_dtype(name: &str) -> Result<DType, String> {
    let found = crate::quant::ENCODABLE.iter().find(|d| d.name().eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let names: Vec<_> = crate::quant::ENCODABLE.iter().map(|d| d.name()).collect();
        format!("{name:?} is no type that can be written; choose one of {}", names.join(", "))
    })
}
