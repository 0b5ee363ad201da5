// Q5_1: an f16 scale, an f16 minimum, a fifth bit of each weight, then halves of bytes.
const BLOCK_ELEMENTS: u32 = 32u;
const BLOCK_HALVES: u32 = 12u;
const SLICES: u32 = 2u;

fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 4u, 16u, 20u) + slice * 8u;
}

fn decode(block: u32, slice: u32) -> Slice {
    let d = vec4<f32>(f16_at(block));
    let m = vec4<f32>(f16_at(block + 1u));
    let high = word_at(block + 2u) >> (slice * 8u);
    let first = word_at(block + 4u + slice * 4u);
    let second = word_at(block + 6u + slice * 4u);
    return Slice(
        fma(d, bytes((first & 0x0f0f0f0fu) | fifth_bits(high)), m),
        fma(d, bytes((second & 0x0f0f0f0fu) | fifth_bits(high >> 4u)), m),
        fma(d, bytes(((first >> 4u) & 0x0f0f0f0fu) | fifth_bits(high >> 16u)), m),
        fma(d, bytes(((second >> 4u) & 0x0f0f0f0fu) | fifth_bits(high >> 20u)), m),
    );
}
