// Q4_K: f16 scales of scales and of minima, 12 bytes of both, 128 bytes of 2 weights each.
const BLOCK_ELEMENTS: u32 = 256u;
const BLOCK_HALVES: u32 = 72u;
const SLICES: u32 = 16u;

// Eight neighbours of a low half of 64, and the eight that share their bytes.
fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 4u, 32u, 36u) + 64u * (slice / 4u) + (slice % 4u) * 8u;
}

fn decode(block: u32, slice: u32) -> Slice {
    let j = slice / 4u;
    let at = block + 8u + 16u * j + (slice % 4u) * 4u;
    let first = word_at(at);
    let second = word_at(at + 2u);
    let both = vec2<f32>(f16_at(block), -f16_at(block + 1u));
    let low = both * six_bit_pair(block, 4u, 2u * j);
    let high = both * six_bit_pair(block, 4u, 2u * j + 1u);
    return Slice(
        fma(vec4<f32>(low.x), nibbles(first), vec4<f32>(low.y)),
        fma(vec4<f32>(low.x), nibbles(second), vec4<f32>(low.y)),
        fma(vec4<f32>(high.x), nibbles(first >> 4u), vec4<f32>(high.y)),
        fma(vec4<f32>(high.x), nibbles(second >> 4u), vec4<f32>(high.y)),
    );
}
