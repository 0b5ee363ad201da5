//! Products of every type, at sizes around the tiles, in every layout, batched and with few rows.

use tintype_gpu::DType;

use super::matmul;
use super::reference;
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, Operand};

fn case(lhs: Operand, rhs: Operand, out: Operand) -> Case {
    let batch = if out.shape.len() == 3 { out.shape[0] } else { 1 };
    let flops = 2.0 * (out.shape.iter().product::<usize>() * lhs.shape[lhs.shape.len() - 1]) as f64;
    Case::new(
        "matmul",
        vec![lhs, rhs],
        out,
        |session, inputs, out| matmul(session, &inputs[0], &inputs[1], out),
        move |inputs| reference::matmul(&inputs[0], &inputs[1], batch),
    )
    .flops(flops)
}

/// m×k by k×n in one type, weights `[n, k]` seen transposed.
fn weights(dtype: DType, m: usize, n: usize, k: usize, out: DType) -> Case {
    let rhs = Operand::new(dtype, &[k, n]).laid(Layout::Transposed);
    case(Operand::new(dtype, &[m, k]), rhs, Operand::new(out, &[m, n]))
}

fn plain(dtype: DType, m: usize, n: usize, k: usize) -> Case {
    let of = |shape: &[usize]| Operand::new(dtype, shape);
    case(of(&[m, k]), of(&[k, n]), of(&[m, n]))
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let types = NUMBERS.map(|number| number.dtype());
    for dtype in types {
        for (m, n, k) in [
            (1, 1, 1),
            (1, 77, 130),
            (2, 65, 33),
            (3, 1, 64),
            (5, 130, 17),
            (64, 64, 16),
            (65, 63, 47),
        ] {
            all.push(plain(dtype, m, n, k));
            all.push(weights(dtype, m, n, k, dtype));
        }
        all.push(weights(dtype, 9, 70, 129, DType::F32));
        // Whole cooperative tiles, with a remainder of rows; both layouts of the weights.
        all.push(weights(dtype, 130, 128, 64, DType::F32));
        let of = |shape: &[usize]| Operand::new(dtype, shape);
        all.push(case(of(&[256, 96]), of(&[96, 128]), Operand::new(DType::F32, &[256, 128])));
    }
    for (l, r, o) in [
        (DType::F32, DType::F16, DType::F32),
        (DType::F32, DType::Bf16, DType::F32),
        (DType::F16, DType::F32, DType::F16),
        (DType::Bf16, DType::F16, DType::Bf16),
    ] {
        for m in [1, 3, 40] {
            let of = |dtype, shape: &[usize]| Operand::new(dtype, shape);
            all.push(case(of(l, &[m, 70]), of(r, &[70, 90]), of(o, &[m, 90])));
            let turned = of(r, &[70, 90]).laid(Layout::Transposed);
            all.push(case(of(l, &[m, 70]), turned, of(o, &[m, 90])));
        }
    }
    for layout in [Layout::Offset(3), Layout::Padded(5), Layout::Transposed, Layout::Stepped(1)] {
        for m in [1, 21] {
            let of = |shape: &[usize]| Operand::new(DType::F32, shape);
            all.push(case(of(&[m, 40]).laid(layout), of(&[40, 66]), of(&[m, 66])));
            all.push(case(of(&[m, 40]), of(&[40, 66]).laid(layout), of(&[m, 66])));
        }
    }
    for layout in [Layout::Offset(3), Layout::Padded(5)] {
        let of = |shape: &[usize]| Operand::new(DType::F16, shape);
        all.push(case(of(&[70, 33]), of(&[33, 66]), of(&[70, 66]).laid(layout)));
        all.push(case(of(&[2, 7, 33]), of(&[33, 66]), of(&[2, 7, 66]).laid(layout)));
    }
    // Batches: both, one side repeated, one row each.
    let of = |shape: &[usize]| Operand::new(DType::F32, shape);
    for (l, r, o) in [
        ([3, 5, 20], [3, 20, 70], [3, 5, 70]),
        ([1, 66, 20], [4, 20, 9], [4, 66, 9]),
        ([4, 66, 20], [1, 20, 9], [4, 66, 9]),
        ([6, 1, 31], [6, 31, 5], [6, 1, 5]),
    ] {
        all.push(case(of(&l), of(&r), of(&o)));
        all.push(case(of(&l), of(&r).laid(Layout::Transposed), of(&o)));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    vec![
        weights(DType::F32, 1, 4096, 4096, DType::F32),
        weights(DType::F16, 1, 4096, 4096, DType::F32),
        weights(DType::F32, 512, 640, 640, DType::F32),
        weights(DType::F32, 1024, 1024, 1024, DType::F32),
        weights(DType::F16, 1024, 1024, 1024, DType::F32),
        plain(DType::F32, 1024, 1024, 1024),
        weights(DType::F16, 4096, 4096, 4096, DType::F32),
        weights(DType::F32, 4096, 4096, 4096, DType::F32),
    ]
}
