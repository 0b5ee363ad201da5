// Joins the parts of a row: each brings numbers, its maximum and its sum. Parts in order.
alias OUT = f32;
alias THROUGH = f32;
override OUT_BF16: bool = false;
override D: u32 = 64u;

@group(0) @binding(0) var<storage, read> parts_of: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<OUT>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let rows = p.shared_by * p.t;
    let row = group.x;
    let kv_head = group.y;
    let batch = group.z;
    let parts = (p.s + p.part - 1u) / p.part;
    let begin = p.start_q + ((batch * p.heads + kv_head) * rows + row) * parts * (D + 2u);
    var largest = LOWEST;
    for (var i = 0u; i < parts; i++) {
        largest = max(largest, parts_of[begin + i * (D + 2u) + D]);
    }
    var sum = 0.0;
    for (var i = 0u; i < parts; i++) {
        let at = begin + i * (D + 2u) + D;
        sum = fma(bounded_exp(parts_of[at] - largest), parts_of[at + 1u], sum);
    }
    let inverse = select(0.0, 1.0 / sum, sum > 0.0);
    let to = p.start_out + batch * p.out_batch
        + (kv_head * p.shared_by + row / p.t) * p.out_head + (row % p.t) * p.out_token;
    for (var d = thread; d < D; d += 64u) {
        var r = 0.0;
        for (var i = 0u; i < parts; i++) {
            let at = begin + i * (D + 2u);
            r = fma(bounded_exp(parts_of[at + D] - largest), parts_of[at + d], r);
        }
        r *= inverse;
        if OUT_BF16 { out[to + d] = OUT(f32_to_bf16(r)); } else { out[to + d] = OUT(THROUGH(r)); }
    }
}
