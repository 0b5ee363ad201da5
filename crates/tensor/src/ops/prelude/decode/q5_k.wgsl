// Q5_K: as Q4_K, with 32 bytes of fifth bits before the weights.
const BLOCK_ELEMENTS: u32 = 256u;
const BLOCK_HALVES: u32 = 88u;
const SLICES: u32 = 16u;

// Eight neighbours of a low half of 64, and the eight that share their bytes.
fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 4u, 32u, 36u) + 64u * (slice / 4u) + (slice % 4u) * 8u;
}

fn five(word: u32, shift: u32, high: u32, bit: u32) -> vec4<f32> {
    return bytes(((word >> shift) & 0x0f0f0f0fu) | (((high >> bit) & 0x01010101u) << 4u));
}

fn decode(block: u32, slice: u32) -> Slice {
    let j = slice / 4u;
    let l = (slice % 4u) * 8u;
    let at = block + 24u + 16u * j + l / 2u;
    let first = word_at(at);
    let second = word_at(at + 2u);
    let first_high = word_at(block + 8u + l / 2u);
    let second_high = word_at(block + 10u + l / 2u);
    let both = vec2<f32>(f16_at(block), -f16_at(block + 1u));
    let low = both * six_bit_pair(block, 4u, 2u * j);
    let high = both * six_bit_pair(block, 4u, 2u * j + 1u);
    return Slice(
        fma(vec4<f32>(low.x), five(first, 0u, first_high, 2u * j), vec4<f32>(low.y)),
        fma(vec4<f32>(low.x), five(second, 0u, second_high, 2u * j), vec4<f32>(low.y)),
        fma(vec4<f32>(high.x), five(first, 4u, first_high, 2u * j + 1u), vec4<f32>(high.y)),
        fma(vec4<f32>(high.x), five(second, 4u, second_high, 2u * j + 1u), vec4<f32>(high.y)),
    );
}
