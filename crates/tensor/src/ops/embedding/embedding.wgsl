// Rows of a dense table, an element a thread.
alias T = f32;
override T_BF16: bool = false;

@group(0) @binding(0) var<storage, read> table: array<T>;

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
    for (var i = thread; i < p.n; i += GROUP) {
        let stored = table[begin + i];
        var v: f32;
        if T_BF16 { v = bf16_to_f32(u32(stored)); } else { v = f32(stored); }
        put(id, to + i * p.out.inner, v);
    }
}
