// Q2_K: 16 bytes of scales and minima, 64 bytes of 4 weights each, f16 scales of both.
const BLOCK_ELEMENTS: u32 = 256u;
const BLOCK_HALVES: u32 = 42u;
const SLICES: u32 = 16u;

// Four neighbours in each of the four groups of 32 that share bytes.
fn places(slice: u32) -> vec4<u32> {
    return vec4<u32>(0u, 32u, 64u, 96u) + 128u * (slice / 8u) + (slice % 8u) * 4u;
}

fn two_bits(word: u32, shift: u32) -> vec4<f32> {
    return bytes((word >> shift) & 0x03030303u);
}

fn decode(block: u32, slice: u32) -> Slice {
    let h = slice / 8u;
    let l = (slice % 8u) * 4u;
    let word = word_at(block + 8u + (32u * h + l) / 2u);
    let d = f16_at(block + 40u);
    let least = f16_at(block + 41u);
    let s = 8u * h + l / 16u;
    let both = vec4<u32>(byte_at(block, s), byte_at(block, s + 2u), byte_at(block, s + 4u), byte_at(block, s + 6u));
    let scales = d * vec4<f32>(both & vec4<u32>(15u));
    let minima = -(least * vec4<f32>(both >> vec4<u32>(4u)));
    return Slice(
        fma(vec4<f32>(scales.x), two_bits(word, 0u), vec4<f32>(minima.x)),
        fma(vec4<f32>(scales.y), two_bits(word, 2u), vec4<f32>(minima.y)),
        fma(vec4<f32>(scales.z), two_bits(word, 4u), vec4<f32>(minima.z)),
        fma(vec4<f32>(scales.w), two_bits(word, 6u), vec4<f32>(minima.w)),
    );
}
