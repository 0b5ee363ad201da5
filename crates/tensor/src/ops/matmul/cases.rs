//! Products at the edges of tiles, in every type, against weights either way round, batched.

use tintype_gpu::DType;

use super::{matmul, reference};
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, Operand};

/// `a [m, k]` by `b [k, n]`; `b` lies in memory as `layout` says: transposed means weights `[n, k]`.
fn product(types: [DType; 3], [m, n, k]: [usize; 3], b: Layout, out: Layout) -> Case {
    let operand = |dtype, shape: &[usize]| Operand::new(dtype, shape);
    Case::new(
        "matmul",
        vec![operand(types[0], &[m, k]), operand(types[1], &[k, n]).laid(b)],
        operand(types[2], &[m, n]).laid(out),
        |session, inputs, out| matmul(session, &inputs[0], &inputs[1], out),
        |inputs| reference::matmul(&inputs[0], &inputs[1], 1),
    )
    .spread(|inputs| reference::spread(&inputs[0], &inputs[1], 1))
    .sample(|inputs, at| reference::one(&inputs[0], &inputs[1], at))
    .flops(2.0 * (m * n * k) as f64)
}

fn batched(dtype: DType, a: &[usize], b: &[usize], out: &[usize], layout: Layout) -> Case {
    let batch = out[..out.len() - 2].iter().product();
    Case::new(
        "matmul batched",
        vec![Operand::new(dtype, a), Operand::new(dtype, b).laid(layout)],
        Operand::new(dtype, out),
        |session, inputs, out| matmul(session, &inputs[0], &inputs[1], out),
        move |inputs| reference::matmul(&inputs[0], &inputs[1], batch),
    )
    .spread(move |inputs| reference::spread(&inputs[0], &inputs[1], batch))
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let f = DType::F32;
    let (dense, turned) = (Layout::Dense, Layout::Transposed);
    for sizes in [
        [1, 1, 1],
        [1, 65, 127],
        [2, 63, 64],
        [3, 127, 257],
        [16, 33, 100],
        [17, 64, 63],
        [63, 65, 31],
        [64, 64, 64],
        [65, 127, 33],
        [129, 130, 17],
        [1, 1000, 256],
        [31, 257, 1],
    ] {
        for b in [dense, turned, Layout::Padded(3), Layout::Offset(5)] {
            all.push(product([f; 3], sizes, b, dense));
        }
        for dtype in [DType::F16, DType::Bf16] {
            all.push(product([dtype; 3], sizes, turned, dense));
            all.push(product([f, dtype, f], sizes, turned, dense));
            all.push(product([dtype, dtype, f], sizes, dense, Layout::Offset(3)));
        }
        all.push(product([f; 3], sizes, turned, Layout::Padded(7)));
        all.push(product([DType::F16; 3], sizes, dense, Layout::Padded(1)));
    }
    // Every mix of types once, in both orders of b.
    for a in NUMBERS {
        for b in NUMBERS {
            for out in NUMBERS {
                let types = [a, b, out].map(|number| number.dtype());
                all.push(product(types, [5, 36, 68], turned, dense));
                if a == out || b == out {
                    all.push(product(types, [19, 36, 68], dense, dense));
                }
            }
        }
    }
    // Large enough for the 128 tile; mat-vec with an odd start.
    all.push(product([f; 3], [1025, 1026, 19], turned, dense));
    all.push(product([f; 3], [1030, 1050, 18], dense, dense));
    all.push(product([f; 3], [4, 100, 128], turned, Layout::Offset(1)));
    for dtype in [f, DType::F16] {
        for layout in [dense, turned] {
            all.push(batched(dtype, &[3, 20, 33], &[3, 33, 17], &[3, 20, 17], layout));
            all.push(batched(dtype, &[2, 3, 4, 33], &[2, 3, 33, 17], &[2, 3, 4, 17], layout));
            all.push(batched(dtype, &[5, 3, 64], &[64, 40], &[5, 3, 40], layout));
            all.push(batched(dtype, &[70, 64], &[4, 64, 9], &[4, 70, 9], layout));
        }
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let (f, h) = (DType::F32, DType::F16);
    let (dense, turned) = (Layout::Dense, Layout::Transposed);
    let mut all = Vec::new();
    for sizes in [[512, 512, 512], [1024, 1024, 1024], [77, 768, 768], [4096, 320, 320]] {
        all.push(product([f; 3], sizes, turned, dense));
        all.push(product([f; 3], sizes, dense, dense));
        all.push(product([f, h, f], sizes, turned, dense));
    }
    for types in [[f; 3], [f, h, f], [f, DType::Bf16, f]] {
        all.push(product(types, [1, 4096, 4096], turned, dense));
    }
    all.push(product([f, h, f], [8, 4096, 4096], turned, dense));
    for types in [[f; 3], [h, h, f], [h, h, h]] {
        all.push(product(types, [4096; 3], turned, dense));
        all.push(product(types, [4096; 3], dense, dense));
    }
    all
}
