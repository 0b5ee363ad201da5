// Prelude: whole GGML blocks in memory. `decode` and `places`, which come with a type (prelude/decode),
// give sixteen weights at a time, four at each of a slice's places.
// Weights as words, or as halves where a span does not end on a word.
alias W = u32;
override HALVES: bool = false;

@group(0) @binding(0) var<storage, read> w: array<W>;

fn half_at(h: u32) -> u32 {
    if HALVES {
        return u32(w[h]);
    }
    return (u32(w[h >> 1u]) >> ((h & 1u) * 16u)) & 0xffffu;
}

// Two neighbouring halves; may straddle words.
fn word_at(h: u32) -> u32 {
    if HALVES {
        return u32(w[h]) | (u32(w[h + 1u]) << 16u);
    }
    let low = u32(w[h >> 1u]);
    if (h & 1u) == 0u {
        return low;
    }
    return (low >> 16u) | (u32(w[(h >> 1u) + 1u]) << 16u);
}

fn f16_at(h: u32) -> f32 {
    return unpack2x16float(half_at(h)).x;
}

// Byte `byte` of a block.
fn byte_at(block: u32, byte: u32) -> u32 {
    return (half_at(block + byte / 2u) >> ((byte & 1u) * 8u)) & 0xffu;
}

// The four bytes of a word as numbers.
fn bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<u32>(word & 0xffu, (word >> 8u) & 0xffu, (word >> 16u) & 0xffu, word >> 24u));
}

// Four low halves of bytes.
fn nibbles(word: u32) -> vec4<f32> {
    return bytes(word & 0x0f0f0f0fu);
}

// Bit 4 of each byte set where one of the four lowest bits of `four` is.
fn fifth_bits(four: u32) -> u32 {
    let spread = (four & 1u) | ((four & 2u) << 7u) | ((four & 4u) << 14u) | ((four & 8u) << 21u);
    return spread << 4u;
}

// Scale and minimum `s` of eight, of 6 bits each in 12 bytes from `byte` of a block.
fn six_bit_pair(block: u32, byte: u32, s: u32) -> vec2<f32> {
    let a = byte_at(block, byte + s % 4u);
    let b = byte_at(block, byte + 4u + s % 4u);
    if s < 4u {
        return vec2<f32>(f32(a & 63u), f32(b & 63u));
    }
    let low = byte_at(block, byte + 4u + s);
    return vec2<f32>(f32((low & 15u) | ((a >> 6u) << 4u)), f32((low >> 4u) | ((b >> 6u) << 4u)));
}

// Sixteen weights: four at each of the slice's places.
struct Slice {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}
