//! Quantized products: block counts and row counts at all edges, one to nine vectors.

use tintype_gpu::DType;

use super::{quant_matvec, reference};
use crate::ops::case::{Case, Layout, Operand};

fn product(dtype: DType, rows: usize, k: usize, m: Option<usize>, layout: Layout) -> Case {
    let shape = |n: usize| m.map_or(vec![n], |m| vec![m, n]);
    Case::new(
        "quant_matvec",
        vec![Operand::new(dtype, &[rows, k]), Operand::new(DType::F32, &shape(k)).laid(layout)],
        Operand::new(DType::F32, &shape(rows)).laid(layout),
        |session, inputs, out| quant_matvec(session, &inputs[0], &inputs[1], out),
        |inputs| reference::matvec(&inputs[0], &inputs[1]),
    )
    .spread(|inputs| reference::spread(&inputs[0], &inputs[1]))
    .flops(2.0 * (rows * k * m.unwrap_or(1)) as f64)
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (dtype, block) in [(DType::Q8_0, 32), (DType::Q6K, 256)] {
        for rows in [1, 2, 3, 7, 63, 64, 65, 127, 257] {
            for blocks in [1, 2, 3, 5, 8, 13] {
                all.push(product(dtype, rows, blocks * block, None, Layout::Dense));
            }
        }
        for m in [1, 2, 3, 4, 5, 8, 9] {
            all.push(product(dtype, 67, 3 * block, Some(m), Layout::Dense));
            all.push(product(dtype, 67, 2 * block, Some(m), Layout::Padded(5)));
        }
        all.push(product(dtype, 33, 4 * block, None, Layout::Offset(3)));
        all.push(product(dtype, 9001, 2 * block, Some(3), Layout::Dense));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in [DType::Q8_0, DType::Q6K] {
        for (rows, k) in [(4096, 4096), (11_008, 4096), (262_144, 768)] {
            all.push(product(dtype, rows, k, None, Layout::Dense));
        }
        all.push(product(dtype, 4096, 4096, Some(8), Layout::Dense));
    }
    all
}
