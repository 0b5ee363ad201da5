// One token's product with one expert of GGML blocks: TPR threads a row take slices of sixteen weights
// in turn, then a tree.
fn four(w: vec4<f32>, at: u32, sum: f32) -> f32 {
    return fma(w.w, load_x(at + 3u), fma(w.z, load_x(at + 2u), fma(w.y, load_x(at + 1u), fma(w.x, load_x(at), sum))));
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x * (GROUP / TPR) + thread / TPR;
    let id = ids[p.start_ids + group.z * p.used + group.y];
    var sum = 0.0;
    if row < p.n && id >= p.first && id < p.end {
        let blocks = p.k / BLOCK_ELEMENTS;
        let begin = p.start_w + ((id - p.first) * p.n + row) * blocks * BLOCK_HALVES;
        let source = p.start_x + group.z * p.x_token + group.y * p.x_used;
        for (var at = thread % TPR; at < blocks * SLICES; at += TPR) {
            let number = at / SLICES;
            let slice = at % SLICES;
            let weights = decode(begin + number * BLOCK_HALVES, slice);
            let own = places(slice) + source + number * BLOCK_ELEMENTS;
            sum = four(weights.a, own.x, sum);
            sum = four(weights.b, own.y, sum);
            sum = four(weights.c, own.z, sum);
            sum = four(weights.d, own.w, sum);
        }
    }
    finish(thread, group.z, group.y, row, id, sum);
}
