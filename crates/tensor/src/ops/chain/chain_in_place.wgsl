// out[i] = program(out[i], b[i], c[i], d[i]) over any strides, repeated ones of b, c, d included
alias B = f32;
alias C = f32;
alias D = f32;
alias OUT = f32;
alias THROUGH = f32;
override B_BF16: bool = false;
override C_BF16: bool = false;
override D_BF16: bool = false;
override OUT_BF16: bool = false;

@group(0) @binding(0) var<storage, read> b: array<B>;
@group(0) @binding(1) var<storage, read> c: array<C>;
@group(0) @binding(2) var<storage, read> d: array<D>;
@group(0) @binding(3) var<storage, read> program: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<OUT>;

fn parameter(word: u32) -> f32 {
    return bitcast<f32>(program[p.start_program + word]);
}

// A step that is a side's only user decides whether it is read at all.
fn uses(n: u32) -> bool {
    let wanted = 256u | (n << 9u);
    return (S0 & 1792u) == wanted || (S1 & 1792u) == wanted || (S2 & 1792u) == wanted
        || (S3 & 1792u) == wanted || (S4 & 1792u) == wanted || (S5 & 1792u) == wanted
        || (S6 & 1792u) == wanted || (S7 & 1792u) == wanted;
}

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
            var r: f32;
            var side = vec3<f32>(0.0);
            let stored_a = out[at.out];
            if OUT_BF16 { r = bf16_to_f32(u32(stored_a)); } else { r = f32(stored_a); }
            if uses(0u) {
                let stored = b[at.b];
                if B_BF16 { side.x = bf16_to_f32(u32(stored)); } else { side.x = f32(stored); }
            }
            if uses(1u) {
                let stored = c[at.c];
                if C_BF16 { side.y = bf16_to_f32(u32(stored)); } else { side.y = f32(stored); }
            }
            if uses(2u) {
                let stored = d[at.d];
                if D_BF16 { side.z = bf16_to_f32(u32(stored)); } else { side.z = f32(stored); }
            }
            r = step(S0, r, side, parameter(1u), parameter(2u));
            r = step(S1, r, side, parameter(4u), parameter(5u));
            r = step(S2, r, side, parameter(7u), parameter(8u));
            r = step(S3, r, side, parameter(10u), parameter(11u));
            r = step(S4, r, side, parameter(13u), parameter(14u));
            r = step(S5, r, side, parameter(16u), parameter(17u));
            r = step(S6, r, side, parameter(19u), parameter(20u));
            r = step(S7, r, side, parameter(22u), parameter(23u));
            if OUT_BF16 { out[at.out] = OUT(f32_to_bf16(r)); } else { out[at.out] = OUT(THROUGH(r)); }
        }
    }
}
