//! Borders of every kind on one to four axes, from views, in every type.

use tintype_gpu::DType;

use super::{Pad, pad, reference};
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, Operand};

fn case(how: Pad, padding: &[[usize; 2]], a: Operand, dtype: DType) -> Case {
    let out: Vec<usize> =
        a.shape.iter().zip(padding).map(|(n, [before, after])| before + n + after).collect();
    let (padding, same) = (padding.to_vec(), a.dtype == dtype);
    let (others, shape) = (padding.clone(), out.clone());
    let case = Case::new(
        format!("pad {how:?} {padding:?}"),
        vec![a],
        Operand::new(dtype, &out).laid(Layout::Offset(1)),
        move |session, inputs, out| pad(session, how, &padding, &inputs[0], out),
        move |inputs| reference::pad(how, &others, &inputs[0], &shape),
    );
    Case { exact: same, ..case }
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for how in [Pad::Constant(0.0), Pad::Constant(-1.5), Pad::Reflect, Pad::Replicate] {
        for dtype in NUMBERS.map(|number| number.dtype()) {
            let of = |shape: &[usize]| Operand::new(dtype, shape);
            all.push(case(how, &[[2, 3]], of(&[7]), dtype));
            all.push(case(how, &[[0, 0], [1, 0]], of(&[5, 64]), dtype));
            all.push(case(how, &[[2, 0], [0, 0], [0, 6]], of(&[3, 1, 7]), dtype));
            all.push(case(how, &[[0, 0], [0, 0], [1, 1], [1, 1]], of(&[2, 3, 31, 33]), dtype));
            all.push(case(how, &[[0, 0], [0, 0], [0, 1], [0, 1]], of(&[1, 40, 40, 40]), dtype));
            all.push(case(how, &[[1, 1], [2, 2], [3, 1], [1, 4]], of(&[2, 3, 4, 5]), dtype));
            for layout in LAYOUTS {
                all.push(case(
                    how,
                    &[[0, 0], [1, 2], [3, 0]],
                    of(&[3, 10, 11]).laid(layout),
                    dtype,
                ));
            }
        }
        all.push(case(how, &[[1, 1]], Operand::new(DType::F16, &[300]), DType::F32));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let of = |how| {
        let a = Operand::new(DType::F32, &[1, 256, 128, 128]);
        case(how, &[[0, 0], [0, 0], [1, 1], [1, 1]], a, DType::F32)
    };
    vec![of(Pad::Constant(0.0)), of(Pad::Reflect)]
}
