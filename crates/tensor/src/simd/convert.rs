//! Conversions between storage types, in bulk.

use half::f16;

use super::lanes::{LANES, Lanes, OnLanes, dispatch};

/// `out[i] = from[i]`, over the shorter of both.
pub(crate) fn f16_to_f32(from: &[f16], out: &mut [f32]) {
    let n = from.len().min(out.len());
    dispatch(FromHalf { from: bytemuck::cast_slice(&from[..n]), out: &mut out[..n] });
}

struct FromHalf<'a> {
    from: &'a [u16],
    out: &'a mut [f32],
}

impl OnLanes for FromHalf<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (mut from, mut out) = (self.from.chunks_exact(LANES), self.out.chunks_exact_mut(LANES));
        for (from, out) in (&mut from).zip(&mut out) {
            L::half(from).store(out);
        }
        for (from, out) in from.remainder().iter().zip(out.into_remainder()) {
            *out = super::quant::f16(*from);
        }
    }
}
