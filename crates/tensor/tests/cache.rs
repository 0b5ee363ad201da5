//! Caches of keys and values as language models use them: prompts of several lengths in pieces, then
//! token by token around the ring, slots at their own positions in one replayed plan. Against float64
//! over the whole history, and bit for bit what each slot gives alone.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_gpu::{DType, Device};
use tintype_tensor::Tensor;
use tintype_tensor::graph::{Graph, Plan, PlanOptions};
use tintype_tensor::ops::attention::AttentionOp;

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const D: usize = 32;
/// Tokens of a piece of a prompt, rows of a ring, tokens seen back: a ring must still hold what the
/// first token of a piece sees when the last is written.
const PIECE: usize = 8;
const RING: usize = 24;
const WINDOW: usize = 16;

/// Some slots with their caches, and plans over them for pieces of prompts and for single tokens.
struct Slots {
    count: usize,
    plans: Vec<(usize, Plan)>,
}

impl Slots {
    fn new(device: &Device, dtype: DType, count: usize, adversary: Option<u64>) -> Slots {
        let shape = [count, KV_HEADS, RING, D];
        // What was there before must not matter, as long as it is finite.
        let zeros =
            vec![0u8; dtype.bytes_for(shape.iter().product::<usize>() as u64).unwrap() as usize];
        let cache = || {
            let buffer = device.buffer_from_bytes(dtype, &shape, &zeros).unwrap();
            Tensor::of(&buffer).unwrap()
        };
        let (keys, values) = (cache(), cache());
        let plan = |t: usize| {
            let mut graph = Graph::new();
            let q = graph.input("q", DType::F32, &[count, HEADS, t, D]).unwrap();
            let k = graph.input("k", DType::F32, &[count, KV_HEADS, t, D]).unwrap();
            let v = graph.input("v", DType::F32, &[count, KV_HEADS, t, D]).unwrap();
            let positions = graph.input("positions", DType::I32, &[count, t]).unwrap();
            let lengths = graph.input("lengths", DType::I32, &[count]).unwrap();
            let (keys, values) = (graph.state("keys", &keys), graph.state("values", &values));
            let keys = graph.kv_copy(keys, k, positions).unwrap();
            let values = graph.kv_copy(values, v, positions).unwrap();
            let op = AttentionOp {
                causal: true,
                window: WINDOW,
                q_positions: true,
                lengths: true,
                ..AttentionOp::new(0.4)
            };
            let out = graph.attention(op, [q, keys, values], &[positions, lengths]).unwrap();
            graph.output("out", out).unwrap();
            let options = PlanOptions { adversary, ..PlanOptions::default() };
            (t, Plan::compile(&graph, device, options).unwrap())
        };
        Slots { count, plans: vec![plan(PIECE), plan(1)] }
    }

    /// One call; `calls[slot]` are the slot's new tokens. Returns each slot's outputs, `[t, heads, D]`.
    fn call(&mut self, calls: &[&Tokens]) -> Vec<Vec<f32>> {
        let t = calls[0].t;
        let (_, plan) = self.plans.iter_mut().find(|(own, _)| *own == t).unwrap();
        let all = |of: fn(&Tokens) -> &Vec<f32>| {
            calls.iter().flat_map(|c| of(c).clone()).collect::<Vec<_>>()
        };
        plan.write("q", &all(|c| &c.q)).unwrap();
        plan.write("k", &all(|c| &c.k)).unwrap();
        plan.write("v", &all(|c| &c.v)).unwrap();
        let positions: Vec<i32> = calls.iter().flat_map(|c| c.positions.clone()).collect();
        let lengths: Vec<i32> = calls.iter().map(|c| c.length).collect();
        plan.write("positions", &positions).unwrap();
        plan.write("lengths", &lengths).unwrap();
        plan.run(&|| false, PATIENCE).unwrap();
        let out = plan.read::<f32>("out").unwrap();
        assert_eq!(out.len() / self.count, t * HEADS * D);
        out.chunks_exact(t * HEADS * D).map(<[f32]>::to_vec).collect()
    }
}

/// The tokens that a slot brings to a call: head-major rows, and −1 for places that it does not use.
struct Tokens {
    t: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    positions: Vec<i32>,
    length: i32,
}

impl Tokens {
    fn new(t: usize, used: usize, before: usize, random: &mut fastrand::Rng) -> Tokens {
        let mut rows =
            |heads: usize| (0..heads * t * D).map(|_| random.f32() * 2.0 - 1.0).collect();
        let (q, k, v) = (rows(HEADS), rows(KV_HEADS), rows(KV_HEADS));
        let place = |at: usize| if at < used { (before + at) as i32 } else { -1 };
        Tokens {
            t,
            q,
            k,
            v,
            positions: (0..t).map(place).collect(),
            length: (before + used) as i32,
        }
    }
}

/// A slot's whole history: for each token, keys and values `[head][number]`.
#[derive(Default)]
struct History(Vec<(Vec<f32>, Vec<f32>)>);

impl History {
    fn add(&mut self, tokens: &Tokens) {
        for at in (0..tokens.t).filter(|&at| tokens.positions[at] >= 0) {
            let row = |all: &[f32]| {
                (0..KV_HEADS).flat_map(|h| all[(h * tokens.t + at) * D..][..D].to_vec()).collect()
            };
            self.0.push((row(&tokens.k), row(&tokens.v)));
        }
    }

    /// The call's outputs in float64, 0 for places that are not used.
    fn attend(&self, tokens: &Tokens) -> Vec<f64> {
        let mut out = Vec::new();
        for at in 0..tokens.t {
            for head in 0..HEADS {
                let position = tokens.positions[at];
                let mut sum = vec![0.0; D];
                if position >= 0 {
                    let last = position as usize;
                    let seen = last.saturating_sub(WINDOW - 1)..last + 1;
                    let of = head / (HEADS / KV_HEADS) * D;
                    let q = &tokens.q[(head * tokens.t + at) * D..][..D];
                    let dot = |k: &[f32]| -> f64 {
                        q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum()
                    };
                    let weights: Vec<f64> = self.0[seen.clone()]
                        .iter()
                        .map(|(k, _)| (0.4 * dot(&k[of..][..D])).exp())
                        .collect();
                    let total: f64 = weights.iter().sum();
                    for (weight, (_, v)) in weights.iter().zip(&self.0[seen]) {
                        sum.iter_mut()
                            .zip(&v[of..])
                            .for_each(|(s, v)| *s += weight / total * f64::from(*v));
                    }
                }
                out.extend(sum);
            }
        }
        out
    }
}

fn serve(device: &Device, dtype: DType, tolerance: f64, adversary: Option<u64>) {
    let mut random = fastrand::Rng::with_seed(seed());
    let prompts = [5, 0, 19];
    let mut together = Slots::new(device, dtype, prompts.len(), adversary);
    let mut alone: Vec<Slots> =
        prompts.iter().map(|_| Slots::new(device, dtype, 1, adversary)).collect();
    let mut histories: Vec<History> = prompts.iter().map(|_| History::default()).collect();
    let mut step = |calls: Vec<Tokens>| {
        let outputs = together.call(&calls.iter().collect::<Vec<_>>());
        for (slot, (tokens, output)) in calls.iter().zip(outputs).enumerate() {
            assert_eq!(
                alone[slot].call(&[tokens]).remove(0),
                output,
                "{device:?} {dtype} slot {slot}"
            );
            histories[slot].add(tokens);
            let right = histories[slot].attend(tokens);
            let values: Vec<f64> = output.iter().map(|x| f64::from(*x)).collect();
            if let Err(reason) = compare(&values, &right, 1e-9, tolerance) {
                panic!("{device:?} {dtype} slot {slot} at {}: {reason}", tokens.length);
            }
        }
    };
    let mut done = [0; 3];
    for _ in 0..3 {
        let calls = (0..3).map(|slot| {
            let used = (prompts[slot] - done[slot]).min(PIECE);
            done[slot] += used;
            Tokens::new(PIECE, used, done[slot] - used, &mut random)
        });
        step(calls.collect());
    }
    for token in 0..40 {
        let calls = (0..3).map(|slot| {
            // The second slot joins late; the first leaves.
            let used = usize::from(!(slot == 1 && token < 7 || slot == 0 && token > 33));
            done[slot] += used;
            Tokens::new(1, used, done[slot] - used, &mut random)
        });
        step(calls.collect());
    }
}

#[test]
fn slots_in_rings_are_right_and_give_the_bits_that_each_gives_alone() {
    for device in devices() {
        for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F16, 1e-3), (DType::Q8_0, 1e-2)] {
            serve(&device, dtype, tolerance, None);
        }
    }
}

#[test]
fn a_hostile_order_changes_nothing() {
    let device = cpu(2);
    for seed in 0..4 {
        serve(&device, DType::F16, 1e-3, Some(seed));
        serve(&device, DType::Q8_0, 1e-2, Some(seed));
    }
}

#[test]
fn a_cache_read_before_its_update_is_refused() {
    let device = cpu(1);
    let cache = Tensor::empty(&device, DType::F16, &[1, 1, 4, 8]).unwrap();
    let mut graph = Graph::new();
    let state = graph.state("keys", &cache);
    let row = graph.input("row", DType::F32, &[1, 1, 1, 8]).unwrap();
    let positions = graph.input("positions", DType::I32, &[1]).unwrap();
    graph.kv_copy(state, row, positions).unwrap();
    let out = graph.attention(AttentionOp::new(1.0), [row, state, state], &[]).unwrap();
    graph.output("out", out).unwrap();
    let error = Plan::compile(&graph, &device, PlanOptions::default()).unwrap_err().to_string();
    assert!(error.contains("overwritten by a later update"), "{error}");
}
