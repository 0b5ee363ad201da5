//! States: memory that outlives runs and is updated in place; the order of reads around an update.

use std::time::Duration;

use tintype_gpu::{DType, Session};
use tintype_tensor::graph::{Graph, Meta, Op, Plan, PlanOptions, Value};
use tintype_tensor::ops::copy::copy;
use tintype_tensor::{Result, Tensor};

use crate::common;

/// Writes `rows` into a cache at a fixed place; the cache changes.
#[derive(Debug)]
struct Put {
    at: usize,
}

impl Op for Put {
    fn name(&self) -> &'static str {
        "put"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        Ok(vec![inputs[0].clone()])
    }

    fn updates(&self) -> &[(usize, usize)] {
        &[(0, 0)]
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        assert!(outputs[0].is_same_view(&inputs[0]));
        let rows = inputs[1].shape()[0];
        copy(session, &inputs[1], &outputs[0].slice(0, self.at..self.at + rows)?)
    }
}

fn cache(device: &tintype_gpu::Device, values: &[f32]) -> Tensor {
    Tensor::of(&device.buffer_from(&[values.len(), 1], values).unwrap()).unwrap()
}

fn put(graph: &mut Graph, cache: Value, rows: Value, at: usize) -> Value {
    graph.apply(Put { at }, &[cache, rows]).unwrap()
}

#[test]
fn a_state_keeps_its_updates_between_runs() {
    let device = common::cpu(2);
    for adversary in [None, Some(1), Some(2), Some(3)] {
        let tensor = cache(&device, &[1.0, 2.0, 3.0, 4.0]);
        let mut graph = Graph::new();
        let state = graph.state("cache", &tensor);
        // Read before the update, by an operation that is written down after other work.
        let before = graph.scale(state, 10.0).unwrap();
        let shifted = graph.slice(before, 0, 0..2).unwrap();
        let row = graph.slice(shifted, 0, 0..1).unwrap();
        let row = graph.affine(row, 1.0, 0.5).unwrap();
        let after = put(&mut graph, state, row, 3);
        let sum = graph.add(after, before).unwrap();
        graph.output("sum", sum).unwrap();
        let options = PlanOptions { adversary, ..PlanOptions::default() };
        let mut plan = Plan::compile(&graph, &device, options).unwrap();
        plan.run(&|| false, Duration::from_secs(20)).unwrap();
        assert_eq!(plan.read::<f32>("sum").unwrap(), [11.0, 22.0, 33.0, 50.5]);
        plan.run(&|| false, Duration::from_secs(20)).unwrap();
        assert_eq!(plan.read::<f32>("sum").unwrap(), [11.0, 22.0, 33.0, 115.5]);
        let done = device.idle(Duration::from_secs(20)).unwrap();
        assert_eq!(done.read::<f32>(tensor.buffer()).unwrap(), [1.0, 2.0, 3.0, 10.5]);
    }
}

#[test]
fn an_update_that_nobody_reads_still_happens() {
    let device = common::cpu(1);
    let tensor = cache(&device, &[1.0, 2.0]);
    let mut graph = Graph::new();
    let state = graph.state("cache", &tensor);
    let row = graph.input("row", DType::F32, &[1, 1]).unwrap();
    put(&mut graph, state, row, 1);
    let mut plan = Plan::compile(&graph, &device, PlanOptions::default()).unwrap();
    plan.write("row", &[7.0f32]).unwrap();
    plan.run(&|| false, Duration::from_secs(20)).unwrap();
    let done = device.idle(Duration::from_secs(20)).unwrap();
    assert_eq!(done.read::<f32>(tensor.buffer()).unwrap(), [1.0, 7.0]);
}

#[test]
fn reading_what_an_update_has_overwritten_is_refused() {
    let device = common::cpu(1);
    let mut graph = Graph::new();
    let state = graph.state("cache", &cache(&device, &[1.0, 2.0]));
    let row = graph.input("row", DType::F32, &[1, 1]).unwrap();
    put(&mut graph, state, row, 1);
    let stale = graph.scale(state, 2.0).unwrap();
    graph.output("stale", stale).unwrap();
    let error = Plan::compile(&graph, &device, PlanOptions::default()).unwrap_err();
    assert!(error.to_string().contains("overwritten by a later update"), "{error}");
}

#[test]
fn updating_a_weight_is_refused() {
    let device = common::cpu(1);
    let mut graph = Graph::new();
    let weight = graph.weight("w", &cache(&device, &[1.0, 2.0]));
    let row = graph.input("row", DType::F32, &[1, 1]).unwrap();
    let changed = put(&mut graph, weight, row, 1);
    graph.output("w", changed).unwrap();
    let error = Plan::compile(&graph, &device, PlanOptions::default()).unwrap_err();
    assert!(error.to_string().contains("only states and results"), "{error}");
}
