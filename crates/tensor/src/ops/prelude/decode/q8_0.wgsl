// Q8_0: an f16 scale, then 32 signed bytes.
const BLOCK_ELEMENTS: u32 = 32u;
const BLOCK_HALVES: u32 = 17u;
const SLICES: u32 = 2u;

fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 4u, 8u, 12u) + slice * 16u;
}

// Four signed bytes: with the top bits turned they are 128 more.
fn signed_bytes(word: u32) -> vec4<f32> {
    return bytes(word ^ 0x80808080u) - 128.0;
}

fn decode(block: u32, slice: u32) -> Slice {
    let d = f16_at(block);
    let at = block + 1u + slice * 8u;
    return Slice(
        d * signed_bytes(word_at(at)),
        d * signed_bytes(word_at(at + 2u)),
        d * signed_bytes(word_at(at + 4u)),
        d * signed_bytes(word_at(at + 6u)),
    );
}
