//! Blocks decoded in double precision: the oracle. It must not share code with the kernels.

use half::f16;
use tintype_gpu::DType;

/// The values of whole blocks, or `None` for a type that is not decoded or a partial block.
pub fn decode(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    let size = dtype.block_bytes() as usize;
    if !bytes.len().is_multiple_of(size) {
        return None;
    }
    let value = match dtype {
        DType::Q4_0 => q4_0,
        DType::Q4_1 => q4_1,
        DType::Q5_0 => q5_0,
        DType::Q5_1 => q5_1,
        DType::Q8_0 => q8_0,
        DType::Q2K => q2_k,
        DType::Q3K => q3_k,
        DType::Q4K => q4_k,
        DType::Q5K => q5_k,
        DType::Q6K => q6_k,
        DType::Iq4Nl => iq4_nl,
        _ => return None,
    };
    let elements = dtype.block_elements() as usize;
    let blocks = bytes.chunks_exact(size);
    Some(blocks.flat_map(|block| (0..elements).map(move |at| value(block, at))).collect())
}

fn scale(bytes: &[u8], at: usize) -> f64 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64()
}

/// 4 bits: value `at` of 32 in 16 bytes, low halves first.
fn nibble(bytes: &[u8], at: usize) -> u8 {
    bytes[at % 16] >> (4 * (at / 16)) & 15
}

/// Bit `at` of a string of bytes.
fn bit(bytes: &[u8], at: usize) -> u8 {
    bytes[at / 8] >> (at % 8) & 1
}

/// An f16 scale, then halves of bytes less 8.
fn q4_0(block: &[u8], at: usize) -> f64 {
    scale(block, 0) * (f64::from(nibble(&block[2..], at)) - 8.0)
}

/// An f16 scale, an f16 minimum, then halves of bytes.
fn q4_1(block: &[u8], at: usize) -> f64 {
    scale(block, 0) * f64::from(nibble(&block[4..], at)) + scale(block, 2)
}

/// An f16 scale, a fifth bit of each value, then halves of bytes; less 16.
fn q5_0(block: &[u8], at: usize) -> f64 {
    let q = nibble(&block[6..], at) | bit(&block[2..6], at) << 4;
    scale(block, 0) * (f64::from(q) - 16.0)
}

/// An f16 scale, an f16 minimum, a fifth bit of each value, then halves of bytes.
fn q5_1(block: &[u8], at: usize) -> f64 {
    let q = nibble(&block[8..], at) | bit(&block[4..8], at) << 4;
    scale(block, 0) * f64::from(q) + scale(block, 2)
}

/// An f16 scale, then 32 signed bytes.
fn q8_0(block: &[u8], at: usize) -> f64 {
    scale(block, 0) * f64::from(block[2 + at] as i8)
}

/// 16 bytes (scale in the low, minimum in the high half) of 16 values each, 64 bytes of values, f16
/// scales of scales and of minima. Value `128·h + 32·j + l` is at bit 2j of byte `32·h + l`.
fn q2_k(block: &[u8], at: usize) -> f64 {
    let (h, j, l) = (at / 128, at / 32 % 4, at % 32);
    let both = block[at / 16];
    let q = block[16 + 32 * h + l] >> (2 * j) & 3;
    scale(block, 80) * f64::from(both & 15) * f64::from(q) - scale(block, 82) * f64::from(both >> 4)
}

/// 32 bytes of third bits, 64 bytes of two bits as in Q2_K, 12 bytes of scales, an f16 scale. Value
/// `128·h + 32·j + l` has its third bit at bit `4h + j` of byte l; clear means 4 less. Scale s has its
/// low 4 bits in half `s / 8` of byte `s mod 8`, its high 2 bits at bit `2·(s / 4)` of byte
/// `8 + s mod 4`, and is 32 less.
fn q3_k(block: &[u8], at: usize) -> f64 {
    let (h, j, l, s) = (at / 128, at / 32 % 4, at % 32, at / 16);
    let low = block[32 + 32 * h + l] >> (2 * j) & 3;
    let high = block[l] >> (4 * h + j) & 1;
    let scales = &block[96..108];
    let six = scales[s % 8] >> (4 * (s / 8)) & 15 | (scales[8 + s % 4] >> (2 * (s / 4)) & 3) << 4;
    let q = f64::from(low) - if high == 1 { 0.0 } else { 4.0 };
    scale(block, 108) * (f64::from(six) - 32.0) * q
}

/// Scale and minimum `s` of 8 in 12 bytes: the first four of each have 6 bits in bytes s and s + 4;
/// the others have 4 bits in the halves of byte s + 4 and 2 at the top of bytes s − 4 and s.
fn pair(bytes: &[u8], s: usize) -> (f64, f64) {
    let (d, m) = if s < 4 {
        (bytes[s] & 63, bytes[s + 4] & 63)
    } else {
        let low = bytes[s + 4];
        (low & 15 | (bytes[s - 4] & 0xc0) >> 2, low >> 4 | (bytes[s] & 0xc0) >> 2)
    };
    (f64::from(d), f64::from(m))
}

/// f16 scales of scales and of minima, 12 bytes of both, 128 bytes of values: value `64·j + l` in the
/// low half of byte `32·j + l`, value `64·j + 32 + l` in its high half.
fn q4_k(block: &[u8], at: usize) -> f64 {
    let (j, high, l) = (at / 64, at / 32 % 2, at % 32);
    let (d, m) = pair(&block[4..16], at / 32);
    let q = block[16 + 32 * j + l] >> (4 * high) & 15;
    scale(block, 0) * d * f64::from(q) - scale(block, 2) * m
}

/// As Q4_K, with 32 bytes of fifth bits before the values: value `32·p + l` has it at bit p of byte l.
fn q5_k(block: &[u8], at: usize) -> f64 {
    let (j, high, l) = (at / 64, at / 32 % 2, at % 32);
    let (d, m) = pair(&block[4..16], at / 32);
    let fifth = block[16 + l] >> (at / 32) & 1;
    let q = block[48 + 32 * j + l] >> (4 * high) & 15 | fifth << 4;
    scale(block, 0) * d * f64::from(q) - scale(block, 2) * m
}

/// 128 bytes of low halves, 64 bytes of high pairs, 16 signed scales of 16 values each, an f16
/// scale over all. Value `128·h + 32·g + l` has its low 4 bits in byte `64·h + 32·(g mod 2) + l`
/// (upper half for g ≥ 2), its high 2 bits in byte `32·h + l` of the pairs at bit 2g.
fn q6_k(block: &[u8], at: usize) -> f64 {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let (h, g, l) = (at / 128, at / 32 % 4, at % 32);
    let low = low[64 * h + 32 * (g % 2) + l] >> (4 * (g / 2)) & 15;
    let high = high[32 * h + l] >> (2 * g) & 3;
    let q = f64::from(low | high << 4) - 32.0;
    scale(block, 208) * f64::from(scales[at / 16] as i8) * q
}

/// An f16 scale, then halves of bytes that name values.
fn iq4_nl(block: &[u8], at: usize) -> f64 {
    const VALUES: [f64; 16] = [
        -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0,
        69.0, 89.0, 113.0,
    ];
    scale(block, 0) * VALUES[usize::from(nibble(&block[2..], at))]
}
