// a[i] = f(a[i]) over any strides
alias OUT = f32;
alias THROUGH = f32;
override OUT_BF16: bool = false;
override CODE: u32 = 0u;

@group(0) @binding(0) var<storage, read_write> out: array<OUT>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = first_element(group, groups, thread);
    for (var n = 0u; n < EACH; n++) {
        let i = first + n * GROUP;
        if i < p.count {
            let at = places(i).x;
            let stored = out[at];
            var v: f32;
            if OUT_BF16 { v = bf16_to_f32(u32(stored)); } else { v = f32(stored); }
            let r = unary_function(CODE, v, p.x, p.y);
            if OUT_BF16 { out[at] = OUT(f32_to_bf16(r)); } else { out[at] = OUT(THROUGH(r)); }
        }
    }
}
