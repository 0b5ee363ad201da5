// out[row] = place of the row's largest number: the first of equals; NaN is never the largest, and a
// row of nothing else gives -1. A workgroup a row: threads take elements in turn, then a tree.
alias X = f32;
override X_BF16: bool = false;
const GROUP: u32 = 256u;
const NOWHERE: u32 = 0xffffffffu;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    x: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;

var<workgroup> values: array<f32, GROUP>;
var<workgroup> places: array<u32, GROUP>;

fn value(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

// Whether v at place a goes before w at place b.
fn before(v: f32, a: u32, w: f32, b: u32) -> bool {
    return a != NOWHERE && (b == NOWHERE || v > w || (v == w && a < b));
}

// By bits, since drivers may take comparisons of NaN as they like.
fn is_nan(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x + group.y * groups.x;
    let begin = row_start(p.x, row, p.width);
    var best = 0.0;
    var place = NOWHERE;
    if row < p.rows {
        for (var i = thread; i < p.n; i += GROUP) {
            let v = value(begin + i * p.x.inner);
            if !is_nan(v) && before(v, i, best, place) {
                best = v;
                place = i;
            }
        }
    }
    values[thread] = best;
    places[thread] = place;
    for (var half = GROUP / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            let v = values[thread + half];
            let a = places[thread + half];
            if before(v, a, values[thread], places[thread]) {
                values[thread] = v;
                places[thread] = a;
            }
        }
    }
    if thread == 0u && row < p.rows {
        out[row_start(p.out, row, p.width)] = places[0];
    }
}
