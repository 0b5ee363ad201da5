//! Two to four parts along each axis, of several layouts and types.

use tintype_gpu::DType;

use super::concat;
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, Operand, Values};

fn case(parts: Vec<Operand>, axis: usize, dtype: DType, layout: Layout) -> Case {
    let mut shape = parts[0].shape.clone();
    shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
    let same = parts.iter().all(|part| part.dtype == dtype);
    let case = Case::new(
        format!("concat along {axis}"),
        parts,
        Operand::new(dtype, &shape).laid(layout),
        move |session, inputs, out| {
            let parts: Vec<_> = inputs.iter().collect();
            concat(session, &parts, axis, out)
        },
        move |inputs| reference(inputs, axis),
    );
    Case { exact: same, ..case }
}

/// Outer positions in turn, and in each all parts.
fn reference(parts: &[Values], axis: usize) -> Vec<f64> {
    let outer: usize = parts[0].shape[..axis].iter().product();
    let mut all = Vec::new();
    for at in 0..outer {
        for part in parts {
            let run = part.data.len() / outer;
            all.extend(&part.data[at * run..][..run]);
        }
    }
    all
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for axis in 0..4 {
            for extents in [&[1usize, 2][..], &[5, 1, 3], &[2, 2, 2, 7]] {
                let part = |extent: usize| {
                    let mut shape = [2, 3, 5, 7];
                    shape[axis] = extent;
                    Operand::new(dtype, &shape)
                };
                let parts: Vec<_> = extents.iter().map(|&extent| part(extent)).collect();
                all.push(case(parts, axis, dtype, Layout::Dense));
            }
        }
        for layout in LAYOUTS {
            let part = |n| Operand::new(dtype, &[2, n, 19, 21]).laid(layout);
            all.push(case(vec![part(3), part(4)], 1, dtype, layout));
        }
    }
    let mixed = [DType::F16, DType::F32].map(|dtype| Operand::new(dtype, &[1, 4, 6]));
    all.push(case(mixed.to_vec(), 1, DType::F32, Layout::Dense));
    all
}

pub(super) fn benches() -> Vec<Case> {
    let part = |n, c| Operand::new(DType::F32, &[n, c, 64, 64]);
    vec![
        case(vec![part(1, 640), part(1, 320)], 1, DType::F32, Layout::Dense),
        case(vec![part(2, 640), part(2, 320)], 1, DType::F32, Layout::Dense),
    ]
}
