//! Barriers: the checker accepts a plan's own, refuses the plan without any one of them, and the
//! hostile executor shows what that one was for.

use tintype_gpu::{DType, Ordering};
use tintype_tensor::graph::{Graph, Plan, PlanOptions};

use crate::random::sample;
use crate::{common, run, same_bits};

/// Three branches of a few operations that meet: stages of several operations, memory reused.
fn branches() -> Graph {
    let mut graph = Graph::new();
    let x = graph.input("x", DType::F32, &[40, 40]).unwrap();
    let start = graph.tanh(x).unwrap();
    let mut ends = Vec::new();
    for n in 0..3 {
        let turned = graph.transpose(start).unwrap();
        let product = graph.matmul(start, turned).unwrap();
        let scaled = graph.scale(product, 0.1 + 0.1 * n as f32).unwrap();
        ends.push(graph.matmul(scaled, start).unwrap());
    }
    let sum = graph.add(ends[0], ends[1]).unwrap();
    let sum = graph.add(sum, ends[2]).unwrap();
    let out = graph.matmul(sum, x).unwrap();
    graph.output("out", out).unwrap();
    graph
}

#[test]
fn every_barrier_is_needed_and_together_they_suffice() {
    let device = common::cpu(2);
    let graph = branches();
    let compile = |options| Plan::compile(&graph, &device, options);
    for fuse in [false, true] {
        let checked = PlanOptions { ordering: Ordering::Checked, fuse, ..PlanOptions::default() };
        let plan = compile(checked.clone()).unwrap();
        let barriers = plan.stats().barriers;
        assert!(barriers >= 4, "{}", plan.stats());
        let automatic = PlanOptions { ordering: Ordering::Automatic, ..checked.clone() };
        assert_eq!(compile(automatic).unwrap().stats().barriers, barriers);
        for missing in 0..barriers {
            let options = PlanOptions { without_barrier: Some(missing), ..checked.clone() };
            let refusal = compile(options).unwrap_err().to_string();
            assert!(refusal.contains("hazard"), "barrier {missing}: {refusal}");
        }
    }
}

#[test]
fn the_hostile_executor_shows_each_missing_barrier() {
    let device = common::cpu(1);
    let graph = branches();
    let mut random = fastrand::Rng::with_seed(common::seed());
    let x: Vec<f32> = (0..1600).map(|_| random.f32() - 0.5).collect();
    let inputs = [("x".to_owned(), x)];
    let of = |options| run(&graph, &device, options, &inputs, &["out".to_owned()]);
    let expected = of(PlanOptions::default());
    let unchecked = PlanOptions { ordering: Ordering::Unchecked, ..PlanOptions::default() };
    let barriers = Plan::compile(&graph, &device, unchecked.clone()).unwrap().stats().barriers;
    for seed in 0..8 {
        let options = PlanOptions { adversary: Some(seed), ..unchecked.clone() };
        assert!(same_bits(&of(options), &expected));
    }
    for missing in 0..barriers {
        let shown = (0..8).any(|seed| {
            let options = PlanOptions {
                adversary: Some(seed),
                without_barrier: Some(missing),
                ..unchecked.clone()
            };
            !same_bits(&of(options), &expected)
        });
        assert!(shown, "nothing changes without barrier {missing}");
    }
}

#[test]
fn random_plans_are_accepted_with_their_own_barriers() {
    let seed = common::seed();
    let device = common::cpu(1);
    for n in 0..200 {
        let sample = sample(seed.wrapping_add(n), 25);
        for reuse in [false, true] {
            let options =
                PlanOptions { ordering: Ordering::Checked, reuse, ..PlanOptions::default() };
            if let Err(error) = Plan::compile(&sample.graph, &device, options) {
                panic!("seed {seed} + {n}, reuse {reuse}: {error}");
            }
        }
    }
}
