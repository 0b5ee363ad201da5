//! Fusion: passes that rewrite a graph into one that computes the same with fewer operations. Each
//! is a pure function of the graph, checked by the verifier and shown equal in tests.

mod norm;
mod pointwise;

use tintype_gpu::Device;

use super::build::Graph;
use crate::error::Result;

/// A pass: its name, and the rewriting, which tells how often it found its pattern.
pub(crate) struct FusionPass {
    pub(crate) name: &'static str,
    pub(crate) rewrite: fn(&mut Graph, &Device) -> Result<usize>,
}

/// Every pass, in the order in which they run.
pub(crate) const PASSES: &[FusionPass] = &[
    FusionPass { name: "sums with norms", rewrite: norm::rewrite },
    FusionPass { name: "pointwise chains", rewrite: pointwise::rewrite },
];
