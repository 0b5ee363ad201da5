//! Rows of odd sizes, in every type, with equals, as views.

use tintype_gpu::DType;

use super::argmax;
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, ODD_SIZES, Operand, Values};

fn reference(inputs: &[Values]) -> Vec<f64> {
    let x = &inputs[0];
    let place = |row: &[f64]| {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter().position(|v| *v == largest).map_or(-1.0, |place| place as f64)
    };
    x.data.chunks_exact(x.shape[x.shape.len() - 1]).map(place).collect()
}

fn of(x: Operand) -> Case {
    let out = Operand::new(DType::I32, &x.shape[..x.shape.len() - 1]);
    Case::new(
        "argmax",
        vec![x],
        out,
        |session, inputs, out| argmax(session, &inputs[0], out),
        reference,
    )
    .exact()
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for n in ODD_SIZES {
            all.push(of(Operand::new(dtype, &[3, n])));
        }
        for layout in LAYOUTS {
            all.push(of(Operand::new(dtype, &[2, 5, 67]).laid(layout)));
        }
        // Two places share the largest, far apart; all are equal; nothing but −∞.
        let mut equals = vec![0.25; 2 * 1000];
        [333, 998, 1005, 1700].iter().for_each(|&at| equals[at] = 2.0);
        all.push(of(Operand::new(dtype, &[2, 1000]).holding(equals)));
        all.push(of(Operand::new(dtype, &[1, 600]).holding(vec![-3.0; 600])));
        all.push(of(Operand::new(dtype, &[300]).holding(vec![f32::NEG_INFINITY; 300])));
    }
    all.push(of(Operand::new(DType::F32, &[1, 262_144])));
    all
}

pub(super) fn benches() -> Vec<Case> {
    vec![of(Operand::new(DType::F32, &[1, 262_144])), of(Operand::new(DType::F32, &[8, 32_000]))]
}
