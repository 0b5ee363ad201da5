// Q5_0: an f16 scale, a fifth bit of each weight, then halves of bytes; less 16.
const BLOCK_ELEMENTS: u32 = 32u;
const BLOCK_HALVES: u32 = 11u;
const SLICES: u32 = 2u;

fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 4u, 16u, 20u) + slice * 8u;
}

fn decode(block: u32, slice: u32) -> Slice {
    let d = f16_at(block);
    let high = word_at(block + 1u) >> (slice * 8u);
    let first = word_at(block + 3u + slice * 4u);
    let second = word_at(block + 5u + slice * 4u);
    return Slice(
        d * (bytes((first & 0x0f0f0f0fu) | fifth_bits(high)) - 16.0),
        d * (bytes((second & 0x0f0f0f0fu) | fifth_bits(high >> 4u)) - 16.0),
        d * (bytes(((first >> 4u) & 0x0f0f0f0fu) | fifth_bits(high >> 16u)) - 16.0),
        d * (bytes(((second >> 4u) & 0x0f0f0f0fu) | fifth_bits(high >> 20u)) - 16.0),
    );
}
