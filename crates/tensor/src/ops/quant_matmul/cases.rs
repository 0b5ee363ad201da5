//! Quantized products: every block type, block counts, row counts and vector counts at all edges,
//! types of activations, views.

use tintype_gpu::DType;

use super::{quant_matmul, reference};
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, Operand};
use crate::quant::TYPES;

fn product(
    dtype: DType,
    [rows, k]: [usize; 2],
    m: Option<usize>,
    [x, out]: [DType; 2],
    layout: Layout,
) -> Case {
    let shape = |n: usize| m.map_or(vec![n], |m| vec![m, n]);
    Case::new(
        "quant_matmul",
        vec![Operand::new(dtype, &[rows, k]), Operand::new(x, &shape(k)).laid(layout)],
        Operand::new(out, &shape(rows)).laid(layout),
        |session, inputs, out| quant_matmul(session, &inputs[0], &inputs[1], out),
        |inputs| reference::matmul(&inputs[0], &inputs[1]),
    )
    .spread(|inputs| reference::spread(&inputs[0], &inputs[1]))
    .sample(|inputs, at| reference::one(&inputs[0], &inputs[1], at))
    .flops(2.0 * (rows * k * m.unwrap_or(1)) as f64)
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let f = [DType::F32; 2];
    let dense = Layout::Dense;
    for dtype in TYPES {
        let block = dtype.block_elements() as usize;
        for (rows, blocks) in [(1, 1), (2, 13), (63, 5), (65, 8), (257, 3)] {
            all.push(product(dtype, [rows, blocks * block], None, f, dense));
        }
        for m in [1, 2, 5, 8, 15, 17, 33, 70] {
            all.push(product(dtype, [67, 3 * block], Some(m), f, dense));
        }
        for m in [3, 20] {
            all.push(product(dtype, [67, 2 * block], Some(m), f, Layout::Padded(5)));
            all.push(product(dtype, [33, 4 * block], Some(m), f, Layout::Offset(3)));
        }
        for m in [1, 37] {
            let h = DType::F16;
            all.push(product(dtype, [41, 2 * block], Some(m), [h, h], dense));
        }
    }
    // Every mix of activation types.
    for x in NUMBERS.map(|number| number.dtype()) {
        for out in NUMBERS.map(|number| number.dtype()) {
            for (dtype, k, m) in [(DType::Q4_0, 96, 3), (DType::Q4K, 512, 1), (DType::Q5_1, 64, 35)]
            {
                all.push(product(dtype, [41, k], Some(m), [x, out], dense));
            }
        }
    }
    for dtype in [DType::Q8_0, DType::Q6K] {
        let block = dtype.block_elements() as usize;
        all.push(product(dtype, [9001, 2 * block], Some(3), f, dense));
        all.push(product(dtype, [130, 5 * block], Some(260), f, dense));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let mut all = Vec::new();
    let f = [DType::F32; 2];
    // Mat-vec: the head of Gemma 270M, and a feed-forward matrix of a 4B model.
    for dtype in TYPES {
        all.push(product(dtype, [10_240, 2560], None, f, Layout::Dense));
    }
    for dtype in [DType::Q8_0, DType::Q6K] {
        all.push(product(dtype, [4096, 4096], None, f, Layout::Dense));
        all.push(product(dtype, [262_144, 768], None, f, Layout::Dense));
        all.push(product(dtype, [4096, 4096], Some(8), f, Layout::Dense));
    }
    all.push(product(DType::Q8_0, [262_144, 640], None, f, Layout::Dense));
    all.push(product(DType::Q4_0, [2048, 640], None, f, Layout::Dense));
    // Prefill.
    for dtype in [DType::Q4_0, DType::Q4K, DType::Q6K, DType::Q8_0] {
        all.push(product(dtype, [2560, 2560], Some(512), f, Layout::Dense));
    }
    all.push(product(DType::Q4_0, [2048, 640], Some(512), f, Layout::Dense));
    all
}
