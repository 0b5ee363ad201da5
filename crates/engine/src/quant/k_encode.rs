//! Super-blocks of 256 with quantized scales: Q2_K to Q6_K, packed as the types lay them out.
//! It must not know how levels and scales are found (`k_search.rs`). Layouts: ggml-common.h.

use half::f16;

use super::k_search::{Kind, VALUES, ranged, signed};

fn put_half(out: &mut [u8], value: f32) {
    out.copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

pub(super) fn q2_k(values: &[f32], out: &mut [u8]) {
    let found = ranged(values, Kind { width: 16, top: 3.0, most: 15, radius: 2 });
    for (byte, (d, m)) in out[..16].iter_mut().zip(found.factors) {
        *byte = d as u8 | (m as u8) << 4;
    }
    put_pairs(&found.levels, &mut out[16..80]);
    put_half(&mut out[80..82], found.scale);
    put_half(&mut out[82..84], found.minimum);
}

/// Two low bits of each level, four rows of 32 to 32 bytes.
fn put_pairs(levels: &[i32; VALUES], out: &mut [u8]) {
    out.fill(0);
    for (at, level) in levels.iter().enumerate() {
        out[at / 128 * 32 + at % 32] |= ((level & 3) as u8) << (2 * (at / 32 % 4));
    }
}

pub(super) fn q3_k(values: &[f32], out: &mut [u8]) {
    let mut found = signed(values, (-4.0, 3.0), (-32, 31));
    out[..32].fill(0);
    for (at, level) in found.levels.iter_mut().enumerate() {
        *level += 4;
        out[at % 32] |= ((*level >> 2 & 1) as u8) << (at / 32);
    }
    put_pairs(&found.levels, &mut out[32..96]);
    out[96..108].fill(0);
    for (sub, factor) in found.factors.iter().enumerate() {
        let factor = (factor + 32) as u8;
        out[96 + sub % 8] |= (factor & 0xF) << (4 * (sub / 8));
        out[104 + sub % 4] |= (factor >> 4) << (2 * (sub / 4));
    }
    put_half(&mut out[108..110], found.scale);
}

/// Eight 6-bit scales and minimums in 12 bytes, as Q4_K and Q5_K hold them.
fn put_factors(factors: &[(i32, i32); 16], out: &mut [u8]) {
    out.fill(0);
    for (at, (d, m)) in factors.iter().take(8).enumerate() {
        let (d, m) = (*d as u8, *m as u8);
        if at < 4 {
            out[at] |= d;
            out[at + 4] |= m;
        } else {
            out[at + 4] = d & 0xF | m << 4;
            out[at - 4] |= d >> 4 << 6;
            out[at] |= m >> 4 << 6;
        }
    }
}

fn put_low_nibbles(levels: &[i32; VALUES], out: &mut [u8]) {
    for (at, byte) in out.iter_mut().enumerate() {
        let first = at / 32 * 64 + at % 32;
        *byte = (levels[first] & 0xF) as u8 | ((levels[first + 32] & 0xF) as u8) << 4;
    }
}

pub(super) fn q4_k(values: &[f32], out: &mut [u8]) {
    let found = ranged(values, Kind { width: 32, top: 15.0, most: 63, radius: 1 });
    put_half(&mut out[..2], found.scale);
    put_half(&mut out[2..4], found.minimum);
    put_factors(&found.factors, &mut out[4..16]);
    put_low_nibbles(&found.levels, &mut out[16..144]);
}

pub(super) fn q5_k(values: &[f32], out: &mut [u8]) {
    let found = ranged(values, Kind { width: 32, top: 31.0, most: 63, radius: 1 });
    put_half(&mut out[..2], found.scale);
    put_half(&mut out[2..4], found.minimum);
    put_factors(&found.factors, &mut out[4..16]);
    out[16..48].fill(0);
    for (at, level) in found.levels.iter().enumerate() {
        out[16 + at % 32] |= ((level >> 4) as u8) << (at / 32);
    }
    put_low_nibbles(&found.levels, &mut out[48..176]);
}

pub(super) fn q6_k(values: &[f32], out: &mut [u8]) {
    let found = signed(values, (-32.0, 31.0), (-128, 127));
    out[..208].fill(0);
    for (at, level) in found.levels.iter().enumerate() {
        let (part, row, column) = (at / 128, at / 32 % 4, at % 32);
        let q = (level + 32) as u8;
        out[part * 64 + row % 2 * 32 + column] |= (q & 0xF) << (4 * (row / 2));
        out[128 + part * 32 + column] |= (q >> 4) << (2 * row);
    }
    for (byte, factor) in out[192..208].iter_mut().zip(found.factors) {
        *byte = factor as i8 as u8;
    }
    put_half(&mut out[208..210], found.scale);
}
