//! Graphs and plans: random graphs against a float64 interpreter and against themselves, in every way
//! a plan can be compiled.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod ordering;
mod random;
mod refusals;
mod runs;
mod states;

use std::time::Duration;

use tintype_gpu::Device;
use tintype_tensor::graph::{Graph, Plan, PlanOptions};

/// Long enough for a software driver on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Compiles, writes every input, runs, and reads every output.
pub(crate) fn run(
    graph: &Graph,
    device: &Device,
    options: PlanOptions,
    inputs: &[(String, Vec<f32>)],
    outputs: &[String],
) -> Vec<Vec<f32>> {
    let mut plan = Plan::compile(graph, device, options).unwrap();
    for (name, data) in inputs {
        plan.write(name, data).unwrap();
    }
    plan.run(&|| false, PATIENCE).unwrap();
    outputs.iter().map(|name| plan.read(name).unwrap()).collect()
}

/// Whether two lists hold the same bits.
pub(crate) fn same_bits(a: &[Vec<f32>], b: &[Vec<f32>]) -> bool {
    let bits = |all: &[Vec<f32>]| -> Vec<Vec<u32>> {
        all.iter().map(|one| one.iter().map(|v| v.to_bits()).collect()).collect()
    };
    bits(a) == bits(b)
}

/// ‖a − b‖ / ‖b‖
pub(crate) fn distance(a: &[f32], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(*a) - b));
    difference / norm(&mut b.iter().copied()).max(1e-30)
}
