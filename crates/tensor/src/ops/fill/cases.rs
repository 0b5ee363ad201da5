//! Fills of every type, size and layout.

use tintype_gpu::DType;

use super::fill;
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, ODD_SIZES, Operand};

fn with(value: f64, out: Operand) -> Case {
    let count = out.shape.iter().product();
    Case::new(
        format!("fill {value}"),
        vec![],
        out,
        move |session, _, out| fill(session, value, out),
        move |_| vec![value; count],
    )
    .exact()
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()).into_iter().chain([DType::U32, DType::I32]) {
        all.extend(ODD_SIZES.map(|n| with(2.0, Operand::new(dtype, &[n]))));
        all.extend(LAYOUTS.map(|layout| with(7.0, Operand::new(dtype, &[3, 5, 67]).laid(layout))));
    }
    all.extend(NUMBERS.map(|number| with(-0.375, Operand::new(number.dtype(), &[99]))));
    all
}

pub(super) fn benches() -> Vec<Case> {
    vec![with(0.0, Operand::new(DType::F32, &[4096, 4096]))]
}
