// partial[g] = sum of the vectors of part g, of f32 vectors of four: the first pass of a sum over
// much memory, and the probe of reading speed. Each thread keeps eight loads of 16 bytes in flight.
struct Params {
    vectors: u32,
    // Vectors of a part; a multiple of 8 * GROUP but for the last.
    part: u32,
    parts: u32,
    start_out: u32,
}
var<immediate> p: Params;

const GROUP: u32 = 256u;

@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

var<workgroup> partial: array<f32, GROUP>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group.x + group.y * groups.x;
    let first = min(index * p.part, p.vectors);
    let last = min(first + p.part, p.vectors);
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    var at = first + thread;
    while at + 7u * GROUP < last {
        let v0 = a[at];
        let v1 = a[at + GROUP];
        let v2 = a[at + 2u * GROUP];
        let v3 = a[at + 3u * GROUP];
        let v4 = a[at + 4u * GROUP];
        let v5 = a[at + 5u * GROUP];
        let v6 = a[at + 6u * GROUP];
        let v7 = a[at + 7u * GROUP];
        s0 += v0 + v4;
        s1 += v1 + v5;
        s2 += v2 + v6;
        s3 += v3 + v7;
        at += 8u * GROUP;
    }
    while at < last {
        s0 += a[at];
        at += GROUP;
    }
    let s = (s0 + s1) + (s2 + s3);
    partial[thread] = (s.x + s.y) + (s.z + s.w);
    for (var half = GROUP / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            partial[thread] += partial[thread + half];
        }
    }
    if thread == 0u && index < p.parts {
        out[p.start_out + index] = partial[0];
    }
}
