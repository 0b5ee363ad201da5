//! Dot products of quantized rows with f32 vectors. A row is summed in 16 lanes, block after block,
//! then the lanes in a tree: one order for any number of vectors and any instruction set.

use super::lanes::{LANES, Lanes, OnLanes, dispatch};

/// A block type whose rows can be multiplied.
pub(crate) trait RowDot {
    /// Bytes of a block.
    const BYTES: usize;
    /// Values of a block.
    const ELEMENTS: usize;

    /// Adds a block's products with each vector's stretch, lane by lane.
    #[allow(private_bounds)]
    fn block<L: Lanes, const M: usize>(block: &[u8], xs: [&[f32]; M], sums: &mut [L; M]);

    /// `out[m * rows + row] = Σ weights[row]·xs[m]` for every row of `weights`.
    fn rows<const M: usize>(weights: &[u8], xs: [&[f32]; M], out: &mut [f32])
    where
        Self: Sized,
    {
        dispatch(RowsOf::<Self, M> { weights, xs, out, block: std::marker::PhantomData });
    }
}

struct RowsOf<'a, B, const M: usize> {
    weights: &'a [u8],
    xs: [&'a [f32]; M],
    out: &'a mut [f32],
    block: std::marker::PhantomData<B>,
}

impl<B: RowDot, const M: usize> OnLanes for RowsOf<'_, B, M> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let row_bytes = self.xs[0].len() / B::ELEMENTS * B::BYTES;
        let count = self.out.len() / M;
        for (row, bytes) in self.weights.chunks_exact(row_bytes).enumerate() {
            let mut sums = [L::zero(); M];
            for (at, block) in bytes.chunks_exact(B::BYTES).enumerate() {
                let mut parts = self.xs;
                for part in &mut parts {
                    *part = &part[at * B::ELEMENTS..][..B::ELEMENTS];
                }
                B::block(block, parts, &mut sums);
            }
            for (m, lanes) in sums.iter().enumerate() {
                self.out[m * count + row] = lanes.sum();
            }
        }
    }
}

/// An f16 as f32, exactly; plain arithmetic, so that it inlines everywhere.
#[inline(always)]
pub(super) fn f16(bits: u16) -> f32 {
    let bits = u32::from(bits);
    // The exponent's bias differs by 112; a product moves it and normalises subnormals.
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
    let special = f32::from_bits((bits & 0x7fff) << 13 | 0x7f80_0000);
    let magnitude = if bits & 0x7c00 == 0x7c00 { special } else { magnitude };
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

#[inline(always)]
fn scale(block: &[u8], at: usize) -> f32 {
    f16(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Q8_0: an f16 scale, then 32 signed bytes.
pub(crate) struct Q8_0;

impl RowDot for Q8_0 {
    const BYTES: usize = 34;
    const ELEMENTS: usize = 32;

    #[inline(always)]
    #[allow(private_bounds)]
    fn block<L: Lanes, const M: usize>(block: &[u8], xs: [&[f32]; M], sums: &mut [L; M]) {
        let block = &block[..Self::BYTES];
        let d = L::splat(scale(block, 0));
        let (low, high) = (L::signed(&block[2..]), L::signed(&block[2 + LANES..]));
        for (x, sum) in xs.iter().zip(sums) {
            let x = &x[..Self::ELEMENTS];
            let t = high.mul_add(L::load(&x[LANES..]), low.mul(L::load(x)));
            *sum = t.mul_add(d, *sum);
        }
    }
}

/// Q6_K: see [`crate::quant::reference`] for the layout.
pub(crate) struct Q6K;

impl RowDot for Q6K {
    const BYTES: usize = 210;
    const ELEMENTS: usize = 256;

    #[inline(always)]
    #[allow(private_bounds)]
    fn block<L: Lanes, const M: usize>(block: &[u8], xs: [&[f32]; M], sums: &mut [L; M]) {
        let block = &block[..Self::BYTES];
        let d = scale(block, 208);
        for half in 0..2 {
            for group in 0..4 {
                for part in 0..2 {
                    let low = &block[64 * half + 32 * (group % 2) + LANES * part..];
                    let high = &block[128 + 32 * half + LANES * part..];
                    let (low_shift, high_shift) = (4 * (group / 2) as i32, 2 * group as i32);
                    let q = L::six_bits(low, low_shift, high, high_shift);
                    let scale = d * f32::from(block[192 + 8 * half + 2 * group + part] as i8);
                    let at = 128 * half + 32 * group + LANES * part;
                    for (x, sum) in xs.iter().zip(sums.iter_mut()) {
                        let t = q.mul(L::load(&x[at..at + LANES]));
                        *sum = t.mul_add(L::splat(scale), *sum);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_becomes_the_same_f32() {
        for bits in 0..=u16::MAX {
            let (ours, right) = (f16(bits), half::f16::from_bits(bits).to_f32());
            assert!(
                ours.to_bits() == right.to_bits() || ours.is_nan() && right.is_nan(),
                "{bits:x}"
            );
        }
    }
}
