// Prelude of products with chosen experts: sizes, activations, and the sum that TPR threads share (Rust:
// `Params`). Experts larger than a binding come in parts, each of which writes the rows of its own.
alias T = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override OUT_BF16: bool = false;
override TPR: u32 = 16u;
const GROUP: u32 = 128u;

struct Params {
    n: u32,
    k: u32,
    experts: u32,
    first: u32,
    end: u32,
    start_w: u32,
    start_x: u32,
    start_ids: u32,
    start_out: u32,
    x_token: u32,
    x_used: u32,
    used: u32,
    codes: u32,
}
var<immediate> p: Params;

@group(0) @binding(1) var<storage, read> x: array<T>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<OUT>;

var<workgroup> partial: array<f32, GROUP>;

fn load_x(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

// Whether this part writes the rows of expert `id`; the first writes those outside.
fn here(id: u32) -> bool {
    if id >= p.experts {
        return p.first == 0u;
    }
    return id >= p.first && id < p.end;
}

// Adds up what the threads of a row hold, and writes it.
fn finish(thread: u32, token: u32, place: u32, row: u32, id: u32, sum: f32) {
    partial[thread] = sum;
    for (var half = TPR / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread % TPR < half {
            partial[thread] += partial[thread + half];
        }
    }
    if thread % TPR == 0u && row < p.n && here(id) {
        var r = partial[thread];
        if id >= p.experts {
            r = bitcast<f32>(0x7fc00000u | p.n);
        }
        let at = p.start_out + (token * p.used + place) * p.n + row;
        if OUT_BF16 { out[at] = OUT(f32_to_bf16(r)); } else { out[at] = OUT(THROUGH(r)); }
    }
}
