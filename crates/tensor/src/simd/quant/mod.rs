//! Quantized blocks in vector registers: rows decoded, and products of rows with f32 vectors. A row's
//! product is summed in 16 lanes, sixteen weights after sixteen, then the lanes in a tree: one order
//! for any number of rows and vectors and any instruction set, that of [`super::dots`]. Weights are
//! rounded to f32 once.

mod blocks;

pub(crate) use blocks::{Iq4Nl, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

use super::lanes::{LANES, Lanes, OnLanes, dispatch, prefetch};

/// A block type.
pub(crate) trait Block {
    /// Bytes of a block.
    const BYTES: usize;
    /// Values of a block.
    const ELEMENTS: usize;

    /// Calls `each` with every sixteen values in turn, and which they are.
    #[allow(private_bounds)]
    fn groups<L: Lanes>(block: &[u8], each: impl FnMut(usize, L));
}

/// `out[row][..]` = the values of each whole row of `weights`, `k` a row.
pub(crate) fn decode<B: Block>(weights: &[u8], out: &mut [f32]) {
    dispatch(DecodeInto::<B> { weights, out, block: std::marker::PhantomData });
}

struct DecodeInto<'a, B> {
    weights: &'a [u8],
    out: &'a mut [f32],
    block: std::marker::PhantomData<B>,
}

impl<B: Block> OnLanes for DecodeInto<'_, B> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let blocks = self.weights.chunks_exact(B::BYTES);
        for (block, out) in blocks.zip(self.out.chunks_exact_mut(B::ELEMENTS)) {
            B::groups::<L>(
                block,
                #[inline(always)]
                |group, values| values.store(&mut out[group * LANES..]),
            );
        }
    }
}

/// `out[m * rows + row] = Σ weights[row]·xs[m]` for every row of `weights`.
pub(crate) fn rows<B: Block, const M: usize>(weights: &[u8], xs: [&[f32]; M], out: &mut [f32]) {
    dispatch(RowsOf::<B, M> { weights, xs, out, block: std::marker::PhantomData });
}

struct RowsOf<'a, B, const M: usize> {
    weights: &'a [u8],
    xs: [&'a [f32]; M],
    out: &'a mut [f32],
    block: std::marker::PhantomData<B>,
}

impl<B: Block, const M: usize> OnLanes for RowsOf<'_, B, M> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let row_bytes = self.xs[0].len() / B::ELEMENTS * B::BYTES;
        let count = self.out.len() / M;
        let mut row = 0;
        // Several rows side by side, so that one's sum need not wait for its own last step.
        while row < count {
            let weights = &self.weights[row * row_bytes..];
            row += match (M, count - row) {
                (1, 4..) if B::ELEMENTS < 256 => {
                    side_by_side::<L, B, M, 4>(weights, row_bytes, &self.xs, self.out, row)
                }
                (1 | 2, 2..) => {
                    side_by_side::<L, B, M, 2>(weights, row_bytes, &self.xs, self.out, row)
                }
                _ => side_by_side::<L, B, M, 1>(weights, row_bytes, &self.xs, self.out, row),
            };
        }
    }
}

/// How far ahead weights are asked for, in bytes.
const AHEAD: usize = 4096;

/// `R` rows with all vectors; returns `R`.
#[inline(always)]
fn side_by_side<L: Lanes, B: Block, const M: usize, const R: usize>(
    weights: &[u8],
    row_bytes: usize,
    xs: &[&[f32]; M],
    out: &mut [f32],
    row: usize,
) -> usize {
    let mut sums = [[L::zero(); M]; R];
    for at in 0..row_bytes / B::BYTES {
        let mut parts = *xs;
        for part in &mut parts {
            *part = &part[at * B::ELEMENTS..][..B::ELEMENTS];
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            let block = &weights[r * row_bytes + at * B::BYTES..][..B::BYTES];
            // Rows side by side are no stream that the processor foresees.
            for line in (0..B::BYTES).step_by(64) {
                prefetch(block.as_ptr().wrapping_add(AHEAD + line));
            }
            B::groups::<L>(
                block,
                #[inline(always)]
                |group, values| {
                    for (sum, x) in sums.iter_mut().zip(&parts) {
                        *sum = values.mul_add(L::load(&x[group * LANES..]), *sum);
                    }
                },
            );
        }
    }
    let count = out.len() / M;
    for (r, sums) in sums.iter().enumerate() {
        for (m, lanes) in sums.iter().enumerate() {
            out[m * count + row + r] = lanes.sum();
        }
    }
    R
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::dots::{Rows, products};

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

    #[test]
    fn decoded_rows_give_the_bits_of_encoded_ones() {
        let mut random = fastrand::Rng::new();
        let (k, count, m) = (3 * 256 + 256, 7, 13);
        let mut weights = vec![0u8; count * k / 32 * Q4_0::BYTES];
        random.fill(&mut weights);
        for block in weights.chunks_exact_mut(Q4_0::BYTES) {
            block[..2].copy_from_slice(&half::f16::from_f32(random.f32()).to_le_bytes());
        }
        let xs: Vec<f32> = (0..m * k).map(|_| random.f32() - 0.5).collect();
        let mut decoded = vec![0.0; count * k];
        decode::<Q4_0>(&weights, &mut decoded);
        let mut together = vec![0.0; m * count];
        let [left, right] = [Rows { data: &xs, pitch: k }, Rows { data: &decoded, pitch: k }];
        products(left, m, right, count, k, &mut together, &mut Vec::new());
        for (x, together) in xs.chunks_exact(k).zip(together.chunks_exact(count)) {
            let mut alone = vec![0.0; count];
            rows::<Q4_0, 1>(&weights, [x], &mut alone);
            assert_eq!(alone, together);
        }
    }
}
