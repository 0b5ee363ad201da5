//! Soft-cap in every type, out of place and in place, beyond its knee on both sides.

use tintype_gpu::DType;

use super::{softcap, softcap_in_place};
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, ODD_SIZES, Operand, Values};

fn reference(cap: f32) -> impl Fn(&[Values]) -> Vec<f64> {
    let cap = f64::from(cap);
    move |inputs| inputs[0].data.iter().map(|x| cap * (x / cap).tanh()).collect()
}

fn apart(cap: f32, a: Operand, out: Operand) -> Case {
    let record =
        move |session: &mut tintype_gpu::Session<'_>,
              inputs: &[crate::Tensor],
              out: &crate::Tensor| { softcap(session, cap, &inputs[0], out) };
    Case::new(
        format!("softcap {cap}"),
        vec![a.within(-3.0 * cap..3.0 * cap)],
        out,
        record,
        reference(cap),
    )
}

fn in_place(cap: f32, a: Operand) -> Case {
    let a = a.within(-3.0 * cap..3.0 * cap);
    Case::new(
        format!("softcap {cap}"),
        vec![a.clone()],
        a,
        move |session, _, out| softcap_in_place(session, cap, out),
        reference(cap),
    )
    .in_place(0)
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for n in ODD_SIZES {
            all.push(apart(30.0, Operand::new(dtype, &[n]), Operand::new(dtype, &[n])));
            all.push(in_place(50.0, Operand::new(dtype, &[n])));
        }
        all.push(in_place(30.0, Operand::new(dtype, &[9, 65]).laid(Layout::Padded(3))));
        all.push(in_place(30.0, Operand::new(dtype, &[585]).laid(Layout::Offset(7))));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    vec![in_place(30.0, Operand::new(DType::F32, &[16, 262_144]))]
}
