// Prelude: the index space that an output and up to two inputs share (Rust: ops/walked.rs).
struct Params {
    extents: array<u32, 6>,
    out: array<u32, 6>,
    a: array<u32, 6>,
    b: array<u32, 6>,
    start_out: u32,
    start_a: u32,
    start_b: u32,
    count: u32,
    codes: u32,
    x: f32,
    y: f32,
}
var<immediate> p: Params;

override RANK: u32 = 6u;
const GROUP: u32 = 256u;
const EACH: u32 = 4u;

// First element of this thread; its others follow GROUP apart.
fn first_element(group: vec3<u32>, groups: vec3<u32>, thread: u32) -> u32 {
    return (group.x + group.y * groups.x) * (GROUP * EACH) + thread;
}

// Offsets of element `i`: output, a, b.
fn places(i: u32) -> vec3<u32> {
    var rest = i;
    var at = vec3<u32>(p.start_out, p.start_a, p.start_b);
    for (var n = 1u; n < RANK; n++) {
        let axis = 6u - n;
        let extent = p.extents[axis];
        let quotient = rest / extent;
        let position = rest - quotient * extent;
        rest = quotient;
        at += position * vec3<u32>(p.out[axis], p.a[axis], p.b[axis]);
    }
    let axis = 6u - RANK;
    return at + rest * vec3<u32>(p.out[axis], p.a[axis], p.b[axis]);
}
