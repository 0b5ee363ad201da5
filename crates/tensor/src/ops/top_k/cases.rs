//! Rows of odd sizes, some places and all, in every type, with equals and infinities, as views.

use tintype_gpu::DType;

use super::{MAX_PLACES, top_k};
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, ODD_SIZES, Operand, Values};

fn reference(k: usize, ascending: bool, inputs: &[Values]) -> Vec<f64> {
    let x = &inputs[0];
    let first = |row: &[f64]| {
        let mut places: Vec<usize> = (0..row.len()).collect();
        // A stable sort: equals stay in order.
        places.sort_by(|&a, &b| {
            let (v, w) = if ascending { (row[a], row[b]) } else { (row[b], row[a]) };
            let of_nan = row[a].is_nan().cmp(&row[b].is_nan());
            of_nan.then(v.partial_cmp(&w).unwrap_or(std::cmp::Ordering::Equal))
        });
        places.into_iter().take(k).map(|place| place as f64).collect::<Vec<_>>()
    };
    x.data.chunks_exact(x.shape[x.shape.len() - 1]).flat_map(first).collect()
}

fn of(k: usize, ascending: bool, x: Operand, layout: Layout) -> Case {
    let mut shape = x.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = k;
    }
    let out = Operand::new(DType::I32, &shape).laid(layout);
    Case::new(
        if ascending { "smallest" } else { "largest" },
        vec![x],
        out,
        move |session, inputs, out| top_k(session, ascending, &inputs[0], out),
        move |inputs| reference(k, ascending, inputs),
    )
    .exact()
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for n in ODD_SIZES {
            let x = Operand::new(dtype, &[3, n]);
            all.push(of(n.min(40), false, x.clone(), Layout::Dense));
            all.push(of(n.min(MAX_PLACES), true, x, Layout::Dense));
        }
        for layout in LAYOUTS {
            // Rows of an output lie one after another.
            let to = if layout == Layout::Transposed { Layout::Offset(1) } else { layout };
            all.push(of(9, false, Operand::new(dtype, &[2, 5, 67]).laid(layout), to));
        }
        // Many equals across the last place taken; zeros of both signs, infinities, NaN.
        let few = (0..1500).map(|i| (i * 7 % 5) as f32).collect();
        all.push(of(500, false, Operand::new(dtype, &[1500]).holding(few), Layout::Dense));
        let odd = [0.0, -0.0, f32::NAN, f32::INFINITY, -1.0, f32::NEG_INFINITY, f32::NAN, 1.0];
        for ascending in [false, true] {
            let x = Operand::new(dtype, &[8]).holding(odd.into());
            all.push(of(8, ascending, x, Layout::Dense));
        }
    }
    all.push(of(64, false, Operand::new(DType::F32, &[1, 262_144]), Layout::Dense));
    all
}

pub(super) fn benches() -> Vec<Case> {
    vec![of(64, false, Operand::new(DType::F32, &[1, 262_144]), Layout::Dense)]
}
