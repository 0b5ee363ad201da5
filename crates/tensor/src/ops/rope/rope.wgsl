// Rotates pairs of each row by position·frequency; what is behind the pairs is copied.
alias X = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override OUT_BF16: bool = false;
const GROUP: u32 = 64u;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    pairs: u32,
    // 1: neighbours are pairs; 0: halves are.
    interleaved: u32,
    // Distance between a token's positions along its axes.
    axis_stride: u32,
    start_frequencies: u32,
    scale: f32,
    // Where each axis' pairs end.
    ends: array<u32, 4>,
    x: Place,
    positions: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read> positions: array<i32>;
@group(0) @binding(2) var<storage, read> frequencies: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<OUT>;

fn value(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn put(at: u32, v: f32) {
    if OUT_BF16 { out[at] = OUT(f32_to_bf16(v)); } else { out[at] = OUT(THROUGH(v)); }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x + group.y * groups.x;
    if row >= p.rows {
        return;
    }
    let begin = row_start(p.x, row, p.width);
    let place = row_start(p.positions, row, p.width);
    let to = row_start(p.out, row, p.width);
    for (var i = thread; i < p.pairs; i += GROUP) {
        var along = 0u;
        for (var a = 0u; a < 3u; a++) {
            along += select(0u, 1u, i >= p.ends[a]);
        }
        let position = f32(positions[place + along * p.axis_stride]);
        let by = turn(position, frequencies[p.start_frequencies + i]) * p.scale;
        let first = select(i, 2u * i, p.interleaved == 1u);
        let second = select(i + p.pairs, 2u * i + 1u, p.interleaved == 1u);
        let v = value(begin + first * p.x.inner);
        let w = value(begin + second * p.x.inner);
        put(to + first * p.out.inner, fma(v, by.x, -w * by.y));
        put(to + second * p.out.inner, fma(v, by.y, w * by.x));
    }
    for (var i = 2u * p.pairs + thread; i < p.n; i += GROUP) {
        put(to + i * p.out.inner, value(begin + i * p.x.inner));
    }
}
