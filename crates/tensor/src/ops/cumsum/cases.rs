//! Rows of odd sizes, every pair of types, views; numbers that do not cancel, and that do.

use tintype_gpu::DType;

use super::cumsum;
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, ODD_SIZES, Operand, Values};

fn reference(inputs: &[Values]) -> Vec<f64> {
    let x = &inputs[0];
    let sums = |row: &[f64]| {
        let mut sum = 0.0;
        row.iter()
            .map(|v| {
                sum += v;
                sum
            })
            .collect::<Vec<f64>>()
    };
    x.data.chunks_exact(x.shape[x.shape.len() - 1]).flat_map(sums).collect()
}

fn of(x: Operand, out: Operand) -> Case {
    Case::new(
        "cumsum",
        vec![x],
        out,
        |session, inputs, out| cumsum(session, &inputs[0], out),
        reference,
    )
    .spread(|inputs| {
        // Of sums whose terms' signs are independent.
        let squares = |values: &Values| values.data.iter().map(|v| v * v).collect();
        let x = &inputs[0];
        let all = [Values { shape: x.shape.clone(), data: squares(x) }];
        reference(&all).iter().sum::<f64>().sqrt()
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for n in ODD_SIZES {
            let x = Operand::new(dtype, &[3, n]);
            all.push(of(x.clone(), Operand::new(DType::F32, &[3, n])));
            all.push(of(x.within(0.0..1.0), Operand::new(dtype, &[3, n])));
        }
        for other in NUMBERS.map(|number| number.dtype()) {
            for layout in LAYOUTS {
                let x = Operand::new(dtype, &[2, 5, 67]).laid(layout);
                // Rows of an output lie one after another.
                let to = if layout == Layout::Transposed { Layout::Offset(1) } else { layout };
                all.push(of(x, Operand::new(other, &[2, 5, 67]).laid(to)));
            }
        }
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let x = Operand::new(DType::F32, &[8, 32_000]);
    vec![of(x.clone(), x)]
}
