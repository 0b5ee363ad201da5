//! Sums and maxima of a stretch in 64 lanes, joined by a tree: one order for any instruction set.

use super::vectorize;

const LANES: usize = 64;

/// The fold of `values` by `take` into lanes that begin as `first`, joined by `join`.
#[inline(always)]
fn fold(
    values: &[f32],
    first: f32,
    take: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let mut lanes = [first; LANES];
    let mut chunks = values.chunks_exact(LANES);
    for chunk in &mut chunks {
        for lane in 0..LANES {
            lanes[lane] = take(lanes[lane], chunk[lane]);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = take(*lane, *value);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = join(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Σ v
pub(crate) fn sum(values: &[f32]) -> f32 {
    vectorize(
        #[inline(always)]
        || fold(values, 0.0, |s, v| s + v, |a, b| a + b),
    )
}

/// Σ (v − middle)²
pub(crate) fn sum_squares_about(values: &[f32], middle: f32) -> f32 {
    vectorize(
        #[inline(always)]
        || fold(values, 0.0, |s, v| (v - middle).mul_add(v - middle, s), |a, b| a + b),
    )
}

/// The largest; −∞ of nothing.
pub(crate) fn max(values: &[f32]) -> f32 {
    vectorize(
        #[inline(always)]
        || {
            let larger = |a: f32, b: f32| if a > b { a } else { b };
            fold(values, f32::NEG_INFINITY, larger, larger)
        },
    )
}

/// `values[i] = e^(values[i] − largest)`; returns their sum.
pub(crate) fn exp_sum(values: &mut [f32], largest: f32) -> f32 {
    vectorize(
        #[inline(always)]
        || {
            for value in values.iter_mut() {
                *value = super::exp(*value - largest);
            }
            fold(values, 0.0, |s, v| s + v, |a, b| a + b)
        },
    )
}
