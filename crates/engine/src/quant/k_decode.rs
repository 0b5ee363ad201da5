//! Super-blocks of 256 with quantized scales: Q2_K to Q6_K, from bytes.
//! It must not know how they are made. Layouts: ggml-common.h; results equal Python `gguf` 0.19.

use super::half_at;

pub(super) fn q2_k(block: &[u8], out: &mut [f32]) {
    let (scales, levels) = (&block[..16], &block[16..80]);
    let (scale, minimum) = (half_at(block, 80), half_at(block, 82));
    for (at, value) in out.iter_mut().enumerate() {
        // Each 32 bytes hold four rows of 32 values, two bits each.
        let (part, row, column) = (at / 128, at / 32 % 4, at % 32);
        let q = levels[part * 32 + column] >> (2 * row) & 3;
        let packed = scales[at / 16];
        let d = scale * f32::from(packed & 0xF);
        let m = minimum * f32::from(packed >> 4);
        *value = d * f32::from(q) - m;
    }
}

pub(super) fn q3_k(block: &[u8], out: &mut [f32]) {
    let (high, levels, packed) = (&block[..32], &block[32..96], &block[96..108]);
    let scale = half_at(block, 108);
    let scales: [f32; 16] = std::array::from_fn(|at| {
        let low = packed[at % 8] >> (4 * (at / 8)) & 0xF;
        let top = packed[8 + at % 4] >> (2 * (at / 4)) & 3;
        scale * (f32::from(low | top << 4) - 32.0)
    });
    for (at, value) in out.iter_mut().enumerate() {
        let (part, row, column) = (at / 128, at / 32 % 4, at % 32);
        let low = levels[part * 32 + column] >> (2 * row) & 3;
        // A set bit means that 4 is *not* taken away.
        let top = high[column] >> (at / 32) & 1 ^ 1;
        *value = scales[at / 16] * (f32::from(low) - f32::from(top << 2));
    }
}

/// The eight 6-bit scales and minimums that Q4_K and Q5_K pack into 12 bytes.
pub(super) fn scale_and_minimum(packed: &[u8], at: usize) -> (u8, u8) {
    if at < 4 {
        (packed[at] & 0x3F, packed[at + 4] & 0x3F)
    } else {
        let (d, m, both) = (packed[at - 4], packed[at], packed[at + 4]);
        (both & 0xF | d >> 2 & 0x30, both >> 4 | m >> 2 & 0x30)
    }
}

pub(super) fn q4_k(block: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let (packed, levels) = (&block[4..16], &block[16..144]);
    for (sub, values) in out.chunks_exact_mut(32).enumerate() {
        let (d, m) = scale_and_minimum(packed, sub);
        let (d, m) = (scale * f32::from(d), minimum * f32::from(m));
        for (column, value) in values.iter_mut().enumerate() {
            let q = levels[sub / 2 * 32 + column] >> (4 * (sub % 2)) & 0xF;
            *value = d * f32::from(q) - m;
        }
    }
}

pub(super) fn q5_k(block: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let (packed, high, levels) = (&block[4..16], &block[16..48], &block[48..176]);
    for (sub, values) in out.chunks_exact_mut(32).enumerate() {
        let (d, m) = scale_and_minimum(packed, sub);
        let (d, m) = (scale * f32::from(d), minimum * f32::from(m));
        for (column, value) in values.iter_mut().enumerate() {
            let low = levels[sub / 2 * 32 + column] >> (4 * (sub % 2)) & 0xF;
            let q = low | (high[column] >> sub & 1) << 4;
            *value = d * f32::from(q) - m;
        }
    }
}

pub(super) fn q6_k(block: &[u8], out: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let scale = half_at(block, 208);
    for (at, value) in out.iter_mut().enumerate() {
        // Halves of 128: 64 bytes of low nibbles, 32 bytes of high pairs.
        let (part, row, column) = (at / 128, at / 32 % 4, at % 32);
        let nibble = low[part * 64 + row % 2 * 32 + column] >> (4 * (row / 2)) & 0xF;
        let pair = high[part * 32 + column] >> (2 * row) & 3;
        let q = f32::from(nibble | pair << 4) - 32.0;
        *value = scale * f32::from(scales[at / 16] as i8) * q;
    }
}
