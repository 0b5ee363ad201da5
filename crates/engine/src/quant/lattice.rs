//! IQ types whose values are points of a fixed lattice, from bytes. It must not know the others.
//! Layouts: ggml-common.h; results equal Python `gguf` 0.19, which the packed grids come from
//! (`xtask/python/iq_grids.py`).

use super::{half_at, u16_at, u32_at};

static GRIDS: &[u8; 9216] = include_bytes!("grids.bin");

/// One lattice: `WIDTH` values a point, each an index of `BITS` bits into `values`.
struct Grid<const WIDTH: usize> {
    start: usize,
    bits: usize,
    values: &'static [i8],
}

const EIGHTS: &[i8] = &[0x08, 0x19, 0x2b, 0];
const SIGNS: &[i8] = &[-1, 0, 1, 0];
static IQ2_XXS: Grid<8> = Grid { start: 0, bits: 2, values: EIGHTS };
static IQ2_XS: Grid<8> = Grid { start: 512, bits: 2, values: EIGHTS };
static IQ2_S: Grid<8> = Grid { start: 1536, bits: 2, values: EIGHTS };
static IQ1: Grid<8> = Grid { start: 3584, bits: 2, values: SIGNS };
static IQ3_XXS: Grid<4> = Grid {
    start: 7680,
    bits: 4,
    values: &[0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e, 0, 0, 0, 0, 0, 0, 0, 0],
};
static IQ3_S: Grid<4> = Grid {
    start: 8192,
    bits: 4,
    values: &[0x01, 0x03, 0x05, 0x07, 0x09, 0x0b, 0x0d, 0x0f, 0, 0, 0, 0, 0, 0, 0, 0],
};

impl<const WIDTH: usize> Grid<WIDTH> {
    fn point(&self, index: usize) -> [f32; WIDTH] {
        let per_byte = 8 / self.bits;
        let first = self.start + index * WIDTH / per_byte;
        std::array::from_fn(|at| {
            let byte = GRIDS[first + at / per_byte] >> (self.bits * (at % per_byte));
            f32::from(self.values[usize::from(byte) & ((1 << self.bits) - 1)])
        })
    }
}

/// Seven stored sign bits and an eighth that makes their number even.
fn even_signs(seven: u32) -> u8 {
    let seven = (seven & 0x7F) as u8;
    seven | ((seven.count_ones() as u8) & 1) << 7
}

/// `scale × point`, with the sign of each value from one bit.
fn put_signed(out: &mut [f32], scale: f32, point: &[f32], signs: u8, first: usize) {
    for (at, value) in out.iter_mut().enumerate() {
        let sign = if signs >> (first + at) & 1 == 0 { 1.0 } else { -1.0 };
        *value = scale * point[at] * sign;
    }
}

pub(super) fn iq2_xxs(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    for (sub, values) in out.chunks_exact_mut(32).enumerate() {
        let (points, packed) = (&block[2 + sub * 8..], u32_at(block, 6 + sub * 8));
        let scale = d * (0.5 + (packed >> 28) as f32) * 0.25;
        for (at, eight) in values.chunks_exact_mut(8).enumerate() {
            let signs = even_signs(packed >> (7 * at));
            put_signed(eight, scale, &IQ2_XXS.point(usize::from(points[at])), signs, 0);
        }
    }
}

pub(super) fn iq2_xs(block: &[u8], out: &mut [f32]) {
    let (d, scales) = (half_at(block, 0), &block[66..74]);
    for (at, eight) in out.chunks_exact_mut(8).enumerate() {
        let packed = u16_at(block, 2 + at * 2);
        let factor = scales[at / 4] >> (4 * (at / 2 % 2)) & 0xF;
        let scale = d * (0.5 + f32::from(factor)) * 0.25;
        let point = IQ2_XS.point(usize::from(packed & 511));
        put_signed(eight, scale, &point, even_signs(u32::from(packed >> 9)), 0);
    }
}

pub(super) fn iq2_s(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    let (low, signs, high, scales) = (&block[2..34], &block[34..66], &block[66..74], &block[74..]);
    for (at, eight) in out.chunks_exact_mut(8).enumerate() {
        let index = usize::from(low[at]) | usize::from(high[at / 4] >> (2 * (at % 4)) & 3) << 8;
        let factor = scales[at / 4] >> (4 * (at / 2 % 2)) & 0xF;
        let scale = d * (0.5 + f32::from(factor)) * 0.25;
        put_signed(eight, scale, &IQ2_S.point(index), signs[at], 0);
    }
}

pub(super) fn iq3_xxs(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    for (sub, values) in out.chunks_exact_mut(32).enumerate() {
        let packed = u32_at(block, 66 + sub * 4);
        let scale = d * (0.5 + (packed >> 28) as f32) * 0.5;
        for (at, four) in values.chunks_exact_mut(4).enumerate() {
            let signs = even_signs(packed >> (7 * (at / 2)));
            let point = IQ3_XXS.point(usize::from(block[2 + sub * 8 + at]));
            put_signed(four, scale, &point, signs, at % 2 * 4);
        }
    }
}

pub(super) fn iq3_s(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    let (low, high) = (&block[2..66], &block[66..74]);
    let (signs, scales) = (&block[74..106], &block[106..110]);
    for (at, four) in out.chunks_exact_mut(4).enumerate() {
        let index = usize::from(low[at]) | usize::from(high[at / 8] >> (at % 8) & 1) << 8;
        let factor = scales[at / 16] >> (4 * (at / 8 % 2)) & 0xF;
        let scale = d * f32::from(1 + 2 * factor);
        put_signed(four, scale, &IQ3_S.point(index), signs[at / 2], at % 2 * 4);
    }
}

/// How far the points of IQ1 types are shifted, up or down.
const DELTA: f32 = 0.125;

fn put_shifted(out: &mut [f32], scale: f32, index: usize, down: bool) {
    let delta = if down { -DELTA } else { DELTA };
    for (value, point) in out.iter_mut().zip(IQ1.point(index)) {
        *value = scale * (point + delta);
    }
}

pub(super) fn iq1_s(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    for (sub, values) in out.chunks_exact_mut(32).enumerate() {
        let high = u16_at(block, 34 + sub * 2);
        let scale = d * f32::from(2 * (high >> 12 & 7) + 1);
        for (at, eight) in values.chunks_exact_mut(8).enumerate() {
            let low = usize::from(block[2 + sub * 4 + at]);
            let index = low | usize::from(high >> (3 * at) & 7) << 8;
            put_shifted(eight, scale, index, high & 0x8000 != 0);
        }
    }
}

pub(super) fn iq1_m(block: &[u8], out: &mut [f32]) {
    let (low, high) = (&block[..32], &block[32..48]);
    let scales: [u16; 4] = std::array::from_fn(|at| u16_at(block, 48 + at * 2));
    // The half-precision scale lies in the top nibbles of the four words.
    let bits = scales.iter().enumerate().fold(0, |bits, (at, s)| bits | (s >> 12) << (4 * at));
    let d = half::f16::from_bits(bits).to_f32();
    for (at, eight) in out.chunks_exact_mut(8).enumerate() {
        let sixteen = at / 2;
        let factor = scales[sixteen / 4] >> (3 * (sixteen % 4)) & 7;
        let scale = d * f32::from(2 * factor + 1);
        let nibble = high[at / 2] >> (4 * (at % 2));
        let index = usize::from(low[at]) | usize::from(nibble & 7) << 8;
        put_shifted(eight, scale, index, nibble & 8 != 0);
    }
}
