// A cache of Q8_0 blocks (an f16 scale, then 32 signed bytes), a block a thread. The scale is a
// 127th of the largest magnitude, as ggml's `quantize_row_q8_0_ref` has it.
fn step(first: u32, i: u32, inverse: f32) -> u32 {
    return u32(i32(round(value(first + i) * inverse))) & 0xffu;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let position = position_of(group.x, group.z);
    if position < 0 {
        return;
    }
    let begin = source(group.x, group.y, group.z);
    let row = place_of(position, group.y, group.z) / 32u;
    for (var block = thread; block < p.n / 32u; block += 64u) {
        let first = begin + block * 32u;
        var largest = 0.0;
        for (var i = 0u; i < 32u; i++) {
            largest = max(largest, abs(value(first + i)));
        }
        let scale = largest / 127.0;
        let inverse = select(0.0, 127.0 / largest, largest > 0.0);
        let to = p.start_cache + (row + block) * 17u;
        let packed = pack2x16float(vec2<f32>(scale, 0.0));
        cache[to] = CACHE(packed & 0xffffu);
        for (var i = 0u; i < 16u; i++) {
            let low = step(first, 2u * i, inverse);
            let high = step(first, 2u * i + 1u, inverse);
            cache[to + 1u + i] = CACHE(low | (high << 8u));
        }
    }
}
