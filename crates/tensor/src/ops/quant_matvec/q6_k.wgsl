// Q6_K: 128 bytes of low halves, 64 bytes of high pairs, 16 signed scales, an f16 scale. A slice is
// 4 neighbours in each of the 4 groups of 32 that share the high pairs' bytes: 16 weights.
const BLOCK_ELEMENTS: u32 = 256u;
const BLOCK_HALVES: u32 = 105u;
const SLICES: u32 = 16u;

struct Decoded {
    groups: array<vec4<f32>, 4>,
    scales: vec4<f32>,
}

fn byte_at(block: u32, byte: u32) -> f32 {
    return signed_byte(half_at(block + byte / 2u), byte % 2u);
}

// Four 6-bit values out of bytes of 4 and 2 bits.
fn six(low: u32, high: u32) -> vec4<f32> {
    let q = (low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4u);
    let unsigned = vec4<u32>(q & 0xffu, (q >> 8u) & 0xffu, (q >> 16u) & 0xffu, q >> 24u);
    return vec4<f32>(unsigned) - 32.0;
}

fn decode(block: u32, slice: u32) -> Decoded {
    let h = slice / 8u;
    let l = (slice % 8u) * 4u;
    let low0 = word_at(block + (64u * h + l) / 2u);
    let low1 = word_at(block + (64u * h + 32u + l) / 2u);
    let high = word_at(block + (128u + 32u * h + l) / 2u);
    let d = f16_at(block + 104u);
    let s = 192u + 8u * h + l / 16u;
    let scales = vec4<f32>(byte_at(block, s), byte_at(block, s + 2u), byte_at(block, s + 4u), byte_at(block, s + 6u));
    var out: Decoded;
    out.groups[0] = six(low0, high);
    out.groups[1] = six(low1, high >> 2u);
    out.groups[2] = six(low0 >> 4u, high >> 4u);
    out.groups[3] = six(low1 >> 4u, high >> 6u);
    out.scales = d * scales;
    return out;
}

fn group_sum(q: vec4<f32>, at: u32) -> f32 {
    return fma(q.w, x[at + 3u], fma(q.z, x[at + 2u], fma(q.y, x[at + 1u], q.x * x[at])));
}

// Each step is one fused operation, so that no compiler may round differently.
fn slice_sum(d: Decoded, slice: u32, x_block: u32, sum: f32) -> f32 {
    let at = x_block + 128u * (slice / 8u) + (slice % 8u) * 4u;
    var t = fma(group_sum(d.groups[0], at), d.scales.x, sum);
    t = fma(group_sum(d.groups[1], at + 32u), d.scales.y, t);
    t = fma(group_sum(d.groups[2], at + 64u), d.scales.z, t);
    return fma(group_sum(d.groups[3], at + 96u), d.scales.w, t);
}
