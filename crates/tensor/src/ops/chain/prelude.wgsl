// Prelude: a chain's operands and program (Rust: ops/chain/mod.rs, program.rs).
struct Params {
    extents: array<u32, 4>,
    out: array<u32, 4>,
    a: array<u32, 4>,
    b: array<u32, 4>,
    c: array<u32, 4>,
    d: array<u32, 4>,
    start_out: u32,
    start_a: u32,
    start_b: u32,
    start_c: u32,
    start_d: u32,
    count: u32,
    start_program: u32,
}
var<immediate> p: Params;

override RANK: u32 = 4u;
// Steps: bits 0–7 the function, 8 binary, 9–10 the side (3: the result itself), 11 reversed.
override S0: u32 = 0u;
override S1: u32 = 0u;
override S2: u32 = 0u;
override S3: u32 = 0u;
override S4: u32 = 0u;
override S5: u32 = 0u;
override S6: u32 = 0u;
override S7: u32 = 0u;
const GROUP: u32 = 256u;
const EACH: u32 = 4u;

struct Places {
    out: u32,
    a: u32,
    b: u32,
    c: u32,
    d: u32,
}

// First element of this thread; its others follow GROUP apart.
fn first_element(group: vec3<u32>, groups: vec3<u32>, thread: u32) -> u32 {
    return (group.x + group.y * groups.x) * (GROUP * EACH) + thread;
}

fn places(i: u32) -> Places {
    var rest = i;
    var at = Places(p.start_out, p.start_a, p.start_b, p.start_c, p.start_d);
    for (var n = 1u; n <= RANK; n++) {
        let axis = 4u - n;
        let extent = p.extents[axis];
        var position = rest;
        if n < RANK {
            let quotient = rest / extent;
            position = rest - quotient * extent;
            rest = quotient;
        }
        at.out += position * p.out[axis];
        at.a += position * p.a[axis];
        at.b += position * p.b[axis];
        at.c += position * p.c[axis];
        at.d += position * p.d[axis];
    }
    return at;
}

// `x` and `y` are the step's parameters.
fn step(code: u32, r: f32, side: vec3<f32>, x: f32, y: f32) -> f32 {
    if (code & 256u) == 0u {
        return unary_function(code & 255u, r, x, y);
    }
    var w = r;
    switch (code >> 9u) & 3u {
        case 0u: { w = side.x; }
        case 1u: { w = side.y; }
        case 2u: { w = side.z; }
        default: {}
    }
    if (code & 2048u) != 0u {
        return binary_function(code & 255u, w, r);
    }
    return binary_function(code & 255u, r, w);
}
