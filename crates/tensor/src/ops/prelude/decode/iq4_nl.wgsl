// IQ4_NL: an f16 scale, then halves of bytes that name values of a table.
const BLOCK_ELEMENTS: u32 = 32u;
const BLOCK_HALVES: u32 = 9u;
const SLICES: u32 = 2u;

fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 4u, 16u, 20u) + slice * 8u;
}

// The table as signed bytes: -127, -104, -83, -65; -49, -35, -22, -10; 1, 13, 25, 38; 53, 69, 89, 113.
fn value(at: u32) -> f32 {
    let low = select(0xbfad9881u, 0xf6eaddcfu, (at & 4u) != 0u);
    let high = select(0x26190d01u, 0x71594535u, (at & 4u) != 0u);
    let four = select(low, high, (at & 8u) != 0u);
    return f32(extractBits(bitcast<i32>(four), (at & 3u) * 8u, 8u));
}

fn values(word: u32) -> vec4<f32> {
    return vec4<f32>(value(word & 15u), value((word >> 8u) & 15u), value((word >> 16u) & 15u), value((word >> 24u) & 15u));
}

fn decode(block: u32, slice: u32) -> Slice {
    let d = f16_at(block);
    let first = word_at(block + 1u + slice * 4u);
    let second = word_at(block + 3u + slice * 4u);
    return Slice(
        d * values(first),
        d * values(second),
        d * values(first >> 4u),
        d * values(second >> 4u),
    );
}
