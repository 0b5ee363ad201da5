// One token's product with one dense expert: TPR threads a row take elements in turn, then a tree.
alias W = f32;
override W_BF16: bool = false;

@group(0) @binding(0) var<storage, read> w: array<W>;

fn load_w(at: u32) -> f32 {
    let stored = w[at];
    if W_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
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
        let begin = p.start_w + ((id - p.first) * p.n + row) * p.k;
        let source = p.start_x + group.z * p.x_token + group.y * p.x_used;
        for (var i = thread % TPR; i < p.k; i += TPR) {
            sum = fma(load_w(begin + i), load_x(source + i), sum);
        }
    }
    finish(thread, group.z, group.y, row, id, sum);
}
