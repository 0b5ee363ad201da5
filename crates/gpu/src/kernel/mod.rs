//! Kernels: WGSL sources, what reflection says of them, translation, and the registry that compiles
//! each once. It must not know what a kernel is for.

mod correct;
mod disk;
mod halves;
mod parse;
mod reflect;
mod registry;
mod translate;

pub use correct::correct;
pub use disk::DiskCache;
pub use halves::halves;
pub use parse::{Parsed, parse};
pub use reflect::{Reflection, Slot};
pub use registry::Kernel;
pub(crate) use registry::Registry;
pub use translate::{CoopMatrix, msl, spirv};

pub use crate::backend::cpu::{Rows, Unit, UnitError};

/// The CPU implementation of a kernel: computes one unit of a dispatch.
pub type CpuFn = fn(&mut Unit<'_>) -> std::result::Result<(), UnitError>;

/// A kernel as its author writes it. Cheap to copy and buildable in a `const`.
///
/// The WGSL file parses alone. It varies in two ways only:
/// - **aliases**: a line `alias T = f32;` at the start of a line names a type that a variation
///   replaces (`("T", "f16")`); naming an alias that the file does not declare is an error;
/// - **overrides**: `override TILE: u32 = 64u;` given by value with each request.
///
/// Storage buffers are `@group(0) @binding(0..n)` without gaps; small parameters are one
/// `var<immediate>` struct.
#[derive(Debug, Clone, Copy)]
pub struct KernelSource {
    /// Name, for errors, debuggers and timings; unique within the project.
    pub name: &'static str,
    /// The WGSL text.
    pub wgsl: &'static str,
    /// Entry point.
    pub entry: &'static str,
    /// Type aliases to replace: (alias, type).
    pub aliases: &'static [(&'static str, &'static str)],
    /// What the CPU backend runs instead of the WGSL.
    pub cpu: CpuFn,
}
