// Q4_0: an f16 scale, then halves of bytes less 8: low halves are the first 16 weights.
const BLOCK_ELEMENTS: u32 = 32u;
const BLOCK_HALVES: u32 = 9u;
const SLICES: u32 = 2u;

fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 4u, 16u, 20u) + slice * 8u;
}

fn decode(block: u32, slice: u32) -> Slice {
    let d = f16_at(block);
    let first = word_at(block + 1u + slice * 4u);
    let second = word_at(block + 3u + slice * 4u);
    return Slice(
        d * (nibbles(first) - 8.0),
        d * (nibbles(second) - 8.0),
        d * (nibbles(first >> 4u) - 8.0),
        d * (nibbles(second >> 4u) - 8.0),
    );
}
