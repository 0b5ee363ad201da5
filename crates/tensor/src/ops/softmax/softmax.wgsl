// out = softmax(x·scale + mask) along rows. TPR threads share a row: they take elements in turn, then
// a tree joins what they have, whatever other rows there are. A row masked everywhere gives 0.
alias X = f32;
alias M = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override M_BF16: bool = false;
override OUT_BF16: bool = false;
override HAS_MASK: bool = false;
override TPR: u32 = 128u;
const GROUP: u32 = 128u;
const LOWEST: f32 = -3.4028234e38;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    scale: f32,
    x: Place,
    mask: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read> mask: array<M>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

var<workgroup> partial: array<f32, GROUP>;

fn value(at: u32, at_mask: u32) -> f32 {
    let stored = x[at];
    var v: f32;
    if X_BF16 { v = bf16_to_f32(u32(stored)); } else { v = f32(stored); }
    v *= p.scale;
    if HAS_MASK {
        let m = mask[at_mask];
        if M_BF16 { v += bf16_to_f32(u32(m)); } else { v += f32(m); }
    }
    return v;
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (group.x + group.y * groups.x) * (GROUP / TPR) + thread / TPR;
    let lane = thread % TPR;
    let here = row < p.rows;
    let begin = row_start(p.x, row, p.width);
    let begin_mask = row_start(p.mask, row, p.width);
    var largest = LOWEST;
    if here {
        for (var i = lane; i < p.n; i += TPR) {
            largest = max(largest, value(begin + i * p.x.inner, begin_mask + i * p.mask.inner));
        }
    }
    partial[thread] = largest;
    for (var half = TPR / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            partial[thread] = max(partial[thread], partial[thread + half]);
        }
    }
    workgroupBarrier();
    largest = partial[thread - lane];
    workgroupBarrier();
    var sum = 0.0;
    if here {
        for (var i = lane; i < p.n; i += TPR) {
            let v = value(begin + i * p.x.inner, begin_mask + i * p.mask.inner);
            sum += select(0.0, bounded_exp(v - largest), v > LOWEST);
        }
    }
    partial[thread] = sum;
    for (var half = TPR / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            partial[thread] += partial[thread + half];
        }
    }
    workgroupBarrier();
    sum = partial[thread - lane];
    let inverse = select(0.0, 1.0 / sum, sum > 0.0);
    if here {
        let to = row_start(p.out, row, p.width);
        for (var i = lane; i < p.n; i += TPR) {
            let v = value(begin + i * p.x.inner, begin_mask + i * p.mask.inner);
            let r = select(0.0, bounded_exp(v - largest) * inverse, v > LOWEST);
            let at = to + i * p.out.inner;
            if OUT_BF16 { out[at] = OUT(f32_to_bf16(r)); } else { out[at] = OUT(THROUGH(r)); }
        }
    }
}
