// Rows of a table of GGML blocks, a slice of sixteen weights a thread.
fn four(id: u32, to: u32, i: u32, v: vec4<f32>) {
    for (var j = 0u; j < 4u; j++) {
        put(id, to + (i + j) * p.out.inner, v[j]);
    }
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x + group.y * groups.x;
    if row >= p.rows {
        return;
    }
    let id = ids[row_start(p.ids, row, p.width)];
    if !here(id) {
        return;
    }
    let to = row_start(p.out, row, p.width);
    let begin = p.start_table + (min(id, p.end - 1u) - p.first) * p.stride_table;
    for (var at = thread; at < p.n / 16u; at += GROUP) {
        let number = at / SLICES;
        let slice = at % SLICES;
        let weights = decode(begin + number * BLOCK_HALVES, slice);
        let place = places(slice) + number * BLOCK_ELEMENTS;
        four(id, to, place.x, weights.a);
        four(id, to, place.y, weights.b);
        four(id, to, place.z, weights.c);
        four(id, to, place.w, weights.d);
    }
}
