// out[..] = a[.. - before] where that lies inside; else a constant, or what lies at the place
// reflected, or clamped, into the input. Four axes.
struct Params {
    extents: array<u32, 4>,
    out: array<u32, 4>,
    a: array<u32, 4>,
    inside: array<u32, 4>,
    before: array<u32, 4>,
    start_out: u32,
    start_a: u32,
    count: u32,
    codes: u32,
    value: f32,
}
var<immediate> p: Params;

alias A = f32;
alias OUT = f32;
alias THROUGH = f32;
override A_BF16: bool = false;
override OUT_BF16: bool = false;
// 0: constant, 1: reflect, 2: replicate.
override MODE: u32 = 0u;
const GROUP: u32 = 256u;

@group(0) @binding(0) var<storage, read> a: array<A>;
@group(0) @binding(1) var<storage, read_write> out: array<OUT>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * GROUP + thread;
    if i >= p.count {
        return;
    }
    var rest = i;
    var to = p.start_out;
    var at = p.start_a;
    var inside = true;
    for (var n = 0u; n < 4u; n++) {
        let axis = 3u - n;
        let extent = p.extents[axis];
        let position = rest % extent;
        rest /= extent;
        to += position * p.out[axis];
        let last = i32(p.inside[axis]) - 1;
        var place = i32(position) - i32(p.before[axis]);
        inside = inside && place >= 0 && place <= last;
        if MODE == 1u {
            place = abs(place);
            place = last - abs(last - place);
        }
        at += u32(clamp(place, 0, last)) * p.a[axis];
    }
    var r = p.value;
    if inside || MODE != 0u {
        let stored = a[at];
        if A_BF16 { r = bf16_to_f32(u32(stored)); } else { r = f32(stored); }
    }
    if OUT_BF16 { out[to] = OUT(f32_to_bf16(r)); } else { out[to] = OUT(THROUGH(r)); }
}
