//! A batch gives each of its members the bits that the member has alone: products (dense, quantized;
//! mat-vec and tiles), convolutions, attention, norms, on every device. The batch is the leading axes.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_gpu::{DType, Device};
use tintype_tensor::graph::{Graph, Plan, PlanOptions, Value};
use tintype_tensor::ops::attention::AttentionOp;
use tintype_tensor::ops::conv::Conv;
use tintype_tensor::ops::pointwise::Unary;
use tintype_tensor::{Result, Tensor, quant};

/// Builds on inputs whose first axis is the batch; returns the output.
type Build<'a> = &'a dyn Fn(&mut Graph, &[Value]) -> Result<Value>;

/// The bits of `build`'s output for `data`, whose first axis is the batch.
fn run(
    device: &Device,
    build: Build<'_>,
    members: &[Vec<usize>],
    dtype: DType,
    data: &[Vec<f32>],
) -> Vec<u32> {
    let batch = data[0].len() / members[0].iter().product::<usize>();
    let mut graph = Graph::new();
    let mut inputs = Vec::new();
    for (n, member) in members.iter().enumerate() {
        let shape = [&[batch], &member[..]].concat();
        let x = graph.input(&format!("x{n}"), DType::F32, &shape).unwrap();
        inputs.push(if dtype == DType::F32 { x } else { graph.cast(x, dtype).unwrap() });
    }
    let y = build(&mut graph, &inputs).unwrap();
    let y = graph.cast(y, DType::F32).unwrap();
    graph.output("y", y).unwrap();
    let mut plan = Plan::compile(&graph, device, PlanOptions::default()).unwrap();
    for (n, data) in data.iter().enumerate() {
        plan.write(&format!("x{n}"), data).unwrap();
    }
    plan.run(&|| false, PATIENCE).unwrap();
    plan.read::<f32>("y").unwrap().iter().map(|v| v.to_bits()).collect()
}

/// Runs batches of several sizes and every member of the largest alone.
fn check(
    what: &str,
    device: &Device,
    random: &mut fastrand::Rng,
    dtype: DType,
    members: &[&[usize]],
    batches: &[usize],
    build: Build<'_>,
) {
    let members: Vec<Vec<usize>> = members.iter().map(|member| member.to_vec()).collect();
    let most = *batches.iter().max().unwrap();
    let data: Vec<Vec<f32>> = members
        .iter()
        .map(|m| (0..most * m.iter().product::<usize>()).map(|_| random.f32() - 0.5).collect())
        .collect();
    let part = |range: std::ops::Range<usize>| -> Vec<Vec<f32>> {
        let each = data.iter().map(|data| data.len() / most);
        data.iter()
            .zip(each)
            .map(|(data, n)| data[range.start * n..range.end * n].to_vec())
            .collect()
    };
    let alone: Vec<Vec<u32>> =
        (0..most).map(|at| run(device, build, &members, dtype, &part(at..at + 1))).collect();
    for &batch in batches {
        let together = run(device, build, &members, dtype, &part(0..batch));
        let differs = together.chunks_exact(together.len() / batch).zip(&alone);
        let differs: Vec<_> =
            differs.map(|(a, b)| a.iter().zip(b).filter(|(a, b)| a != b).count()).collect();
        assert!(
            differs.iter().all(|n| *n == 0),
            "{device:?} {what} {dtype} batch {batch} of {members:?}: elements that differ {differs:?}"
        );
    }
}

fn weights(device: &Device, dtype: DType, shape: &[usize], random: &mut fastrand::Rng) -> Tensor {
    let count = shape.iter().product();
    let bytes: Vec<u8> = match dtype {
        DType::F32 => (0..count).flat_map(|_| (random.f32() - 0.5).to_le_bytes()).collect(),
        DType::F16 => {
            (0..count).flat_map(|_| half::f16::from_f32(random.f32() - 0.5).to_le_bytes()).collect()
        }
        _ => random_blocks(dtype, count, random),
    };
    Tensor::of(&device.buffer_from_bytes(dtype, shape, &bytes).unwrap()).unwrap()
}

/// Tokens a member: mat-vec, its last, tiles, several CPU tiles with a rest of one.
const TOKENS: [usize; 7] = [1, 3, 9, 16, 17, 70, 257];

#[test]
fn dense_products() {
    let mut random = fastrand::Rng::with_seed(seed());
    for device in devices() {
        for (x, w) in [(DType::F32, DType::F32), (DType::F32, DType::F16), (DType::F16, DType::F16)]
        {
            // Shallow and deep: the CPU multiplies them in two ways.
            for (n, k) in [(70, 48), (33, 600)] {
                let w = weights(&device, w, &[n, k], &mut random);
                for tokens in TOKENS {
                    let batches: &[usize] = if tokens == 1 { &[2, 7, 20] } else { &[2, 5] };
                    check("linear", &device, &mut random, x, &[&[tokens, k]], batches, &|g, x| {
                        let w = g.weight("w", &w);
                        g.linear(x[0], w, None)
                    });
                }
            }
            for tokens in TOKENS {
                check(
                    "matmul",
                    &device,
                    &mut random,
                    x,
                    &[&[tokens, 40], &[40, 33]],
                    &[2, 5],
                    &|g, x| g.matmul(x[0], x[1]),
                );
                check(
                    "q·kᵀ",
                    &device,
                    &mut random,
                    x,
                    &[&[2, tokens, 40], &[2, 33, 40]],
                    &[3],
                    &|g, x| {
                        let k = g.transpose(x[1])?;
                        g.matmul(x[0], k)
                    },
                );
            }
        }
    }
}

#[test]
fn quantized_products() {
    let mut random = fastrand::Rng::with_seed(seed());
    for device in devices() {
        for dtype in quant::TYPES {
            let k = 2 * dtype.block_elements() as usize;
            let w = weights(&device, dtype, &[37, k], &mut random);
            for tokens in [1, 9, 40] {
                let batches: &[usize] = if tokens == 1 { &[2, 7, 20] } else { &[3] };
                check(
                    "linear",
                    &device,
                    &mut random,
                    DType::F32,
                    &[&[tokens, k]],
                    batches,
                    &|g, x| {
                        let w = g.weight("w", &w);
                        g.linear(x[0], w, None)
                    },
                );
            }
        }
    }
}

#[test]
fn convolutions() {
    let mut random = fastrand::Rng::with_seed(seed());
    let plain = Conv { activation: Unary::Silu, ..Conv::default() };
    let same = |n: usize| [[n, n], [n, n]];
    for device in devices() {
        for (o, c, size, taps, conv) in [
            (130, 40, [20, 24], 3, Conv { padding: same(1), ..plain }),
            (48, 33, [17, 9], 3, Conv { padding: same(1), stride: [2, 2], ..plain }),
            (64, 70, [31, 33], 1, plain),
            (12, 12, [30, 50], 5, Conv { padding: same(2), groups: 12, ..plain }),
            (3, 16, [64, 70], 3, Conv { padding: same(1), ..plain }),
        ] {
            for dtype in [DType::F32, DType::F16] {
                let w = weights(&device, dtype, &[o, c / conv.groups, taps, taps], &mut random);
                let bias = weights(&device, dtype, &[o], &mut random);
                check(
                    "conv2d",
                    &device,
                    &mut random,
                    dtype,
                    &[&[c, size[0], size[1]]],
                    &[2, 5],
                    &|g, x| {
                        let (w, bias) = (g.weight("w", &w), g.weight("bias", &bias));
                        g.conv2d(x[0], w, Some(bias), conv)
                    },
                );
            }
        }
        let w = weights(&device, DType::F32, &[20, 24, 4, 4], &mut random);
        let conv = Conv { padding: same(1), stride: [2, 2], ..Conv::default() };
        check(
            "conv_transpose2d",
            &device,
            &mut random,
            DType::F32,
            &[&[20, 13, 15]],
            &[3],
            &|g, x| {
                let w = g.weight("w", &w);
                g.conv_transpose2d(x[0], w, None, conv, [0, 0])
            },
        );
    }
}

#[test]
fn attention_and_norms() {
    let mut random = fastrand::Rng::with_seed(seed());
    for device in devices() {
        for (tokens, keys) in [(1, 300), (3, 40), (9, 700), (70, 77), (200, 90)] {
            for causal in [false, true] {
                let op = AttentionOp { causal, ..AttentionOp::new(0.2) };
                let members: &[&[usize]] = &[&[4, tokens, 40], &[2, keys, 40], &[2, keys, 40]];
                check("attention", &device, &mut random, DType::F32, members, &[2, 5], &|g, x| {
                    g.attention(op, [x[0], x[1], x[2]], &[])
                });
            }
        }
        for n in [40, 1200] {
            let gain = weights(&device, DType::F32, &[n], &mut random);
            check("rms_norm", &device, &mut random, DType::F32, &[&[3, n]], &[2, 5], &|g, x| {
                let gain = g.weight("gain", &gain);
                g.rms_norm(x[0], Some(gain), 0.0, 1e-6)
            });
        }
    }
}
