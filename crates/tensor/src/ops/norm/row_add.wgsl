// sum = x + r, and out = norm(x + r)·(gain + offset) + shift along rows; orders as in row.wgsl.
alias X = f32;
alias R = f32;
alias R_THROUGH = f32;
alias W = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override R_BF16: bool = false;
override W_BF16: bool = false;
override OUT_BF16: bool = false;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read> r: array<R>;
@group(0) @binding(2) var<storage, read> gain: array<W>;
@group(0) @binding(3) var<storage, read> shift: array<W>;
@group(0) @binding(4) var<storage, read_write> sum_out: array<R>;
@group(0) @binding(5) var<storage, read_write> out: array<OUT>;

fn value(at: u32, at_r: u32) -> f32 {
    let stored = x[at];
    let other = r[at_r];
    var v: f32;
    var w: f32;
    if X_BF16 { v = bf16_to_f32(u32(stored)); } else { v = f32(stored); }
    if R_BF16 { w = bf16_to_f32(u32(other)); } else { w = f32(other); }
    return v + w;
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
    let begin_r = row_start(p.r, row, p.width);
    let to_sum = row_start(p.sum, row, p.width);
    var sum = 0.0;
    if here {
        for (var i = lane; i < p.n; i += TPR) {
            let v = value(begin + i * p.x.inner, begin_r + i * p.r.inner);
            sum += v;
            let at = to_sum + i * p.sum.inner;
            if R_BF16 { sum_out[at] = R(f32_to_bf16(v)); } else { sum_out[at] = R(R_THROUGH(v)); }
        }
    }
    var mean = 0.0;
    if KIND == 0u {
        mean = total(thread, sum) / f32(p.n);
    }
    var squares = 0.0;
    if here {
        for (var i = lane; i < p.n; i += TPR) {
            let v = value(begin + i * p.x.inner, begin_r + i * p.r.inner) - mean;
            squares = fma(v, v, squares);
        }
    }
    let scale = factor(total(thread, squares));
    if here {
        let gains = row_start(p.gain, row, p.width);
        let shifts = row_start(p.shift, row, p.width);
        let to = row_start(p.out, row, p.width);
        for (var i = lane; i < p.n; i += TPR) {
            var v = (value(begin + i * p.x.inner, begin_r + i * p.r.inner) - mean) * scale;
            if HAS_GAIN {
                let g = gain[gains + i * p.gain.inner];
                if W_BF16 { v *= bf16_to_f32(u32(g)) + p.offset; } else { v *= f32(g) + p.offset; }
            }
            if HAS_SHIFT {
                let s = shift[shifts + i * p.shift.inner];
                if W_BF16 { v += bf16_to_f32(u32(s)); } else { v += f32(s); }
            }
            let at = to + i * p.out.inner;
            if OUT_BF16 { out[at] = OUT(f32_to_bf16(v)); } else { out[at] = OUT(THROUGH(v)); }
        }
    }
}
