// out[i] = a[i] over any strides, bit for bit, when both have one type
alias OUT = u32;

@group(0) @binding(0) var<storage, read> a: array<OUT>;
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
            out[at.x] = a[at.y];
        }
    }
}
