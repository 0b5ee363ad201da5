//! Small-table types, from bytes: one and two bits, ternary, non-linear 4-bit, 4-bit floats.
//! It must not know lattices. Layouts: ggml-common.h; results equal Python `gguf` 0.19, and for
//! Q1_0 and Q2_0, which that package only lists, ggml-quants.c.

use super::{float8, half_at, u16_at};

/// Levels of IQ4_NL and IQ4_XS.
const NON_LINEAR: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Values of a 4-bit float (E2M1), doubled to be whole.
const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

pub(super) fn q1_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (at, value) in out.iter_mut().enumerate() {
        *value = if block[2 + at / 8] >> (at % 8) & 1 == 1 { scale } else { -scale };
    }
}

pub(super) fn q2_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (at, value) in out.iter_mut().enumerate() {
        *value = (f32::from(block[2 + at / 4] >> (2 * (at % 4)) & 3) - 1.0) * scale;
    }
}

pub(super) fn iq4_nl(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (at, value) in out.iter_mut().enumerate() {
        let q = block[2 + at % 16] >> (4 * (at / 16)) & 0xF;
        *value = scale * f32::from(NON_LINEAR[usize::from(q)]);
    }
}

pub(super) fn iq4_xs(block: &[u8], out: &mut [f32]) {
    let (scale, high) = (half_at(block, 0), u16_at(block, 2));
    let (low, levels) = (&block[4..8], &block[8..]);
    for (sub, values) in out.chunks_exact_mut(32).enumerate() {
        let factor = low[sub / 2] >> (4 * (sub % 2)) & 0xF | ((high >> (2 * sub) & 3) as u8) << 4;
        let d = scale * (f32::from(factor) - 32.0);
        for (at, value) in values.iter_mut().enumerate() {
            let q = levels[sub * 16 + at % 16] >> (4 * (at / 16)) & 0xF;
            *value = d * f32::from(NON_LINEAR[usize::from(q)]);
        }
    }
}

/// Powers of three that bring each of a byte's five digits to its top.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// The leading base-3 digit of `byte` times a power of three, less one.
fn ternary(byte: u8, power: u8) -> f32 {
    let digit = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
    f32::from(digit) - 1.0
}

pub(super) fn tq1_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 52);
    let mut put = out.iter_mut();
    // 32 bytes of five digits, 16 bytes of five, 4 bytes of four.
    for (bytes, digits) in [(&block[..32], 5), (&block[32..48], 5), (&block[48..52], 4)] {
        for power in &POWERS[..digits] {
            for (byte, value) in bytes.iter().zip(&mut put) {
                *value = scale * ternary(*byte, *power);
            }
        }
    }
}

pub(super) fn tq2_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 64);
    for (at, value) in out.iter_mut().enumerate() {
        let (part, row, column) = (at / 128, at / 32 % 4, at % 32);
        let q = block[part * 32 + column] >> (2 * row) & 3;
        *value = scale * (f32::from(q) - 1.0);
    }
}

pub(super) fn mxfp4(block: &[u8], out: &mut [f32]) {
    let scale = float8::e8m0_half(block[0]);
    for (at, value) in out.iter_mut().enumerate() {
        let q = block[1 + at % 16] >> (4 * (at / 16)) & 0xF;
        *value = scale * f32::from(E2M1_DOUBLED[usize::from(q)]);
    }
}

pub(super) fn nvfp4(block: &[u8], out: &mut [f32]) {
    for (sub, values) in out.chunks_exact_mut(16).enumerate() {
        let scale = float8::ue4m3_half(block[sub]);
        for (at, value) in values.iter_mut().enumerate() {
            let q = block[4 + sub * 8 + at % 8] >> (4 * (at / 8)) & 0xF;
            *value = scale * f32::from(E2M1_DOUBLED[usize::from(q)]);
        }
    }
}
