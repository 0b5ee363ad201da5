//! What a plan gives does not depend on how it was compiled or how often it ran.

use tintype_gpu::{DType, Ordering};
use tintype_tensor::graph::{Graph, Plan, PlanOptions};

use crate::random::sample;
use crate::{PATIENCE, common, distance, run, same_bits};

fn plain() -> PlanOptions {
    PlanOptions { fuse: false, reuse: false, ..PlanOptions::default() }
}

#[test]
fn random_graphs_equal_the_float64_interpreter_on_every_device() {
    let seed = common::seed();
    for device in common::devices() {
        for n in 0..60 {
            let sample = sample(seed.wrapping_add(n), 30);
            let options = PlanOptions::default();
            let results = run(&sample.graph, &device, options, &sample.inputs, &sample.outputs);
            for (result, exact) in results.iter().zip(&sample.exact) {
                let error = distance(result, &exact.data);
                assert!(error < 3e-5, "seed {seed} + {n} on {device:?}: {error:e}");
            }
        }
    }
}

#[test]
fn memory_reuse_threads_and_hostile_orders_change_no_bit() {
    let seed = common::seed();
    let (one, three) = (common::cpu(1), common::cpu(3));
    let mut reused = 0;
    for n in 0..40 {
        let sample = sample(seed.wrapping_add(n), 40);
        let of =
            |device, options| run(&sample.graph, device, options, &sample.inputs, &sample.outputs);
        let expected = of(&one, plain());
        let plan = Plan::compile(
            &sample.graph,
            &one,
            PlanOptions { fuse: false, ..PlanOptions::default() },
        );
        reused += plan.unwrap().stats().in_place;
        let fused = of(&one, PlanOptions::default());
        for (a, b) in expected.iter().zip(&fused) {
            let b: Vec<f64> = b.iter().map(|v| f64::from(*v)).collect();
            assert!(distance(a, &b) < 1e-5, "seed {seed} + {n}: fusion");
        }
        for (expected, fuse) in [(&expected, false), (&fused, true)] {
            let base = PlanOptions { fuse, ..PlanOptions::default() };
            assert!(same_bits(expected, &of(&three, base.clone())), "seed {seed} + {n}: threads");
            let checked = PlanOptions { ordering: Ordering::Checked, ..base.clone() };
            assert!(same_bits(expected, &of(&three, checked)), "seed {seed} + {n}: checked");
            let short = PlanOptions { segment_dispatches: 3, ..base.clone() };
            assert!(same_bits(expected, &of(&three, short)), "seed {seed} + {n}: segments");
            for hostile in 0..4 {
                let options = PlanOptions { adversary: Some(seed ^ hostile), ..base.clone() };
                assert!(
                    same_bits(expected, &of(&one, options)),
                    "seed {seed} + {n}: hostile {hostile}"
                );
            }
        }
    }
    assert!(reused > 0, "no graph of the sample reused memory");
}

#[test]
fn a_plan_replays_with_new_inputs() {
    let mut graph = Graph::new();
    let x = graph.input("x", DType::F32, &[3]).unwrap();
    let y = graph.input("y", DType::F32, &[3]).unwrap();
    let sum = graph.add(x, y).unwrap();
    let twice = graph.scale(sum, 2.0).unwrap();
    graph.output("twice", twice).unwrap();
    graph.output("x again", x).unwrap();
    let mut plan = Plan::compile(&graph, &common::cpu(2), PlanOptions::default()).unwrap();
    assert!(plan.read::<f32>("twice").unwrap_err().to_string().contains("has not run"));
    plan.write("y", &[10.0f32, 20.0, 30.0]).unwrap();
    for n in 0..5 {
        // y keeps what was written once.
        plan.write("x", &[n as f32, 1.0, 2.0]).unwrap();
        plan.run(&|| false, PATIENCE).unwrap();
        assert_eq!(plan.read::<f32>("twice").unwrap(), [2.0 * (n as f32 + 10.0), 42.0, 64.0]);
        assert_eq!(plan.read::<f32>("x again").unwrap(), [n as f32, 1.0, 2.0]);
    }
}

#[test]
fn quantized_weights_are_weights_of_a_graph() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    let (vocabulary, k, tokens) = (19, 512, 5);
    for device in common::devices() {
        for dtype in tintype_tensor::quant::TYPES {
            let blocks = common::random_blocks(dtype, vocabulary * k, &mut random);
            let exact = tintype_tensor::quant::reference::decode(dtype, &blocks).unwrap();
            let w = device.buffer_from_bytes(dtype, &[vocabulary, k], &blocks).unwrap();
            let w = tintype_tensor::Tensor::of(&w).unwrap();
            // A tied head: rows of the table by id, then their products with all of its rows.
            let mut graph = Graph::new();
            let ids = graph.input("ids", DType::I32, &[1, tokens]).unwrap();
            let table = graph.weight("table", &w);
            let x = graph.embedding(table, ids, 8.0, DType::F32).unwrap();
            let logits = graph.linear(x, table, None).unwrap();
            graph.output("logits", logits).unwrap();
            let mut plan = Plan::compile(&graph, &device, PlanOptions::default()).unwrap();
            let ids: Vec<i32> = (0..tokens).map(|_| random.i32(0..vocabulary as i32)).collect();
            plan.write("ids", &ids).unwrap();
            plan.run(&|| false, PATIENCE).unwrap();
            let row = |at: usize| &exact[at * k..][..k];
            let product = |id: i32, at: usize| -> f64 {
                row(id as usize).iter().zip(row(at)).map(|(a, b)| 8.0 * a * b).sum()
            };
            let right: Vec<f64> = ids
                .iter()
                .flat_map(|&id| (0..vocabulary).map(move |at| (id, at)))
                .map(|(id, at)| product(id, at))
                .collect();
            let error = distance(&plan.read::<f32>("logits").unwrap(), &right);
            assert!(error < 1e-5, "{device:?} {dtype}: {error:e}");
        }
    }
}
