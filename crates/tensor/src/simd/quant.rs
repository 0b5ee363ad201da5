//! Dot products of quantized rows with f32 vectors. A row is summed in 16 lanes, block after block,
//! then the lanes in a tree: one order for any number of vectors and any instruction set.

use super::vectorize;

/// Lanes of a sum.
const LANES: usize = 16;

/// A block type whose rows can be multiplied.
pub(crate) trait RowDot {
    /// Bytes of a block.
    const BYTES: usize;
    /// Values of a block.
    const ELEMENTS: usize;

    /// Adds a block's products with each vector's stretch, lane by lane.
    fn block<const M: usize>(block: &[u8], xs: [&[f32]; M], sums: &mut [[f32; LANES]; M]);

    /// `out[m * rows + row] = Σ weights[row]·xs[m]` for every row of `weights`.
    #[inline]
    fn rows<const M: usize>(weights: &[u8], xs: [&[f32]; M], out: &mut [f32]) {
        let row_bytes = xs[0].len() / Self::ELEMENTS * Self::BYTES;
        let count = out.len() / M;
        vectorize(
            #[inline(always)]
            || {
                for (row, bytes) in weights.chunks_exact(row_bytes).enumerate() {
                    let mut sums = [[0.0f32; LANES]; M];
                    for (at, block) in bytes.chunks_exact(Self::BYTES).enumerate() {
                        let stretch = at * Self::ELEMENTS..(at + 1) * Self::ELEMENTS;
                        let mut parts = xs;
                        for part in &mut parts {
                            *part = &part[stretch.clone()];
                        }
                        Self::block(block, parts, &mut sums);
                    }
                    for (m, lanes) in sums.iter().enumerate() {
                        out[m * count + row] = tree(lanes);
                    }
                }
            },
        );
    }
}

/// The sum of the lanes, halves on halves.
#[inline(always)]
fn tree(lanes: &[f32; LANES]) -> f32 {
    let mut lanes = *lanes;
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// An f16 as f32, exactly; plain arithmetic, so that it inlines everywhere.
#[inline(always)]
fn f16(bytes: &[u8], at: usize) -> f32 {
    let bits = u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    // The exponent's bias differs by 112; a product moves it and normalises subnormals.
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
    let special = f32::from_bits((bits & 0x7fff) << 13 | 0x7f80_0000);
    let magnitude = if bits & 0x7c00 == 0x7c00 { special } else { magnitude };
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

/// `sums += scale * (q·x)` in each lane, for 16 values.
#[inline(always)]
fn add_16<const M: usize>(
    q: &[f32; LANES],
    scale: f32,
    at: usize,
    xs: &[&[f32]; M],
    sums: &mut [[f32; LANES]; M],
) {
    for (x, sums) in xs.iter().zip(sums) {
        let x = &x[at..at + LANES];
        for lane in 0..LANES {
            sums[lane] = (q[lane] * x[lane]).mul_add(scale, sums[lane]);
        }
    }
}

/// Q8_0: an f16 scale, then 32 signed bytes.
pub(crate) struct Q8_0;

impl RowDot for Q8_0 {
    const BYTES: usize = 34;
    const ELEMENTS: usize = 32;

    #[inline(always)]
    fn block<const M: usize>(block: &[u8], xs: [&[f32]; M], sums: &mut [[f32; LANES]; M]) {
        let scale = f16(block, 0);
        let q = &block[2..34];
        let mut w = [[0.0f32; LANES]; 2];
        for lane in 0..LANES {
            w[0][lane] = f32::from(q[lane] as i8);
        }
        for lane in 0..LANES {
            w[1][lane] = f32::from(q[LANES + lane] as i8);
        }
        for (x, sums) in xs.iter().zip(sums) {
            let (a, b) = (&x[..LANES], &x[LANES..2 * LANES]);
            for lane in 0..LANES {
                let t = w[1][lane].mul_add(b[lane], w[0][lane] * a[lane]);
                sums[lane] = t.mul_add(scale, sums[lane]);
            }
        }
    }
}

/// Q6_K: see [`crate::quant::reference`] for the layout.
pub(crate) struct Q6K;

impl RowDot for Q6K {
    const BYTES: usize = 210;
    const ELEMENTS: usize = 256;

    #[inline(always)]
    fn block<const M: usize>(block: &[u8], xs: [&[f32]; M], sums: &mut [[f32; LANES]; M]) {
        let block = &block[..Self::BYTES];
        let d = f16(block, 208);
        for half in 0..2 {
            for group in 0..4 {
                for part in 0..2 {
                    let low = &block[64 * half + 32 * (group % 2) + LANES * part..][..LANES];
                    let high = &block[128 + 32 * half + LANES * part..][..LANES];
                    let scale = d * f32::from(block[192 + 8 * half + 2 * group + part] as i8);
                    let mut q = [0.0f32; LANES];
                    for lane in 0..LANES {
                        let low = low[lane] >> (4 * (group / 2)) & 15;
                        let high = high[lane] >> (2 * group) & 3;
                        q[lane] = f32::from((low | high << 4) as i8 - 32);
                    }
                    add_16(&q, scale, 128 * half + 32 * group + LANES * part, &xs, sums);
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
            let (ours, right) = (f16(&bits.to_le_bytes(), 0), half::f16::from_bits(bits).to_f32());
            assert!(
                ours.to_bits() == right.to_bits() || ours.is_nan() && right.is_nan(),
                "{bits:x}"
            );
        }
    }
}
