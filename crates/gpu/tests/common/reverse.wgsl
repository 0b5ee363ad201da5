// out[i] = a[n - 1 - i]
struct Params { n: u32, scale: f32, offset: f32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < min(p.n, min(arrayLength(&a), arrayLength(&out))) {
        out[id.x] = a[arrayLength(&a) - 1u - id.x];
    }
}
