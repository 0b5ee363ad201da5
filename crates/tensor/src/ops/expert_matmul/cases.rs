//! Every type of experts, shared and own x, odd sizes, types of activations, views.

use tintype_gpu::DType;

use super::{expert_matmul, reference};
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, Operand};
use crate::quant::TYPES;

/// `[experts, n, k]`, `[tokens, used]`, and whether a token's experts share its x.
fn of(
    weights: DType,
    sizes: [usize; 3],
    [tokens, used]: [usize; 2],
    shared: bool,
    [x, out]: [DType; 2],
    layout: Layout,
) -> Case {
    let [experts, n, k] = sizes;
    let own = if shared { 1 } else { used };
    Case::new(
        "expert_matmul",
        vec![
            Operand::new(weights, &sizes),
            Operand::new(x, &[tokens, own, k]).laid(layout),
            Operand::new(DType::I32, &[tokens, used]).within(0.0..experts as f32),
        ],
        Operand::new(out, &[tokens, used, n]),
        |session, inputs, out| expert_matmul(session, &inputs[0], &inputs[1], &inputs[2], out),
        |inputs| reference::products(inputs, |w, x| w * x),
    )
    .spread(|inputs| reference::products(inputs, |w, x| (w * x).powi(2)).iter().sum::<f64>().sqrt())
    .flops(2.0 * (tokens * used * n * k) as f64)
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let f = [DType::F32; 2];
    let numbers = NUMBERS.map(|number| number.dtype());
    for dtype in numbers.into_iter().chain(TYPES) {
        let block = dtype.block_elements() as usize;
        let (few, many) = if block == 1 { (37, 300) } else { (block, 3 * block) };
        for (n, k) in [(33, few), (5, many), (130, few)] {
            all.push(of(dtype, [5, n, k], [3, 2], true, f, Layout::Dense));
            all.push(of(dtype, [3, n, k], [1, 3], false, f, Layout::Offset(3)));
        }
        all.push(of(dtype, [4, 9, few], [7, 1], false, f, Layout::Padded(5)));
    }
    for x in numbers {
        for out in numbers {
            for (dtype, k) in [(DType::F16, 70), (DType::Q4_0, 96), (DType::Q6K, 256)] {
                all.push(of(dtype, [3, 20, k], [2, 2], true, [x, out], Layout::Dense));
            }
        }
    }
    // More than a small device's binding holds.
    all.push(of(DType::F32, [34, 1000, 1000], [2, 3], true, f, Layout::Dense));
    all
}

pub(super) fn benches() -> Vec<Case> {
    // A token of a model of 32 experts, four used: a projection up, and one back.
    let f = [DType::F32; 2];
    vec![
        of(DType::Q4_0, [32, 2880, 2880], [1, 4], true, f, Layout::Dense),
        of(DType::Q8_0, [8, 1024, 2048], [1, 2], false, f, Layout::Dense),
    ]
}
