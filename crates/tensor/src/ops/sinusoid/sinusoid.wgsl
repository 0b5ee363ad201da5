// Sines and cosines of x·frequency: a workgroup a row, a frequency a thread.
alias OUT = f32;
alias THROUGH = f32;
override OUT_BF16: bool = false;
const GROUP: u32 = 64u;

struct Params {
    width: u32,
    rows: u32,
    half: u32,
    cosines_first: u32,
    codes: u32,
    unit_rows: u32,
    start_frequencies: u32,
    x: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> frequencies: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

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
    let position = x[row_start(p.x, row, p.width)];
    let to = row_start(p.out, row, p.width);
    let sines = p.cosines_first * p.half;
    let cosines = p.half - sines;
    for (var i = thread; i < p.half; i += GROUP) {
        let both = turn(position, frequencies[p.start_frequencies + i]);
        put(to + (cosines + i) * p.out.inner, both.x);
        put(to + (sines + i) * p.out.inner, both.y);
    }
}
