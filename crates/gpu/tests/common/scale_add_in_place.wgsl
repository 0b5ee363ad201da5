// a[i] = a[i] * scale + offset
struct Params { n: u32, scale: f32, offset: f32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> a: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < min(p.n, arrayLength(&a)) {
        a[id.x] = a[id.x] * p.scale + p.offset;
    }
}
