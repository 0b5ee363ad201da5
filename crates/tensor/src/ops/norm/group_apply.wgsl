// out = act((x − mean)·scale·(gain + offset) + shift) for rows that are channels; mean and scale come
// from the parts of the channel's group. A workgroup takes a stretch of a row.
alias X = f32;
alias W = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override W_BF16: bool = false;
override OUT_BF16: bool = false;
override HAS_GAIN: bool = false;
override HAS_SHIFT: bool = false;
override SILU: bool = false;
const GROUP: u32 = 128u;
const EACH: u32 = 16u;

struct Params {
    // Channels.
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    eps: f32,
    offset: f32,
    // Channels of a group; its elements and parts.
    channels: u32,
    elements: u32,
    part: u32,
    parts: u32,
    start_stats: u32,
    x: Place,
    gain: Place,
    shift: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read> stats: array<f32>;
@group(0) @binding(2) var<storage, read> gain: array<W>;
@group(0) @binding(3) var<storage, read> shift: array<W>;
@group(0) @binding(4) var<storage, read_write> out: array<OUT>;

fn weight(stored: W) -> f32 {
    if W_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let job = group.x + group.y * groups.x;
    let stretches = (p.n + GROUP * EACH - 1u) / (GROUP * EACH);
    let row = job / stretches;
    let first = (job - row * stretches) * GROUP * EACH;
    if row >= p.rows {
        return;
    }
    // Parts one after another (Chan et al. 1979).
    let parts = p.start_stats + row / p.channels * p.parts * 2u;
    var mean = stats[parts];
    var squares = stats[parts + 1u];
    for (var i = 1u; i < p.parts; i++) {
        let before = f32(i * p.part);
        let own = f32(min(p.part, p.elements - i * p.part));
        let delta = stats[parts + 2u * i] - mean;
        let share = own / (before + own);
        mean = fma(delta, share, mean);
        squares += fma(delta * delta, before * share, stats[parts + 2u * i + 1u]);
    }
    let scale = 1.0 / sqrt(squares / f32(p.elements) + p.eps);
    var g = 1.0;
    if HAS_GAIN {
        g = weight(gain[row_start(p.gain, row, p.width)]) + p.offset;
    }
    var s = 0.0;
    if HAS_SHIFT {
        s = weight(shift[row_start(p.shift, row, p.width)]);
    }
    let begin = row_start(p.x, row, p.width);
    let to = row_start(p.out, row, p.width);
    for (var i = first + thread; i < min(first + GROUP * EACH, p.n); i += GROUP) {
        let stored = x[begin + i * p.x.inner];
        var v: f32;
        if X_BF16 { v = bf16_to_f32(u32(stored)); } else { v = f32(stored); }
        v = fma((v - mean) * scale, g, s);
        if SILU {
            v = v * sigmoid(v);
        }
        let at = to + i * p.out.inner;
        if OUT_BF16 { out[at] = OUT(f32_to_bf16(v)); } else { out[at] = OUT(THROUGH(v)); }
    }
}
