//! Elementary functions in f32 as straight-line code, so that loops over them become vector code.
//! Errors are a few units in the last place.

/// 1.5·2²³: adding it rounds to an integer that then stands in the low bits.
const SHIFT: f32 = 12_582_912.0;

/// e to the x. Two halves of the power of two, so that it neither overflows early nor loses
/// subnormal results. Coefficients: Cephes `expf` (Moshier), a minimax fit on ±ln(2)/2.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let bounded = x.clamp(-104.0, 89.0);
    let shifted = bounded.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-0.693_359_4, bounded);
    let r = n.mul_add(2.121_944_4e-4, r);
    let p = 1.987_569_1e-4f32;
    let p = p.mul_add(r, 1.398_2e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 1.666_666_5e-1);
    let p = p.mul_add(r, 0.5);
    let p = p.mul_add(r * r, r + 1.0);
    let power = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let half = power >> 1;
    let scale = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
    p * scale(half) * scale(power - half)
}

/// Hyperbolic tangent. Near 0 a polynomial (Cephes `tanhf`), since the quotient cancels there.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let z = x.abs();
    let e = exp(-2.0 * z);
    let far = (1.0 - e) / (1.0 + e);
    let s = x * x;
    let p = (-5.704_988_5e-3f32).mul_add(s, 2.063_909e-2);
    let p = p.mul_add(s, -5.373_971_5e-2);
    let p = p.mul_add(s, 1.333_144_2e-1);
    let p = p.mul_add(s, -3.333_328e-1);
    let near = (p * s).mul_add(x, x);
    if z < 0.625 { near } else { far.copysign(x) }
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Complementary error function: Chebyshev fit of Press et al., Numerical Recipes §6.2, relative
/// error below 1.2e-7 everywhere.
#[inline(always)]
pub(crate) fn erfc(x: f32) -> f32 {
    let z = x.abs();
    let t = 1.0 / (0.5f32.mul_add(z, 1.0));
    let p = 0.170_872_77f32;
    let p = p.mul_add(t, -0.822_152_23);
    let p = p.mul_add(t, 1.488_515_9);
    let p = p.mul_add(t, -1.135_204);
    let p = p.mul_add(t, 0.278_868_07);
    let p = p.mul_add(t, -0.186_288_06);
    let p = p.mul_add(t, 0.096_784_18);
    let p = p.mul_add(t, 0.374_091_96);
    let p = p.mul_add(t, 1.000_023_7);
    let p = p.mul_add(t, -1.265_512_2);
    let tail = t * exp((-z).mul_add(z, p));
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// Cosine and sine of a·b: the product in two parts, less multiples of π/2, then polynomials (Cephes
/// `sinf`, `cosf`).
#[inline(always)]
pub(crate) fn turn(a: f32, b: f32) -> [f32; 2] {
    let product = a * b;
    let rest = a.mul_add(b, -product);
    let k = (product * std::f32::consts::FRAC_2_PI).round_ties_even();
    let r = (-k).mul_add(std::f32::consts::FRAC_PI_2, product);
    let r = k.mul_add(4.371_139e-8, r) + rest;
    let z = r * r;
    let sine = z.mul_add(-1.951_529_6e-4, 8.332_161e-3);
    let sine = (r * z).mul_add(z.mul_add(sine, -0.166_666_54), r);
    let cosine = z.mul_add(2.443_315_7e-5, -1.388_731_6e-3);
    let cosine = (z * z).mul_add(z.mul_add(cosine, 4.166_664_6e-2), z.mul_add(-0.5, 1.0));
    match k as i32 & 3 {
        0 => [cosine, sine],
        1 => [-sine, cosine],
        2 => [-cosine, -sine],
        _ => [sine, -cosine],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(range: std::ops::Range<f32>, ours: fn(f32) -> f32, right: fn(f64) -> f64) -> f64 {
        let steps = 200_000;
        let at = |n: i32| range.start + (range.end - range.start) * n as f32 / steps as f32;
        let error = |x: f32| {
            let right = right(x.into());
            (f64::from(ours(x)) - right).abs() / right.abs().max(1e-30)
        };
        (0..steps).map(|n| error(at(n))).fold(0.0, f64::max)
    }

    #[test]
    fn functions_are_right_to_a_few_units() {
        assert!(worst(-86.0..88.5, exp, f64::exp) < 2.5e-7);
        assert!(worst(-12.0..12.0, tanh, f64::tanh) < 4e-7);
        assert!(worst(-80.0..80.0, sigmoid, |x| 1.0 / (1.0 + (-x).exp())) < 4e-7);
        assert!(worst(-4.0..4.0, erfc, libm::erfc) < 2e-6);
    }

    #[test]
    fn ends_of_the_range_are_not_numbers_gone_wrong() {
        assert_eq!((exp(200.0), exp(-200.0), exp(f32::NEG_INFINITY)), (f32::INFINITY, 0.0, 0.0));
        assert_eq!((tanh(50.0), tanh(-50.0), sigmoid(-200.0)), (1.0, -1.0, 0.0));
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan());
        assert!(exp(-100.0) > 0.0);
    }
}
