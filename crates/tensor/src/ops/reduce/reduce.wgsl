// out[o] = fold of f(a[o, r]) over r. Outputs and reduced elements are each walked over up to 3
// axes. TPO threads share an output: they take elements in turn, then a tree folds them.
alias A = f32;
alias OUT = f32;
alias THROUGH = f32;
override A_BF16: bool = false;
override OUT_BF16: bool = false;
// 0 sum, 1 max, 2 min, 3 sum of squares (Rust: Fold)
override CODE: u32 = 0u;
override TPO: u32 = 128u;
const GROUP: u32 = 128u;

struct Params {
    kept: array<u32, 3>,
    out: array<u32, 3>,
    a_kept: array<u32, 3>,
    reduced: array<u32, 3>,
    a_reduced: array<u32, 3>,
    start_out: u32,
    start_a: u32,
    outputs: u32,
    // Elements of an output, and how many of them one part takes: parts follow one another in out.
    elements: u32,
    part: u32,
    parts: u32,
    codes: u32,
    unit_bytes: u32,
    scale: f32,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> a: array<A>;
@group(0) @binding(1) var<storage, read_write> out: array<OUT>;

var<workgroup> partial: array<f32, GROUP>;

// Offset of position `i` of a walk over three axes.
fn kept_places(i: u32) -> vec2<u32> {
    let q = i / p.kept[2];
    let z = i - q * p.kept[2];
    let x = q / p.kept[1];
    let y = q - x * p.kept[1];
    return x * vec2<u32>(p.out[0], p.a_kept[0])
        + y * vec2<u32>(p.out[1], p.a_kept[1])
        + z * vec2<u32>(p.out[2], p.a_kept[2]);
}

fn reduced_place(i: u32) -> u32 {
    let q = i / p.reduced[2];
    let z = i - q * p.reduced[2];
    let x = q / p.reduced[1];
    let y = q - x * p.reduced[1];
    return x * p.a_reduced[0] + y * p.a_reduced[1] + z * p.a_reduced[2];
}

fn load(at: u32) -> f32 {
    let stored = a[at];
    if A_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn fold(sum: f32, v: f32) -> f32 {
    switch CODE {
        case 1u: { return max(sum, v); }
        case 2u: { return min(sum, v); }
        default: { return sum + v; }
    }
}

fn fold_in(sum: f32, v: f32) -> f32 {
    if CODE == 3u {
        return fma(v, v, sum);
    }
    return fold(sum, v);
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // Neighbouring threads take neighbouring outputs when each has its own, else elements.
    let lane = thread % TPO;
    let index = (group.x + group.y * groups.x) * (GROUP / TPO) + thread / TPO;
    let output = index / p.parts;
    let first = (index - output * p.parts) * p.part;
    let last = min(first + p.part, p.elements);
    let here = output < p.outputs;
    var at = vec2<u32>(0u, 0u);
    // Four sums, so that loads need not wait for one another.
    var s0: f32;
    var s1: f32;
    var s2: f32;
    var s3: f32;
    if here {
        at = kept_places(output) + vec2<u32>(p.start_out, p.start_a);
        if CODE == 1u || CODE == 2u {
            s0 = load(at.y + reduced_place(first));
        } else {
            s0 = 0.0;
        }
        s1 = s0;
        s2 = s0;
        s3 = s0;
        var r = first + lane;
        while r + 3u * TPO < last {
            let v0 = load(at.y + reduced_place(r));
            let v1 = load(at.y + reduced_place(r + TPO));
            let v2 = load(at.y + reduced_place(r + 2u * TPO));
            let v3 = load(at.y + reduced_place(r + 3u * TPO));
            s0 = fold_in(s0, v0);
            s1 = fold_in(s1, v1);
            s2 = fold_in(s2, v2);
            s3 = fold_in(s3, v3);
            r += 4u * TPO;
        }
        while r < last {
            s0 = fold_in(s0, load(at.y + reduced_place(r)));
            r += TPO;
        }
    }
    partial[thread] = fold(fold(s0, s1), fold(s2, s3));
    for (var half = TPO / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            partial[thread] = fold(partial[thread], partial[thread + half]);
        }
    }
    if here && lane == 0u {
        let r = partial[thread] * p.scale;
        let to = at.x + (index - output * p.parts);
        if OUT_BF16 { out[to] = OUT(f32_to_bf16(r)); } else { out[to] = OUT(THROUGH(r)); }
    }
}
