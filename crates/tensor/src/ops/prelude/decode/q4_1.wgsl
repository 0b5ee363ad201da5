// Q4_1: an f16 scale, an f16 minimum, then halves of bytes: low halves are the first 16 weights.
const BLOCK_ELEMENTS: u32 = 32u;
const BLOCK_HALVES: u32 = 10u;
const SLICES: u32 = 2u;

fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 4u, 16u, 20u) + slice * 8u;
}

fn decode(block: u32, slice: u32) -> Slice {
    let d = vec4<f32>(f16_at(block));
    let m = vec4<f32>(f16_at(block + 1u));
    let first = word_at(block + 2u + slice * 4u);
    let second = word_at(block + 4u + slice * 4u);
    return Slice(
        fma(d, nibbles(first), m),
        fma(d, nibbles(second), m),
        fma(d, nibbles(first >> 4u), m),
        fma(d, nibbles(second >> 4u), m),
    );
}
