// out[i] = f(out[i], b[i]) over any strides, repeated ones of b included
alias B = f32;
alias OUT = f32;
alias THROUGH = f32;
override B_BF16: bool = false;
override OUT_BF16: bool = false;
override CODE: u32 = 0u;

@group(0) @binding(0) var<storage, read> b: array<B>;
@group(0) @binding(1) var<storage, read_write> out: array<OUT>;

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
            let at = places(i);
            let stored_a = out[at.x];
            let stored_b = b[at.y];
            var v: f32;
            var w: f32;
            if OUT_BF16 { v = bf16_to_f32(u32(stored_a)); } else { v = f32(stored_a); }
            if B_BF16 { w = bf16_to_f32(u32(stored_b)); } else { w = f32(stored_b); }
            let r = binary_function(CODE, v, w);
            if OUT_BF16 { out[at.x] = OUT(f32_to_bf16(r)); } else { out[at.x] = OUT(THROUGH(r)); }
        }
    }
}
