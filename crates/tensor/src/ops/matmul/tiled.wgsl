// out = lhs · rhs in tiles of 64×64 a workgroup, 4×4 sums a thread, 16 terms a step.
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

const TILE: u32 = 64u;
const STEP: u32 = 16u;
// A row more than needed keeps columns in different banks.
const PITCH: u32 = 65u;
var<workgroup> left: array<f32, 1040>;
var<workgroup> right: array<f32, 1040>;

fn lhs_at(i: u32) -> f32 {
    let stored = lhs[i];
    if LHS_BF16 { return bf16_to_f32(u32(stored)); }
    return f32(stored);
}

fn rhs_at(i: u32) -> f32 {
    let stored = rhs[i];
    if RHS_BF16 { return bf16_to_f32(u32(stored)); }
    return f32(stored);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first_row = group.y * TILE;
    let first_column = group.x * TILE;
    let lhs_base = p.lhs_start + group.z * p.lhs_batch;
    let rhs_base = p.rhs_start + group.z * p.rhs_batch;
    // Neighbouring threads load along the contiguous axis.
    let lhs_inner = p.lhs_k <= p.lhs_row;
    let rhs_inner = p.rhs_k < p.rhs_column;
    let own_row = thread / 16u;
    let own_column = thread % 16u;
    var sums: array<vec4<f32>, 4>;
    for (var done = 0u; done < p.k; done += STEP) {
        for (var n = 0u; n < 4u; n++) {
            let at = thread + n * 256u;
            let lt = select(at / TILE, at % STEP, lhs_inner);
            let li = select(at % TILE, at / STEP, lhs_inner);
            var l = 0.0;
            if done + lt < p.k && first_row + li < p.m {
                l = lhs_at(lhs_base + (first_row + li) * p.lhs_row + (done + lt) * p.lhs_k);
            }
            left[lt * PITCH + li] = l;
            let rt = select(at / TILE, at % STEP, rhs_inner);
            let ri = select(at % TILE, at / STEP, rhs_inner);
            var r = 0.0;
            if done + rt < p.k && first_column + ri < p.n {
                r = rhs_at(rhs_base + (first_column + ri) * p.rhs_column + (done + rt) * p.rhs_k);
            }
            right[rt * PITCH + ri] = r;
        }
        workgroupBarrier();
        for (var t = 0u; t < STEP; t++) {
            let at = t * PITCH;
            let r = vec4(
                right[at + own_column],
                right[at + own_column + 16u],
                right[at + own_column + 32u],
                right[at + own_column + 48u],
            );
            for (var n = 0u; n < 4u; n++) {
                sums[n] = fma(vec4(left[at + own_row + n * 16u]), r, sums[n]);
            }
        }
        workgroupBarrier();
    }
    for (var n = 0u; n < 4u; n++) {
        let row = first_row + own_row + n * 16u;
        for (var c = 0u; c < 4u; c++) {
            let column = first_column + own_column + c * 16u;
            if row < p.m && column < p.n {
                let at = p.out_start + group.z * p.out_batch + row * p.out_row + column;
                let sum = sums[n][c];
                if OUT_BF16 { out[at] = OUT(f32_to_bf16(sum)); } else { out[at] = OUT(THROUGH(sum)); }
            }
        }
    }
}
