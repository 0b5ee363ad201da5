// y[m][row] = sum over i of weight[row][i] * x[m][i], for MANY rows of x at a time. Weights are
// whole GGML blocks; a row's sum is taken in one order, whatever MANY is: TPR threads take slices
// of a row in turn, then a tree adds them. `slice_sums` comes with the block type.
struct Params {
    rows: u32,
    blocks: u32,
    // In 16-bit halves, then in elements.
    start_w: u32,
    start_x: u32,
    start_out: u32,
    stride_x: u32,
    stride_out: u32,
}
var<immediate> p: Params;

// Weights as words, or as halves where a span does not end on a word.
alias W = u32;
override HALVES: bool = false;
override MANY: u32 = 1u;
override TPR: u32 = 16u;
const GROUP: u32 = 128u;
const MOST: u32 = 8u;

@group(0) @binding(0) var<storage, read> w: array<W>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> partial: array<f32, GROUP>;

fn half_at(h: u32) -> u32 {
    if HALVES {
        return u32(w[h]);
    }
    return (u32(w[h >> 1u]) >> ((h & 1u) * 16u)) & 0xffffu;
}

// Two neighbouring halves; may straddle words.
fn word_at(h: u32) -> u32 {
    if HALVES {
        return u32(w[h]) | (u32(w[h + 1u]) << 16u);
    }
    let low = u32(w[h >> 1u]);
    if (h & 1u) == 0u {
        return low;
    }
    return (low >> 16u) | (u32(w[(h >> 1u) + 1u]) << 16u);
}

fn f16_at(h: u32) -> f32 {
    return unpack2x16float(half_at(h)).x;
}

fn signed_byte(word: u32, n: u32) -> f32 {
    return f32(extractBits(bitcast<i32>(word), n * 8u, 8u));
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lane = thread % TPR;
    let row = (group.x + group.y * groups.x) * (GROUP / TPR) + thread / TPR;
    var sums: array<f32, MOST>;
    for (var m = 0u; m < MANY; m++) {
        sums[m] = 0.0;
    }
    if row < p.rows {
        let slices = p.blocks * SLICES;
        for (var slice = lane; slice < slices; slice += TPR) {
            let block = p.start_w + (row * p.blocks + slice / SLICES) * BLOCK_HALVES;
            let at = p.start_x + (slice / SLICES) * BLOCK_ELEMENTS;
            let decoded = decode(block, slice % SLICES);
            for (var m = 0u; m < MANY; m++) {
                sums[m] = slice_sum(decoded, slice % SLICES, at + m * p.stride_x, sums[m]);
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
        if lane == 0u && row < p.rows {
            out[p.start_out + m * p.stride_out + row] = partial[thread];
        }
        if MANY > 1u && TPR > 1u {
            workgroupBarrier();
        }
    }
}
