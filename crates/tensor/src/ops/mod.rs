//! The operations, a folder each, and the one list of them that tests, benchmarks and the generated
//! table iterate. Each records into a session; none allocates or waits.

pub mod argmax;
pub mod attention;
pub mod case;
pub mod chain;
pub mod concat;
pub mod conv;
pub mod copy;
pub mod cumsum;
pub mod embedding;
pub mod expert_matmul;
pub mod fill;
pub mod gather;
pub mod kv_copy;
pub mod matmul;
pub mod norm;
pub mod pad;
pub mod pointwise;
pub mod quant_matmul;
pub mod reduce;
pub mod resize;
pub mod rope;
pub mod sample;
pub mod sinusoid;
pub mod softcap;
pub mod softmax;
pub mod top_k;

mod blocks;
mod keys;
mod rows;
mod walked;

use case::{Case, Variant};

/// An operation as the list names it.
pub struct Operation {
    /// Name of its folder.
    pub name: &'static str,
    /// What it computes, in one line.
    pub summary: &'static str,
    /// Small cases of every type and odd shape, for tests.
    pub cases: fn() -> Vec<Case>,
    /// The shapes of real models, for benchmarks.
    pub benches: fn() -> Vec<Case>,
    /// Every kernel in every variation that a device may be given.
    pub kernels: fn() -> Vec<Variant>,
}

/// Every operation.
pub const OPERATIONS: &[Operation] = &[
    fill::OPERATION,
    copy::OPERATION,
    pointwise::OPERATION,
    softcap::OPERATION,
    chain::OPERATION,
    matmul::OPERATION,
    quant_matmul::OPERATION,
    expert_matmul::OPERATION,
    reduce::OPERATION,
    norm::OPERATION,
    conv::OPERATION,
    resize::OPERATION,
    concat::OPERATION,
    pad::OPERATION,
    softmax::OPERATION,
    attention::OPERATION,
    embedding::OPERATION,
    kv_copy::OPERATION,
    gather::OPERATION,
    argmax::OPERATION,
    top_k::OPERATION,
    sample::OPERATION,
    cumsum::OPERATION,
    rope::OPERATION,
    sinusoid::OPERATION,
];
