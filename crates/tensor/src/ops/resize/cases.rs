//! Images made larger and smaller by whole and broken ratios, in every type and way, from views.

use tintype_gpu::DType;

use super::{Resize, reference, resize};
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, Operand};

fn case(how: Resize, x: Operand, to: [usize; 2], dtype: DType, layout: Layout) -> Case {
    let out = [x.shape[0], x.shape[1], to[0], to[1]];
    Case::new(
        format!("resize {how:?}"),
        vec![x],
        Operand::new(dtype, &out).laid(layout),
        move |session, inputs, out| resize(session, how, &inputs[0], out),
        move |inputs| reference::resize(how, &inputs[0], out),
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let dense = Layout::Dense;
    for how in Resize::ALL {
        for number in NUMBERS {
            let dtype = number.dtype();
            for ([h, w], to) in [
                ([8, 8], [16, 16]),
                ([5, 7], [15, 28]),
                ([6, 9], [13, 4]),
                ([1, 1], [3, 65]),
                ([31, 33], [64, 63]),
                ([64, 64], [64, 64]),
                ([9, 2], [1, 1]),
                ([3, 257], [2, 1000]),
            ] {
                all.push(case(how, Operand::new(dtype, &[2, 3, h, w]), to, dtype, dense));
            }
            for layout in LAYOUTS {
                let x = Operand::new(dtype, &[2, 3, 10, 11]).laid(layout);
                all.push(case(how, x, [20, 22], dtype, Layout::Offset(1)));
            }
        }
        let half = Operand::new(DType::F16, &[1, 2, 10, 11]);
        all.push(case(how, half, [20, 33], DType::F32, dense));
        let many = Operand::new(DType::F32, &[3, 40, 20, 24]);
        all.push(case(how, many, [40, 48], DType::F16, dense));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let of = |how, dtype, [c, h, w]: [usize; 3], to| {
        case(how, Operand::new(dtype, &[1, c, h, w]), to, dtype, Layout::Dense)
    };
    vec![
        of(Resize::Nearest, DType::F32, [640, 32, 32], [64, 64]),
        of(Resize::Nearest, DType::F32, [256, 128, 128], [256, 256]),
        of(Resize::Nearest, DType::F16, [256, 128, 128], [256, 256]),
        of(Resize::Bilinear, DType::F32, [256, 128, 128], [256, 256]),
        of(Resize::Bilinear, DType::F32, [3, 1024, 1024], [768, 512]),
    ]
}
