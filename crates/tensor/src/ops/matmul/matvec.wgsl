// out[m, n] for MANY rows m, where rows of a and columns of b run along k: TPR threads share a
// column and take stretches of four in turn, then a tree adds them. A row's sums are taken in one
// order, whatever MANY is.
alias T = f32;
alias W = f32;
alias OUT = f32;
alias THROUGH = f32;
override A_BF16: bool = false;
override B_BF16: bool = false;
override OUT_BF16: bool = false;
override MANY: u32 = 1u;
override TPR: u32 = 32u;
const GROUP: u32 = 128u;
const MOST: u32 = 8u;

@group(0) @binding(0) var<storage, read> a: array<T>;
@group(0) @binding(1) var<storage, read> b: array<W>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

var<workgroup> partial: array<f32, GROUP>;

fn load_a(at: u32) -> f32 {
    let stored = a[at];
    if A_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn load_b(at: u32) -> f32 {
    let stored = b[at];
    if B_BF16 {
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
    let z = group.z;
    let lane = thread % TPR;
    let column = (group.x + group.y * groups.x) * (GROUP / TPR) + thread / TPR;
    var sums: array<f32, MOST>;
    for (var m = 0u; m < MANY; m++) {
        sums[m] = 0.0;
    }
    let base_a = p.start_a + z * p.a_batch;
    let base_b = p.start_b + z * p.b_batch + column * p.b_n;
    if column < p.n {
        let whole = p.k / 4u * 4u;
        for (var i = lane * 4u; i < whole; i += TPR * 4u) {
            let w0 = load_b(base_b + i);
            let w1 = load_b(base_b + i + 1u);
            let w2 = load_b(base_b + i + 2u);
            let w3 = load_b(base_b + i + 3u);
            for (var m = 0u; m < MANY; m++) {
                let at = base_a + m * p.a_m + i;
                var sum = fma(w0, load_a(at), sums[m]);
                sum = fma(w1, load_a(at + 1u), sum);
                sum = fma(w2, load_a(at + 2u), sum);
                sums[m] = fma(w3, load_a(at + 3u), sum);
            }
        }
        for (var i = whole + lane; i < p.k; i += TPR) {
            let w = load_b(base_b + i);
            for (var m = 0u; m < MANY; m++) {
                sums[m] = fma(w, load_a(base_a + m * p.a_m + i), sums[m]);
            }
        }
    }
    for (var m = 0u; m < MANY; m++) {
        partial[thread] = sums[m];
        for (var half = TPR / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if lane < half {
                partial[thread] += partial[thread + half];
            }
        }
        if lane == 0u && column < p.n {
            let at = p.start_out + z * p.out_batch + m * p.out_m + column;
            let r = partial[thread];
            if OUT_BF16 { out[at] = OUT(f32_to_bf16(r)); } else { out[at] = OUT(THROUGH(r)); }
        }
        if MANY > 1u && TPR > 1u {
            workgroupBarrier();
        }
    }
}
