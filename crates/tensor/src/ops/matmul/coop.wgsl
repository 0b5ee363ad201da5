// out = lhs · rhs, f16 in and f32 out, on 16×16×16 cooperative matrices. 128×128 sums a workgroup of
// four subgroups, 64×64 each; 32 terms a step, two steps of workgroup memory, so that the next
// step's loads run under this step's products. Only whole tiles; rows start at 16-byte borders.
enable f16;
enable wgpu_cooperative_matrix;
// The weights are contiguous along k ([n, k] seen transposed), not along n.
override RHS_K_INNER: bool = true;

struct Params {
    m: u32, n: u32, k: u32,
    lhs_start: u32, lhs_batch: u32, lhs_row: u32, lhs_k: u32,
    rhs_start: u32, rhs_batch: u32, rhs_k: u32, rhs_column: u32,
    out_start: u32, out_batch: u32, out_row: u32,
    types: u32, tile_rows: u32, tile_columns: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> lhs: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> rhs: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

const THREADS: u32 = 128u;
const TILE: u32 = 128u;
const STEP: u32 = 32u;
// Fragments of a subgroup, down and across.
const DOWN: u32 = 4u;
const ACROSS: u32 = 4u;
// Pitches in vec4<f16>. Eight halfs of padding a row spread neighbouring rows over all banks.
const K_PITCH: u32 = 10u;
const N_PITCH: u32 = 34u;
// One step of each operand: 128 rows of k, or 32 rows of n, whichever is larger.
const STAGE: u32 = 1280u;
var<workgroup> left: array<vec4<f16>, 2560>;
var<workgroup> right: array<vec4<f16>, 2560>;

// Eight bytes a thread, eight times, of each operand.
const LOADS: u32 = 8u;
var<private> next_left: array<vec4<f16>, 8>;
var<private> next_right: array<vec4<f16>, 8>;

fn load(lhs_base: u32, rhs_base: u32, done: u32, thread: u32) {
    for (var n = 0u; n < LOADS; n++) {
        let at = thread + n * THREADS;
        let row = at / 8u;
        let part = at % 8u;
        next_left[n] = lhs[(lhs_base + row * p.lhs_row + done) / 4u + part];
        if RHS_K_INNER {
            next_right[n] = rhs[(rhs_base + row * p.rhs_column + done) / 4u + part];
        } else {
            next_right[n] = rhs[(rhs_base + (done + at / 32u) * p.rhs_k) / 4u + at % 32u];
        }
    }
}

fn store(stage: u32, thread: u32) {
    for (var n = 0u; n < LOADS; n++) {
        let at = thread + n * THREADS;
        left[stage + at / 8u * K_PITCH + at % 8u] = next_left[n];
        var into = stage + at / 8u * K_PITCH + at % 8u;
        if !RHS_K_INNER { into = stage + at / 32u * N_PITCH + at % 32u; }
        right[into] = next_right[n];
    }
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let first_row = group.y * TILE;
    let first_column = group.x * TILE;
    let lhs_base = p.lhs_start + group.z * p.lhs_batch + first_row * p.lhs_row;
    let rhs_base = p.rhs_start + group.z * p.rhs_batch + first_column * p.rhs_column;
    let own_row = subgroup / 2u * 64u;
    let own_column = subgroup % 2u * 64u;
    var sums: array<array<coop_mat16x16<f32, C>, 4>, 4>;
    for (var i = 0u; i < DOWN; i++) {
        for (var j = 0u; j < ACROSS; j++) {
            sums[i][j] = coop_mat16x16<f32, C>();
        }
    }
    load(lhs_base, rhs_base, 0u, thread);
    store(0u, thread);
    workgroupBarrier();
    var stage = 0u;
    for (var done = 0u; done < p.k; done += STEP) {
        let more = done + STEP < p.k;
        if more { load(lhs_base, rhs_base, done + STEP, thread); }
        for (var t = 0u; t < STEP; t += 16u) {
            var a: array<coop_mat16x16<f16, A>, 4>;
            for (var i = 0u; i < DOWN; i++) {
                let at = stage + (own_row + i * 16u) * K_PITCH + t / 4u;
                a[i] = coopLoadT<coop_mat16x16<f16, A>>(&left[at], K_PITCH);
            }
            for (var j = 0u; j < ACROSS; j++) {
                var b: coop_mat16x16<f16, B>;
                if RHS_K_INNER {
                    let at = stage + (own_column + j * 16u) * K_PITCH + t / 4u;
                    b = coopLoad<coop_mat16x16<f16, B>>(&right[at], K_PITCH);
                } else {
                    let at = stage + t * N_PITCH + (own_column + j * 16u) / 4u;
                    b = coopLoadT<coop_mat16x16<f16, B>>(&right[at], N_PITCH);
                }
                for (var i = 0u; i < DOWN; i++) {
                    sums[i][j] = coopMultiplyAdd(a[i], b, sums[i][j]);
                }
            }
        }
        stage = STAGE - stage;
        if more { store(stage, thread); }
        workgroupBarrier();
    }
    for (var i = 0u; i < DOWN; i++) {
        for (var j = 0u; j < ACROSS; j++) {
            let row = first_row + own_row + i * 16u;
            let column = first_column + own_column + j * 16u;
            let at = p.out_start + group.z * p.out_batch + row * p.out_row + column;
            let sum = sums[i][j];
            let pitch = p.out_row;
            coopStoreT(sum, &out[at], pitch);
        }
    }
}
