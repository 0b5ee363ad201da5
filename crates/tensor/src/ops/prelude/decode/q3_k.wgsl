// Q3_K: 32 bytes of third bits (clear: 4 less), 64 bytes of 4 weights each, 12 bytes of 6-bit scales,
// an f16 scale of those.
const BLOCK_ELEMENTS: u32 = 256u;
const BLOCK_HALVES: u32 = 55u;
const SLICES: u32 = 16u;

// Four neighbours in each of the four groups of 32 that share bytes.
fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 32u, 64u, 96u) + 128u * (slice / 8u) + (slice % 8u) * 4u;
}

fn scale(block: u32, s: u32) -> f32 {
    let low = (byte_at(block, 96u + s % 8u) >> (4u * (s / 8u))) & 15u;
    let high = (byte_at(block, 104u + s % 4u) >> (2u * (s / 4u))) & 3u;
    return f32(low | (high << 4u)) - 32.0;
}

// Two bits of each byte of one word, the third of each of the other.
fn three_bits(word: u32, shift: u32, third: u32, bit: u32) -> vec4<f32> {
    return bytes(((word >> shift) & 0x03030303u) | (((third >> bit) & 0x01010101u) << 2u)) - 4.0;
}

fn decode(block: u32, slice: u32) -> Slice {
    let h = slice / 8u;
    let l = (slice % 8u) * 4u;
    let word = word_at(block + 16u + (32u * h + l) / 2u);
    let third = word_at(block + l / 2u) >> (4u * h);
    let d = f16_at(block + 54u);
    let s = 8u * h + l / 16u;
    return Slice(
        d * scale(block, s) * three_bits(word, 0u, third, 0u),
        d * scale(block, s + 2u) * three_bits(word, 2u, third, 1u),
        d * scale(block, s + 4u) * three_bits(word, 4u, third, 2u),
        d * scale(block, s + 6u) * three_bits(word, 6u, third, 3u),
    );
}
