// Q8_0: an f16 scale, then 32 signed bytes. A slice is 8 weights.
const BLOCK_ELEMENTS: u32 = 32u;
const BLOCK_HALVES: u32 = 17u;
const SLICES: u32 = 4u;

struct Decoded {
    a: vec4<f32>,
    b: vec4<f32>,
    scale: f32,
}

fn four(word: u32) -> vec4<f32> {
    return vec4<f32>(signed_byte(word, 0u), signed_byte(word, 1u), signed_byte(word, 2u), signed_byte(word, 3u));
}

fn decode(block: u32, slice: u32) -> Decoded {
    let at = block + 1u + slice * 4u;
    return Decoded(four(word_at(at)), four(word_at(at + 2u)), f16_at(block));
}

// Each step is one fused operation, so that no compiler may round differently.
fn slice_sum(d: Decoded, slice: u32, x_block: u32, sum: f32) -> f32 {
    let at = x_block + slice * 8u;
    var t = d.a.x * x[at];
    t = fma(d.a.y, x[at + 1u], t);
    t = fma(d.a.z, x[at + 2u], t);
    t = fma(d.a.w, x[at + 3u], t);
    t = fma(d.b.x, x[at + 4u], t);
    t = fma(d.b.y, x[at + 5u], t);
    t = fma(d.b.z, x[at + 6u], t);
    t = fma(d.b.w, x[at + 7u], t);
    return fma(t, d.scale, sum);
}
