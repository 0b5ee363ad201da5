//! The block types: where fields lie (see [`crate::quant::reference`]) and how sixteen values at a
//! time become f32. Values of few bits are looked up in tables of sixteen that are scaled first.

use super::super::lanes::{LANES, Lanes, bits};
use super::{Block, f16};

#[inline(always)]
fn scale(block: &[u8], at: usize) -> f32 {
    f16(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// 0, 1, … 15.
#[rustfmt::skip]
const COUNT: [f32; LANES] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// 0, 1, 2, 3 over and over: two bits, whatever stands above them.
const TWO_BITS: [f32; LANES] =
    [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0];

/// Every number of `from` and `by` more.
const fn moved(from: [f32; LANES], by: f32) -> [f32; LANES] {
    let mut table = from;
    let mut at = 0;
    while at < LANES {
        table[at] += by;
        at += 1;
    }
    table
}

/// `table · d`.
#[inline(always)]
fn scaled<L: Lanes>(table: &[f32; LANES], d: f32) -> L {
    L::load(table).mul(L::splat(d))
}

/// `table · d + m`, rounded once.
#[inline(always)]
fn affine<L: Lanes>(table: &[f32; LANES], d: f32, m: f32) -> L {
    L::load(table).mul_add(L::splat(d), L::splat(m))
}

/// Low, then high halves of sixteen bytes.
#[inline(always)]
fn nibbles<L: Lanes>(bytes: &[u8], table: L, mut each: impl FnMut(usize, L)) {
    each(0, L::lookup(bytes, 0, table));
    each(1, L::lookup(bytes, 4, table));
}

macro_rules! block {
    ($(#[$doc:meta])* $name:ident $bytes:literal $elements:literal |$block:ident, $each:ident, $lanes:ident| $body:block) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl Block for $name {
            const BYTES: usize = $bytes;
            const ELEMENTS: usize = $elements;

            #[inline(always)]
            #[allow(private_bounds)]
            fn groups<$lanes: Lanes>($block: &[u8], mut $each: impl FnMut(usize, $lanes)) {
                let $block = &$block[..$bytes];
                $body
            }
        }
    };
}

block! {
    /// An f16 scale, then 32 halves of bytes less 8.
    Q4_0 18 32 |block, each, L| {
        const TABLE: [f32; LANES] = moved(COUNT, -8.0);
        nibbles(&block[2..], scaled::<L>(&TABLE, scale(block, 0)), &mut each);
    }
}

block! {
    /// Scale and minimum, then 32 halves of bytes.
    Q4_1 20 32 |block, each, L| {
        nibbles(&block[4..], affine::<L>(&COUNT, scale(block, 0), scale(block, 2)), &mut each);
    }
}

block! {
    /// An f16 scale, then 32 halves of bytes that name values of a table.
    Iq4Nl 18 32 |block, each, L| {
        nibbles(&block[2..], scaled::<L>(&crate::quant::IQ4_NL, scale(block, 0)), &mut each);
    }
}

block! {
    /// An f16 scale, 32 fifth bits, then 32 halves of bytes; less 16.
    Q5_0 22 32 |block, each, L| {
        const CLEAR: [f32; LANES] = moved(COUNT, -16.0);
        let d = scale(block, 0);
        let (clear, set) = (scaled::<L>(&CLEAR, d), scaled::<L>(&COUNT, d));
        let high = [2, 4].map(|at| u16::from_le_bytes([block[at], block[at + 1]]));
        each(0, L::lookup_two(&block[6..], 0, high[0], clear, set));
        each(1, L::lookup_two(&block[6..], 4, high[1], clear, set));
    }
}

block! {
    /// Scale and minimum, 32 fifth bits, then 32 halves of bytes.
    Q5_1 24 32 |block, each, L| {
        const SET: [f32; LANES] = moved(COUNT, 16.0);
        let (d, m) = (scale(block, 0), scale(block, 2));
        let (clear, set) = (affine::<L>(&COUNT, d, m), affine::<L>(&SET, d, m));
        let high = [4, 6].map(|at| u16::from_le_bytes([block[at], block[at + 1]]));
        each(0, L::lookup_two(&block[8..], 0, high[0], clear, set));
        each(1, L::lookup_two(&block[8..], 4, high[1], clear, set));
    }
}

block! {
    /// An f16 scale, then 32 signed bytes.
    Q8_0 34 32 |block, each, L| {
        let d = L::splat(scale(block, 0));
        each(0, L::signed(&block[2..]).mul(d));
        each(1, L::signed(&block[2 + LANES..]).mul(d));
    }
}

block! {
    /// 16 bytes of 4-bit scales and minima, 64 bytes of 4 values each, scales of both.
    Q2K 84 256 |block, each, L| {
        let (d, least) = (scale(block, 80), scale(block, 82));
        for group in 0..16 {
            // 128 values share 32 bytes: 16 groups, the upper half of the bytes for odd ones.
            let bytes = &block[16 + 32 * (group / 8) + LANES * (group % 2)..];
            let both = block[group];
            let table =
                affine::<L>(&TWO_BITS, d * f32::from(both & 15), -(least * f32::from(both >> 4)));
            each(group, L::lookup(bytes, 2 * (group / 2 % 4) as i32, table));
        }
    }
}

block! {
    /// 32 bytes of third bits (clear: 4 less), 64 bytes of 4 values each, 12 bytes of 6-bit scales, a
    /// scale of those.
    Q3K 110 256 |block, each, L| {
        const CLEAR: [f32; LANES] = moved(TWO_BITS, -4.0);
        let d = scale(block, 108);
        let scales = &block[96..108];
        for group in 0..16 {
            let bytes = &block[32 + 32 * (group / 8) + LANES * (group % 2)..];
            let high = bits(&block[LANES * (group % 2)..], group / 2);
            let low = if group < 8 { scales[group] & 15 } else { scales[group - 8] >> 4 };
            let upper = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
            let d = d * (f32::from(low | upper << 4) - 32.0);
            let (clear, set) = (scaled::<L>(&CLEAR, d), scaled::<L>(&TWO_BITS, d));
            each(group, L::lookup_two(bytes, 2 * (group / 2 % 4) as i32, high, clear, set));
        }
    }
}

/// Scale and minimum `at` of eight, of 6 bits each in 12 bytes.
#[inline(always)]
fn six_bit_pair(bytes: &[u8], at: usize) -> (f32, f32) {
    let (d, m) = match at {
        0..4 => (bytes[at] & 63, bytes[at + 4] & 63),
        _ => {
            (bytes[at + 4] & 15 | bytes[at - 4] >> 6 << 4, bytes[at + 4] >> 4 | bytes[at] >> 6 << 4)
        }
    };
    (f32::from(d), f32::from(m))
}

block! {
    /// Scales of scales and of minima, 12 bytes of both, 128 bytes of 2 values each.
    Q4K 144 256 |block, each, L| {
        let (d, least) = (scale(block, 0), scale(block, 2));
        for part in 0..8 {
            let (scale, minimum) = six_bit_pair(&block[4..16], part);
            let table = affine::<L>(&COUNT, d * scale, -(least * minimum));
            // 64 values share 32 bytes.
            let bytes = &block[16 + 32 * (part / 2)..];
            let shift = 4 * (part % 2) as i32;
            each(2 * part, L::lookup(bytes, shift, table));
            each(2 * part + 1, L::lookup(&bytes[LANES..], shift, table));
        }
    }
}

block! {
    /// As Q4_K, with 32 bytes of fifth bits before the values.
    Q5K 176 256 |block, each, L| {
        const SET: [f32; LANES] = moved(COUNT, 16.0);
        let (d, least) = (scale(block, 0), scale(block, 2));
        for part in 0..8 {
            let (scale, minimum) = six_bit_pair(&block[4..16], part);
            let (d, m) = (d * scale, -(least * minimum));
            let (clear, set) = (affine::<L>(&COUNT, d, m), affine::<L>(&SET, d, m));
            let bytes = &block[48 + 32 * (part / 2)..];
            let shift = 4 * (part % 2) as i32;
            for half in 0..2 {
                let high = bits(&block[16 + LANES * half..], part);
                let bytes = &bytes[LANES * half..];
                each(2 * part + half, L::lookup_two(bytes, shift, high, clear, set));
            }
        }
    }
}

block! {
    /// 128 bytes of low halves, 64 of high pairs, 16 signed scales, an f16 scale.
    Q6K 210 256 |block, each, L| {
        let d = scale(block, 208);
        for group in 0..16 {
            let (half, quarter, part) = (group / 8, group / 2 % 4, group % 2);
            let low = &block[64 * half + 32 * (quarter % 2) + LANES * part..];
            let high = &block[128 + 32 * half + LANES * part..];
            let values =
                L::six_bits(low, 4 * (quarter / 2) as i32, high, 2 * quarter as i32);
            each(group, values.mul(L::splat(d * f32::from(block[192 + group] as i8))));
        }
    }
}
