// out[row, j] = Σ lhs[row, i] · rhs[i, j] with both contiguous along i: 4 sums a workgroup, 32
// threads each, added in a fixed tree.
alias LHS = f32;
alias RHS = f32;
alias OUT = f32;
alias THROUGH = f32;
override LHS_BF16: bool = false;
override RHS_BF16: bool = false;
override OUT_BF16: bool = false;

struct Params {
    m: u32, n: u32, k: u32,
    lhs_start: u32, lhs_batch: u32, lhs_row: u32, lhs_k: u32,
    rhs_start: u32, rhs_batch: u32, rhs_k: u32, rhs_column: u32,
    out_start: u32, out_batch: u32, out_row: u32,
    types: u32, tile_rows: u32, tile_columns: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> lhs: array<LHS>;
@group(0) @binding(1) var<storage, read> rhs: array<RHS>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

const THREADS: u32 = 32u;
var<workgroup> partial: array<f32, 128>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let column = group.x * 4u + thread / THREADS;
    let lane = thread % THREADS;
    var sum = 0.0;
    if column < p.n {
        let left = p.lhs_start + group.z * p.lhs_batch + group.y * p.lhs_row;
        let right = p.rhs_start + group.z * p.rhs_batch + column * p.rhs_column;
        for (var i = lane; i < p.k; i += THREADS) {
            let l = lhs[left + i];
            let r = rhs[right + i];
            var x: f32;
            var y: f32;
            if LHS_BF16 { x = bf16_to_f32(u32(l)); } else { x = f32(l); }
            if RHS_BF16 { y = bf16_to_f32(u32(r)); } else { y = f32(r); }
            sum = fma(x, y, sum);
        }
    }
    partial[thread] = sum;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if lane < width {
            partial[thread] += partial[thread + width];
        }
        workgroupBarrier();
    }
    if lane == 0u && column < p.n {
        let at = p.out_start + group.z * p.out_batch + group.y * p.out_row + column;
        let total = partial[thread];
        if OUT_BF16 { out[at] = OUT(f32_to_bf16(total)); } else { out[at] = OUT(THROUGH(total)); }
    }
}
