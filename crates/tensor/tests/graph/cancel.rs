//! Stopping a run: soon, cleanly, and the plan runs again with the same bytes.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tintype_gpu::DType;
use tintype_tensor::graph::{Graph, Plan, PlanOptions};

use crate::{PATIENCE, common};

/// A second or so of products in a row.
fn long(operations: usize) -> Graph {
    let mut graph = Graph::new();
    let x = graph.input("x", DType::F32, &[512, 512]).unwrap();
    let mut y = x;
    for _ in 0..operations {
        y = graph.matmul(y, x).unwrap();
        y = graph.scale(y, 0.05).unwrap();
    }
    graph.output("y", y).unwrap();
    graph
}

#[test]
fn a_stop_is_obeyed_within_milliseconds_and_the_plan_runs_again() {
    let device = common::cpu(2);
    for segment_dispatches in [512, 4] {
        let options = PlanOptions { segment_dispatches, ..PlanOptions::default() };
        let mut plan = Plan::compile(&long(60), &device, options).unwrap();
        let mut random = fastrand::Rng::with_seed(3);
        let x: Vec<f32> = (0..512 * 512).map(|_| random.f32() - 0.5).collect();
        plan.write("x", &x).unwrap();
        plan.run(&|| false, PATIENCE).unwrap();
        let expected = plan.read::<f32>("y").unwrap();
        for patience in [0, 15, 60] {
            let began = Instant::now();
            let asked = Cell::new(None);
            let stop = || {
                let now = began.elapsed() >= Duration::from_millis(patience);
                if now && asked.get().is_none() {
                    asked.set(Some(Instant::now()));
                }
                now
            };
            let error = plan.run(&stop, PATIENCE).unwrap_err();
            assert!(error.to_string().contains("cancelled"), "{error}");
            let late = asked.get().unwrap().elapsed();
            assert!(late < Duration::from_millis(250), "{late:?} after it was asked to stop");
            assert!(plan.read::<f32>("y").is_err());
        }
        plan.run(&|| false, PATIENCE).unwrap();
        assert_eq!(plan.read::<f32>("y").unwrap(), expected);
    }
}

#[test]
fn a_run_that_takes_too_long_ends_with_an_error() {
    let mut plan = Plan::compile(&long(60), &common::cpu(1), PlanOptions::default()).unwrap();
    let error = plan.run(&|| false, Duration::from_millis(10)).unwrap_err();
    assert!(error.to_string().contains("had not completed"), "{error}");
}
