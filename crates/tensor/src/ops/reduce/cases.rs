//! Every fold over inner, outer, middle and all axes; odd sizes, views, long sums in two passes.

use tintype_gpu::DType;

use super::{Fold, reduce, reference, scratch_shape, stream_sum};
use crate::Tensor;
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, ODD_SIZES, Operand, Values};

fn over(fold: Fold, a: Operand, axes: &'static [usize], out: (DType, Layout)) -> Case {
    let kept = (0..a.shape.len()).filter(|axis| !axes.contains(axis));
    let shape: Vec<usize> = kept.map(|axis| a.shape[axis]).collect();
    let scratch = scratch_shape(&a.shape, axes);
    let case = Case::new(
        format!("{} over {axes:?}", fold.name()),
        vec![a],
        Operand::new(out.0, &shape).laid(out.1),
        move |session, inputs, out| {
            let scratch = match scratch {
                Some(shape) => Some(Tensor::empty(session.device(), DType::F32, &shape)?),
                None => None,
            };
            reduce(session, fold, &inputs[0], axes, scratch.as_ref(), out)
        },
        move |inputs| reference::reduce(fold, &inputs[0], axes),
    );
    match fold {
        Fold::Sum | Fold::Mean => case.spread(move |inputs| spread(fold, &inputs[0], axes)),
        _ => case,
    }
}

/// Norm of the sums if the elements' signs were independent.
fn spread(fold: Fold, a: &Values, axes: &[usize]) -> f64 {
    let n: usize = axes.iter().map(|&axis| a.shape[axis]).product();
    let scale = if fold == Fold::Mean { 1.0 / n as f64 } else { 1.0 };
    scale * a.data.iter().map(|v| v * v).sum::<f64>().sqrt()
}

fn plain(fold: Fold, dtype: DType, shape: &[usize], axes: &'static [usize]) -> Case {
    over(fold, Operand::new(dtype, shape), axes, (dtype, Layout::Dense))
}

/// The first pass alone.
fn stream(n: usize, parts: usize) -> Case {
    let part = n.div_ceil(parts).next_multiple_of(4 * 8 * 256);
    Case::new(
        "stream_sum",
        vec![Operand::new(DType::F32, &[n]).within(0.0..1.0)],
        Operand::new(DType::F32, &[parts]),
        |session, inputs, out| stream_sum(session, &inputs[0], out),
        move |inputs| {
            let mut sums: Vec<f64> =
                inputs[0].data.chunks(part).map(|part| part.iter().sum()).collect();
            sums.resize(parts, 0.0);
            sums
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let f = DType::F32;
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for fold in Fold::ALL {
            for axes in [&[2][..], &[0], &[1], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2], &[]] {
                all.push(plain(fold, dtype, &[7, 13, 67], axes));
            }
        }
        for layout in LAYOUTS {
            let a = || Operand::new(dtype, &[5, 33, 21]).laid(layout);
            all.push(over(Fold::Sum, a(), &[2], (dtype, Layout::Dense)));
            all.push(over(Fold::Max, a(), &[1], (f, Layout::Transposed)));
            all.push(over(Fold::Mean, a(), &[0], (dtype, Layout::Stepped(1))));
        }
    }
    for n in ODD_SIZES {
        all.push(plain(Fold::Sum, f, &[n], &[0]));
        all.push(plain(Fold::SumSquares, f, &[3, n], &[1]));
        all.push(plain(Fold::Min, f, &[n, 37], &[0]));
    }
    // Long ones, in two passes; short ones with many outputs.
    for n in [16_384, 16_385, 100_003, 1_000_000] {
        all.extend(
            [Fold::Sum, Fold::Max, Fold::SumSquares, Fold::Mean]
                .map(|f32s| plain(f32s, f, &[n], &[0])),
        );
    }
    all.push(plain(Fold::Mean, DType::F16, &[3, 5, 30_011], &[2]));
    all.push(plain(Fold::Sum, f, &[20_011, 6], &[0]));
    all.push(plain(Fold::Sum, f, &[5000, 9], &[1]));
    all.push(plain(Fold::Sum, f, &[9, 5000], &[0]));
    all.push(over(Fold::Sum, Operand::new(f, &[2, 3, 4, 5, 2, 3]), &[1, 3], (f, Layout::Dense)));
    all.push(stream(1 << 20, 64));
    all.push(stream(1_000_000, 7));
    all.push(stream(4, 3));
    all
}

pub(super) fn benches() -> Vec<Case> {
    let f = DType::F32;
    vec![
        stream(1 << 26, 1 << 11),
        plain(Fold::Sum, f, &[1 << 26], &[0]),
        plain(Fold::SumSquares, f, &[4096, 4096], &[1]),
        plain(Fold::Mean, f, &[4096, 4096], &[0]),
        plain(Fold::Max, DType::F16, &[4096, 4096], &[1]),
    ]
}
