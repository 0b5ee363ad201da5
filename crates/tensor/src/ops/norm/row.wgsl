// out = norm(x)·(gain + offset) + shift along rows. TPR threads share a row: they take elements in
// turn, then a tree adds what they have, whatever other rows there are.
alias X = f32;
alias W = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override W_BF16: bool = false;
override OUT_BF16: bool = false;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read> gain: array<W>;
@group(0) @binding(2) var<storage, read> shift: array<W>;
@group(0) @binding(3) var<storage, read_write> out: array<OUT>;

fn value(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
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
    let row = (group.x + group.y * groups.x) * (GROUP / TPR) + thread / TPR;
    let lane = thread % TPR;
    let here = row < p.rows;
    let begin = row_start(p.x, row, p.width);
    var sum = 0.0;
    if KIND == 0u {
        if here {
            for (var i = lane; i < p.n; i += TPR) {
                sum += value(begin + i * p.x.inner);
            }
        }
        sum = total(thread, sum);
    }
    let mean = sum / f32(p.n);
    var squares = 0.0;
    if here {
        for (var i = lane; i < p.n; i += TPR) {
            let v = value(begin + i * p.x.inner) - mean;
            squares = fma(v, v, squares);
        }
    }
    let scale = factor(total(thread, squares));
    if here {
        let gains = row_start(p.gain, row, p.width);
        let shifts = row_start(p.shift, row, p.width);
        let to = row_start(p.out, row, p.width);
        for (var i = lane; i < p.n; i += TPR) {
            var v = (value(begin + i * p.x.inner) - mean) * scale;
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
