//! The block types: where fields lie (see [`crate::quant::reference`]) and how sixteen values at a
//! time become f32. Values of few bits are looked up in tables of sixteen that are scaled first.

use super::super::lanes::{LANES, Lanes, bits};
use super::Block;

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
fn scaled<L: Lanes>(table: &[f32; LANES], d: L) -> L {
    L::load(table).mul(d)
}

/// `table · d + m`, rounded once.
#[inline(always)]
fn affine<L: Lanes>(table: &[f32; LANES], d: L, m: L) -> L {
    L::load(table).mul_add(d, m)
}

/// The f16 at `at` in all lanes.
#[inline(always)]
fn half<L: Lanes>(block: &[u8], at: usize) -> L {
    L::splat_half(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Lanes as numbers in memory, from where each can be had in all lanes.
#[inline(always)]
fn stored<L: Lanes>(lanes: L) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    lanes.store(&mut all);
    all
}

/// A body for each of the given numbers, so that shifts and places in it are constants.
macro_rules! unrolled {
    ($name:ident in [$($n:literal)*] $body:block) => {
        $({
            const $name: usize = $n;
            $body
        })*
    };
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
        nibbles(&block[2..], scaled::<L>(&TABLE, half(block, 0)), &mut each);
    }
}

block! {
    /// Scale and minimum, then 32 halves of bytes.
    Q4_1 20 32 |block, each, L| {
        nibbles(&block[4..], affine::<L>(&COUNT, half(block, 0), half(block, 2)), &mut each);
    }
}

block! {
    /// An f16 scale, then 32 halves of bytes that name values of a table.
    Iq4Nl 18 32 |block, each, L| {
        nibbles(&block[2..], scaled::<L>(&crate::quant::IQ4_NL, half(block, 0)), &mut each);
    }
}

block! {
    /// An f16 scale, 32 fifth bits, then 32 halves of bytes; less 16.
    Q5_0 22 32 |block, each, L| {
        const CLEAR: [f32; LANES] = moved(COUNT, -16.0);
        let d = half::<L>(block, 0);
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
        let (d, m) = (half::<L>(block, 0), half::<L>(block, 2));
        let (clear, set) = (affine::<L>(&COUNT, d, m), affine::<L>(&SET, d, m));
        let high = [4, 6].map(|at| u16::from_le_bytes([block[at], block[at + 1]]));
        each(0, L::lookup_two(&block[8..], 0, high[0], clear, set));
        each(1, L::lookup_two(&block[8..], 4, high[1], clear, set));
    }
}

block! {
    /// An f16 scale, then 32 signed bytes.
    Q8_0 34 32 |block, each, L| {
        let d = half::<L>(block, 0);
        each(0, L::signed(&block[2..]).mul(d));
        each(1, L::signed(&block[2 + LANES..]).mul(d));
    }
}

block! {
    /// 16 bytes of 4-bit scales and minima, 64 bytes of 4 values each, scales of both.
    Q2K 84 256 |block, each, L| {
        let numbers = L::load(&COUNT);
        let scales = stored(L::lookup(block, 0, numbers).mul(half(block, 80)));
        let minima = stored(L::lookup(block, 4, numbers).mul(half(block, 82)).mul(L::splat(-1.0)));
        // 128 values share 32 bytes; odd groups have the upper half of them.
        unrolled! { G in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] {
            let bytes = &block[16 + 32 * (G / 8) + LANES * (G % 2)..];
            let table = affine::<L>(&TWO_BITS, L::splat(scales[G]), L::splat(minima[G]));
            each(G, L::lookup(bytes, 2 * (G / 2 % 4) as i32, table));
        } }
    }
}

block! {
    /// 32 bytes of third bits (clear: 4 less), 64 bytes of 4 values each, 12 bytes of 6-bit scales, a
    /// scale of those.
    Q3K 110 256 |block, each, L| {
        const CLEAR: [f32; LANES] = moved(TWO_BITS, -4.0);
        let word = |at: usize| {
            u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
        };
        // Four bits of scale s in half s / 8 of byte s mod 8, two at bit 2·(s / 4) of byte 8 + s mod 4.
        let (low, high) = ([word(96), word(100)], word(104));
        let mut six = [0u8; LANES];
        for part in 0..4 {
            let four = low[part % 2] >> (4 * (part / 2)) & 0x0f0f_0f0f;
            let two = (high >> (2 * part) & 0x0303_0303) << 4;
            six[4 * part..][..4].copy_from_slice(&(four | two).to_le_bytes());
        }
        let less = L::splat(-32.0).mul_add(L::splat(1.0), L::unsigned(&six));
        let scales = stored(less.mul(half(block, 108)));
        unrolled! { G in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] {
            let bytes = &block[32 + 32 * (G / 8) + LANES * (G % 2)..];
            let high = bits(&block[LANES * (G % 2)..], G / 2);
            let d = L::splat(scales[G]);
            let (clear, set) = (scaled::<L>(&CLEAR, d), scaled::<L>(&TWO_BITS, d));
            each(G, L::lookup_two(bytes, 2 * (G / 2 % 4) as i32, high, clear, set));
        } }
    }
}

/// Eight scales times `d`, then eight minima times `-m`, out of 6 bits each in 12 bytes: the first
/// four of both in the low bits of bytes 0 to 7; of the others, four bits in the halves of bytes 8 to
/// 11 and two at the top of bytes 0 to 7.
#[inline(always)]
fn six_bit_pairs<L: Lanes>(block: &[u8], d: L, m: L) -> [f32; LANES] {
    let word =
        |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    let [first, second, third] = [word(4), word(8), word(12)];
    let words = [
        first & 0x3f3f_3f3f,
        third & 0x0f0f_0f0f | (first >> 6 & 0x0303_0303) << 4,
        second & 0x3f3f_3f3f,
        third >> 4 & 0x0f0f_0f0f | (second >> 6 & 0x0303_0303) << 4,
    ];
    let mut six = [0u8; LANES];
    for (bytes, word) in six.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let numbers = L::unsigned(&six);
    let (scales, minima) = (stored(numbers.mul(d)), stored(numbers.mul(m).mul(L::splat(-1.0))));
    let mut all = scales;
    all[8..].copy_from_slice(&minima[8..]);
    all
}

block! {
    /// Scales of scales and of minima, 12 bytes of both, 128 bytes of 2 values each.
    Q4K 144 256 |block, each, L| {
        let all = six_bit_pairs::<L>(block, half(block, 0), half(block, 2));
        unrolled! { P in [0 1 2 3 4 5 6 7] {
            let table = affine::<L>(&COUNT, L::splat(all[P]), L::splat(all[8 + P]));
            // 64 values share 32 bytes.
            let bytes = &block[16 + 32 * (P / 2)..];
            const SHIFT: i32 = 4 * (P % 2) as i32;
            each(2 * P, L::lookup(bytes, SHIFT, table));
            each(2 * P + 1, L::lookup(&bytes[LANES..], SHIFT, table));
        } }
    }
}

block! {
    /// As Q4_K, with 32 bytes of fifth bits before the values.
    Q5K 176 256 |block, each, L| {
        const SET: [f32; LANES] = moved(COUNT, 16.0);
        let all = six_bit_pairs::<L>(block, half(block, 0), half(block, 2));
        unrolled! { P in [0 1 2 3 4 5 6 7] {
            let (d, m) = (L::splat(all[P]), L::splat(all[8 + P]));
            let (clear, set) = (affine::<L>(&COUNT, d, m), affine::<L>(&SET, d, m));
            let bytes = &block[48 + 32 * (P / 2)..];
            const SHIFT: i32 = 4 * (P % 2) as i32;
            let high = [bits(&block[16..], P), bits(&block[16 + LANES..], P)];
            each(2 * P, L::lookup_two(bytes, SHIFT, high[0], clear, set));
            each(2 * P + 1, L::lookup_two(&bytes[LANES..], SHIFT, high[1], clear, set));
        } }
    }
}

block! {
    /// 128 bytes of low halves, 64 of high pairs, 16 signed scales, an f16 scale.
    Q6K 210 256 |block, each, L| {
        let scales = stored(L::signed(&block[192..]).mul(half(block, 208)));
        unrolled! { P in [0 1 2 3 4 5 6 7] {
            let low = &block[64 * (P / 4) + 32 * (P % 2)..];
            let high = &block[128 + 32 * (P / 4)..];
            let [first, second] =
                L::six_bits(low, 4 * (P / 2 % 2) as i32, high, 2 * (P % 4) as i32);
            each(2 * P, first.mul(L::splat(scales[2 * P])));
            each(2 * P + 1, second.mul(L::splat(scales[2 * P + 1])));
        } }
    }
}
