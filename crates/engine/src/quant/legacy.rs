//! The first quantized types of ggml, blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, both ways.
//! It must not know super-blocks. Layouts: ggml-common.h; results equal Python `gguf` 0.19.

use super::{half_at, u32_at};

const HALF_BLOCK: usize = 16;

/// Low halves of the bytes first, then high halves.
fn nibbles(bytes: &[u8], mut put: impl FnMut(usize, u8)) {
    for (at, byte) in bytes.iter().enumerate() {
        put(at, byte & 0xF);
        put(at + bytes.len(), byte >> 4);
    }
}

pub(super) fn q4_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    nibbles(&block[2..], |at, q| out[at] = scale * (f32::from(q) - 8.0));
}

pub(super) fn q4_1(block: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    nibbles(&block[4..], |at, q| out[at] = scale * f32::from(q) + minimum);
}

pub(super) fn q5_0(block: &[u8], out: &mut [f32]) {
    let (scale, high) = (half_at(block, 0), u32_at(block, 2));
    nibbles(&block[6..], |at, q| {
        let q = q | ((high >> at & 1) as u8) << 4;
        out[at] = scale * (f32::from(q) - 16.0);
    });
}

pub(super) fn q5_1(block: &[u8], out: &mut [f32]) {
    let (scale, minimum, high) = (half_at(block, 0), half_at(block, 2), u32_at(block, 4));
    nibbles(&block[8..], |at, q| {
        let q = q | ((high >> at & 1) as u8) << 4;
        out[at] = scale * f32::from(q) + minimum;
    });
}

pub(super) fn q8_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (value, q) in out.iter_mut().zip(&block[2..]) {
        *value = f32::from(*q as i8) * scale;
    }
}

/// The value of largest magnitude, the first of equals.
fn extreme(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |best: f32, v| if v.abs() > best.abs() { *v } else { best })
}

/// 1/scale, or 0 for a block of zeros.
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Scale and half-rounded offset onto `0..=top`, truncated, as the reference does.
fn level(value: f32, offset: f32, top: u8) -> u8 {
    ((value + offset) as u8).min(top)
}

fn put_half(out: &mut [u8], value: f32) {
    out.copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
}

fn put_nibbles(levels: &[u8; 32], out: &mut [u8]) {
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = levels[at] & 0xF | levels[at + HALF_BLOCK] << 4;
    }
}

fn put_fifth_bits(levels: &[u8; 32], out: &mut [u8]) {
    let bits = levels.iter().enumerate().fold(0u32, |bits, (at, q)| bits | u32::from(q >> 4) << at);
    out.copy_from_slice(&bits.to_le_bytes());
}

pub(super) fn to_q4_0(values: &[f32], out: &mut [u8]) {
    let scale = extreme(values) / -8.0;
    let inverse = inverse(scale);
    let levels = std::array::from_fn(|at| level(values[at] * inverse, 8.5, 15));
    put_half(&mut out[..2], scale);
    put_nibbles(&levels, &mut out[2..]);
}

pub(super) fn to_q5_0(values: &[f32], out: &mut [u8]) {
    let scale = extreme(values) / -16.0;
    let inverse = inverse(scale);
    let levels = std::array::from_fn(|at| level(values[at] * inverse, 16.5, 31));
    put_half(&mut out[..2], scale);
    put_fifth_bits(&levels, &mut out[2..6]);
    put_nibbles(&levels, &mut out[6..]);
}

/// Scale, minimum and levels of a block whose levels run from the minimum to the maximum.
fn ranged(values: &[f32], top: u8) -> (f32, f32, [u8; 32]) {
    let minimum = values.iter().copied().fold(f32::INFINITY, f32::min);
    let maximum = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scale = (maximum - minimum) / f32::from(top);
    let inverse = inverse(scale);
    let levels = std::array::from_fn(|at| level((values[at] - minimum) * inverse, 0.5, top));
    (scale, minimum, levels)
}

pub(super) fn to_q4_1(values: &[f32], out: &mut [u8]) {
    let (scale, minimum, levels) = ranged(values, 15);
    put_half(&mut out[..2], scale);
    put_half(&mut out[2..4], minimum);
    put_nibbles(&levels, &mut out[4..]);
}

pub(super) fn to_q5_1(values: &[f32], out: &mut [u8]) {
    let (scale, minimum, levels) = ranged(values, 31);
    put_half(&mut out[..2], scale);
    put_half(&mut out[2..4], minimum);
    put_fifth_bits(&levels, &mut out[4..8]);
    put_nibbles(&levels, &mut out[8..]);
}

pub(super) fn to_q8_0(values: &[f32], out: &mut [u8]) {
    let scale = extreme(values).abs() / 127.0;
    let inverse = inverse(scale);
    put_half(&mut out[..2], scale);
    for (byte, value) in out[2..].iter_mut().zip(values) {
        // `round` goes away from zero at halves, like the reference.
        *byte = (value * inverse).round() as i8 as u8;
    }
}
