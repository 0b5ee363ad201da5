//! What a builder is refused, in words that name the operation, its place and the shapes.

use tintype_gpu::DType;
use tintype_tensor::graph::{Graph, Plan, PlanOptions};

use crate::common;

#[test]
fn shapes_are_refused_where_they_are_written() {
    let mut graph = Graph::new();
    let a = graph.input("a", DType::F32, &[2, 3]).unwrap();
    let b = graph.input("b", DType::F32, &[4, 5]).unwrap();
    let whole = graph.input("n", DType::U32, &[2, 3]).unwrap();
    let error = graph
        .within("block 3", |graph| graph.within("attention", |graph| graph.matmul(a, b)))
        .unwrap_err()
        .to_string();
    for part in ["block 3/attention/matmul", "F32 [2, 3]", "F32 [4, 5]"] {
        assert!(error.contains(part), "{error}");
    }
    for (error, part) in [
        (graph.add(a, b).unwrap_err(), "do not repeat"),
        (graph.add(a, whole).unwrap_err(), "U32 is not one of"),
        (graph.reshape(a, &[4]).unwrap_err(), "another number of elements"),
        (graph.permute(a, &[0, 0]).unwrap_err(), "each axis once"),
        (graph.slice(a, 1, 2..4).unwrap_err(), "2..4 of 3"),
        (graph.chunk(a, 1, 2).map(|_| a).unwrap_err(), "does not divide"),
        (graph.linear(a, b, None).unwrap_err(), "[n, k]"),
        (graph.input("a", DType::F32, &[1]).unwrap_err(), "is there already"),
        (graph.input("q", DType::Q8_0, &[3, 40]).unwrap_err(), "blocks of 32"),
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_value_of_another_graph_is_refused() {
    let mut one = Graph::new();
    let mut other = Graph::new();
    let a = one.input("a", DType::F32, &[2]).unwrap();
    other.input("a", DType::F32, &[2]).unwrap();
    assert!(other.neg(a).unwrap_err().to_string().contains("another graph"));
    assert!(other.output("a", a).is_err());
}

#[test]
fn inputs_and_outputs_are_checked_by_name_type_and_length() {
    let mut graph = Graph::new();
    let a = graph.input("a", DType::F32, &[2]).unwrap();
    graph.output("b", a).unwrap();
    let mut plan = Plan::compile(&graph, &common::cpu(1), PlanOptions::default()).unwrap();
    for (error, part) in [
        (plan.write("x", &[1.0f32]).unwrap_err(), "inputs are a"),
        (plan.write("a", &[1.0f32]).unwrap_err(), "8 bytes; 4 are given"),
        (plan.write("a", &[1u32, 2]).unwrap_err(), "holds F32"),
        (plan.read::<f32>("a").map(|_| ()).unwrap_err(), "outputs are b"),
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}
