//! Both kinds of pairs, parts of heads, several axes, far positions, views.

use tintype_gpu::DType;

use super::{Rope, rope};
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, Operand, Values};

fn reference(spec: &Rope, inputs: &[Values]) -> Vec<f64> {
    let [x, positions, frequencies] = inputs else { return Vec::new() };
    let n = x.shape[x.shape.len() - 1];
    let pairs = frequencies.data.len();
    let rows = &x.shape[..x.shape.len() - 1];
    let mut out = x.data.clone();
    let own: usize = positions.shape[1..].iter().product();
    for (at, row) in out.chunks_exact_mut(n).enumerate() {
        let (mut axis, mut end) = (0, spec.sections[0]);
        for i in 0..pairs {
            while i >= end {
                axis += 1;
                end += spec.sections[axis];
            }
            let along = Values {
                shape: positions.shape[1..].to_vec(),
                data: positions.data[axis * own..][..own].to_vec(),
            };
            let angle = along.broadcast(rows, at) * frequencies.data[i];
            let (c, s) = (angle.cos() * f64::from(spec.scale), angle.sin() * f64::from(spec.scale));
            let (a, b) = if spec.interleaved { (2 * i, 2 * i + 1) } else { (i, i + pairs) };
            let (v, w) = (row[a], row[b]);
            (row[a], row[b]) = (v * c - w * s, v * s + w * c);
        }
    }
    out
}

fn turned(spec: Rope, x: Operand, positions: &[usize], out: Operand) -> Case {
    let pairs = spec.sections.iter().sum();
    let positions = Operand::new(DType::I32, positions).within(0.0..5000.0);
    let frequencies = Operand::new(DType::F32, &[pairs]).within(1e-4..1.0);
    Case::new(
        format!("rope {spec:?}"),
        vec![x, positions, frequencies],
        out,
        move |session, inputs, out| rope(session, &spec, &inputs[0], &inputs[1], &inputs[2], out),
        move |inputs| reference(&spec, inputs),
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for interleaved in [false, true] {
            let of = |sections| Rope { interleaved, scale: 1.0, sections };
            let x = Operand::new(dtype, &[2, 3, 5, 66]);
            let scaled = Rope { scale: 1.25, ..of([24, 0, 0, 0]) };
            all.push(turned(of([33, 0, 0, 0]), x.clone(), &[1, 5], x.clone()));
            all.push(turned(scaled, x.clone(), &[1, 2, 1, 5], x.clone()));
            all.push(turned(of([8, 10, 15, 0]), x.clone(), &[3, 5], x.clone()));
            all.push(turned(of([8, 10, 9, 5]), x.clone(), &[4, 2, 1, 5], x.clone()));
            let padded = x.clone().laid(Layout::Padded(3));
            all.push(turned(of([32, 0, 0, 0]), padded, &[1, 5], x.laid(Layout::Offset(3))));
        }
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let spec = Rope { interleaved: false, scale: 1.0, sections: [64, 0, 0, 0] };
    let of = |t: usize| Operand::new(DType::F32, &[1, 32, t, 128]);
    vec![turned(spec, of(1024), &[1, 1024], of(1024)), turned(spec, of(1), &[1, 1], of(1))]
}
