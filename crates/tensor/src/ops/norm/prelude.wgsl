// Prelude of row norms: parameters, and the sum over the threads of a row.
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    eps: f32,
    offset: f32,
    x: Place,
    r: Place,
    gain: Place,
    shift: Place,
    sum: Place,
    out: Place,
}
var<immediate> p: Params;

// 0 layer, 1 rms, 2 l2 (Rust: Norm)
override KIND: u32 = 0u;
override HAS_GAIN: bool = false;
override HAS_SHIFT: bool = false;
override TPR: u32 = 128u;
const GROUP: u32 = 128u;

var<workgroup> partial: array<f32, GROUP>;

fn total(thread: u32, v: f32) -> f32 {
    let lane = thread % TPR;
    workgroupBarrier();
    partial[thread] = v;
    for (var half = TPR / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            partial[thread] += partial[thread + half];
        }
    }
    workgroupBarrier();
    return partial[thread - lane];
}

// What centred values are multiplied by, from the sum of their squares.
fn factor(squares: f32) -> f32 {
    if KIND == 2u {
        return 1.0 / max(sqrt(squares), p.eps);
    }
    return 1.0 / sqrt(squares / f32(p.n) + p.eps);
}
