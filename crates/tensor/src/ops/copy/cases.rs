//! Copies between all layouts and types; permutations of up to six axes.

use tintype_gpu::DType;

use super::{copy, reference};
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, ODD_SIZES, Operand};

fn plain(a: Operand, out: Operand) -> Case {
    let shape = out.shape.clone();
    let same = a.dtype == out.dtype;
    let case = Case::new(
        "copy",
        vec![a],
        out,
        |session, inputs, out| copy(session, &inputs[0], out),
        move |inputs| reference::copy(&inputs[0], &shape),
    );
    Case { exact: same, ..case }
}

/// Copies `a` with its axes in another order.
fn permuted(a: Operand, axes: &'static [usize], layout: Layout) -> Case {
    let from = a.shape.clone();
    let to: Vec<usize> = axes.iter().map(|&axis| from[axis]).collect();
    let out = Operand::new(a.dtype, &to).laid(layout);
    Case::new(
        format!("copy permuted {axes:?}"),
        vec![a],
        out,
        |session, inputs, out| copy(session, &inputs[0].permute(axes)?, out),
        move |inputs| {
            let count = to.iter().product();
            let source = |at: usize| {
                let (mut rest, mut index) = (at, vec![0; from.len()]);
                for axis in (0..to.len()).rev() {
                    index[axes[axis]] = rest % to[axis];
                    rest /= to[axis];
                }
                index.iter().zip(&from).fold(0, |sum, (at, extent)| sum * extent + at)
            };
            (0..count).map(|at| inputs[0].data[source(at)]).collect()
        },
    )
    .exact()
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for n in ODD_SIZES {
            all.push(plain(
                Operand::new(dtype, &[n]),
                Operand::new(dtype, &[n]).laid(Layout::Offset(1)),
            ));
        }
        for other in NUMBERS.map(|number| number.dtype()) {
            for from in LAYOUTS {
                for to in LAYOUTS {
                    let a = Operand::new(dtype, &[3, 19, 21]).laid(from);
                    all.push(plain(a, Operand::new(other, &[3, 19, 21]).laid(to)));
                }
            }
        }
        all.push(plain(Operand::new(dtype, &[5, 1]), Operand::new(dtype, &[3, 5, 300])));
        let six = Operand::new(dtype, &[2, 3, 2, 5, 2, 3]);
        all.push(permuted(six.clone(), &[0, 2, 4, 1, 3, 5], Layout::Dense));
        all.push(permuted(six, &[5, 4, 3, 2, 1, 0], Layout::Stepped(3)));
        all.push(permuted(Operand::new(dtype, &[130, 257]), &[1, 0], Layout::Dense));
    }
    for (dtype, shape) in [(DType::Q8_0, [5, 96]), (DType::Q6K, [3, 512])] {
        all.push(plain(Operand::new(dtype, &shape), Operand::new(dtype, &shape)).exact());
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let of = |dtype, shape: &[usize]| Operand::new(dtype, shape);
    let (f32s, f16s) = (DType::F32, DType::F16);
    vec![
        plain(of(f32s, &[4096, 4096]), of(f32s, &[4096, 4096])),
        plain(of(f32s, &[4096, 4096]), of(f16s, &[4096, 4096])),
        permuted(of(f32s, &[2048, 4096]), &[1, 0], Layout::Dense),
        permuted(of(f16s, &[1, 4096, 8, 64]), &[0, 2, 1, 3], Layout::Dense),
    ]
}
