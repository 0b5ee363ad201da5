// Q6_K: 128 bytes of low halves, 64 bytes of high pairs, 16 signed scales, an f16 scale.
const BLOCK_ELEMENTS: u32 = 256u;
const BLOCK_HALVES: u32 = 105u;
const SLICES: u32 = 16u;

// Four neighbours in each of the four groups of 32 that share bytes.
fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 32u, 64u, 96u) + 128u * (slice / 8u) + (slice % 8u) * 4u;
}

fn scale(block: u32, byte: u32) -> f32 {
    return f32(extractBits(bitcast<i32>(byte_at(block, byte)), 0u, 8u));
}

// Four 6-bit values out of bytes of 4 and 2 bits.
fn six(low: u32, high: u32) -> vec4<f32> {
    return bytes((low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4u)) - 32.0;
}

fn decode(block: u32, slice: u32) -> Slice {
    let h = slice / 8u;
    let l = (slice % 8u) * 4u;
    let low0 = word_at(block + (64u * h + l) / 2u);
    let low1 = word_at(block + (64u * h + 32u + l) / 2u);
    let high = word_at(block + (128u + 32u * h + l) / 2u);
    let d = f16_at(block + 104u);
    let s = 192u + 8u * h + l / 16u;
    return Slice(
        d * scale(block, s) * six(low0, high),
        d * scale(block, s + 2u) * six(low1, high >> 2u),
        d * scale(block, s + 4u) * six(low0 >> 4u, high >> 4u),
        d * scale(block, s + 6u) * six(low1 >> 4u, high >> 6u),
    );
}
