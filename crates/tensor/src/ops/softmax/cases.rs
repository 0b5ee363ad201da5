//! Softmax with and without masks of every repeating shape; odd sizes and views; large values.

use tintype_gpu::DType;

use super::softmax;
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, ODD_SIZES, Operand, Values};

fn reference(scale: f32, inputs: &[Values]) -> Vec<f64> {
    let x = &inputs[0];
    let masked = |(at, v): (usize, &f64)| {
        v * f64::from(scale) + inputs.get(1).map_or(0.0, |mask| mask.broadcast(&x.shape, at))
    };
    let values: Vec<f64> = x.data.iter().enumerate().map(masked).collect();
    let softmax = |row: &[f64]| {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let all: Vec<f64> = row.iter().map(|v| (v - largest).exp()).collect();
        let sum: f64 = all.iter().sum();
        all.into_iter().map(move |e| e / sum).collect::<Vec<_>>()
    };
    values.chunks_exact(x.shape[x.shape.len() - 1]).flat_map(softmax).collect()
}

fn of(scale: f32, x: Operand, mask: Option<Operand>, out: Operand) -> Case {
    let mut inputs = vec![x];
    inputs.extend(mask);
    Case::new(
        format!("softmax {scale}"),
        inputs,
        out,
        move |session, inputs, out| softmax(session, scale, &inputs[0], inputs.get(1), out),
        move |inputs| reference(scale, inputs),
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        let operand = |shape: &[usize]| Operand::new(dtype, shape).within(-4.0..9.0);
        for n in ODD_SIZES {
            all.push(of(1.0, operand(&[3, n]), None, operand(&[3, n])));
        }
        for mask in [&[67][..], &[5, 67], &[2, 1, 67], &[2, 5, 1]] {
            let mask = Operand::new(DType::F32, mask).within(-30.0..0.0);
            all.push(of(0.125, operand(&[2, 5, 67]), Some(mask), operand(&[2, 5, 67])));
        }
        for (from, to) in [
            (Layout::Offset(3), Layout::Padded(5)),
            (Layout::Transposed, Layout::Offset(1)),
            (Layout::Stepped(1), Layout::Stepped(3)),
        ] {
            let (x, out) = (operand(&[3, 9, 130]).laid(from), operand(&[3, 9, 130]).laid(to));
            all.push(of(0.5, x, Some(operand(&[130])), out));
        }
    }
    let far = Operand::new(DType::F32, &[4, 33]).within(-3e4..3e4);
    all.push(of(1.0, far.clone(), None, far));
    all
}

pub(super) fn benches() -> Vec<Case> {
    let of = |dtype, shape: &[usize]| {
        of(0.125, Operand::new(dtype, shape), None, Operand::new(dtype, shape))
    };
    vec![
        of(DType::F32, &[16, 1024, 1024]),
        of(DType::F16, &[8, 4096, 77]),
        of(DType::F32, &[1, 262_144]),
    ]
}
