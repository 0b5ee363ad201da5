// A tile of 128 x 128 outputs a workgroup by cooperative matrices: f16 in, f32 sums. Four subgroups
// in a square hold 64 x 64 outputs each, as 4 x 4 fragments of 16 x 16. Tiles of a and b, 32 deep,
// pass through workgroup memory in cells of 16 bytes; while one is multiplied the next is on its way
// in registers. Fragments and cells have names, since arrays of them would live in memory.
// All strides and starts are whole cells.
//
// A word holds two f16: WGSL cannot say that a matrix of halves is loaded through wider words, so
// `LEFT` and `RIGHT` are declared over f32, and the translation to SPIR-V makes them f16.
enable f16;
enable wgpu_cooperative_matrix;

alias OUT = f32;
alias LEFT = coop_mat16x16<f32, A>;
alias RIGHT = coop_mat16x16<f32, B>;
alias SUM = coop_mat16x16<f32, C>;
// Columns of b run along k (weights [n, k]), else along n.
override B_ALONG_K: bool = true;
// Sizes are not whole tiles: what lies outside is loaded as 0 and not stored.
override EDGES: bool = true;
const SIDE: u32 = 128u;
const DEPTH: u32 = 32u;
const CELL: u32 = 8u;
// Cells of a tile's row, with one more between rows so that rows start in different banks.
const PITCH_K: u32 = DEPTH / CELL + 1u;
const PITCH_N: u32 = SIDE / CELL + 1u;
override PITCH_B: u32 = select(PITCH_N, PITCH_K, B_ALONG_K);
// On their way out, a subgroup's outputs pass through its quarter of tile_a, 16 rows of 32 at a time.
const QUARTER: u32 = SIDE * PITCH_K / 4u;
const PITCH_OUT: u32 = 9u;

@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

var<workgroup> tile_a: array<vec4<f32>, SIDE * PITCH_K>;
var<workgroup> tile_b: array<vec4<f32>, SIDE * PITCH_K>;

// The cell at `index`; 0 where it lies outside.
fn cell_a(index: u32, inside: bool) -> vec4<f32> {
    if EDGES && !inside {
        return vec4<f32>();
    }
    return a[index];
}

fn cell_b(index: u32, inside: bool) -> vec4<f32> {
    if EDGES && !inside {
        return vec4<f32>();
    }
    return b[index];
}

// Where a subgroup's outputs go.
struct Corner {
    z: u32,
    row: u32,
    column: u32,
    quarter: u32,
    lane: u32,
}

// Writes the 16 x 32 outputs at (row, column) from the corner.
fn store(to: Corner, row: u32, column: u32) {
    workgroupBarrier();
    let c = to.column + column + to.lane;
    let first = p.start_out + to.z * p.out_batch + c;
    for (var i = 0u; i < 16u; i++) {
        let r = to.row + row + i;
        if !EDGES || (r < p.m && c < p.n) {
            out[first + r * p.out_m] = OUT(tile_a[to.quarter + i * PITCH_OUT + to.lane / 4u][to.lane % 4u]);
        }
    }
    workgroupBarrier();
}

// Fragments from the tiles.
fn left(at: u32) -> LEFT {
    return coopLoadT<LEFT>(&tile_a[at], PITCH_K);
}

// Number j along n, half h of the depth.
fn right(at: u32, j: u32, h: u32) -> RIGHT {
    if B_ALONG_K {
        return coopLoad<RIGHT>(&tile_b[at + 16u * j * PITCH_K + 2u * h], PITCH_K);
    }
    return coopLoadT<RIGHT>(&tile_b[at + 16u * h * PITCH_N + 2u * j], PITCH_N);
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let m0 = group.y * SIDE;
    let n0 = group.x * SIDE;
    // This thread's cells of a: rows row_a, row_a + 32, ..; of b likewise, along k or along n.
    let row_a = thread / 4u;
    let k_a = (thread % 4u) * CELL;
    var row_b = row_a;
    var inner_b = k_a;
    var rows_b = 32u;
    if !B_ALONG_K {
        row_b = thread / 16u;
        inner_b = (thread % 16u) * CELL;
        rows_b = 8u;
    }
    let keep_a = row_a * PITCH_K + k_a / CELL;
    let keep_b = row_b * PITCH_B + inner_b / CELL;
    var at_a = (p.start_a + group.z * p.a_batch + (m0 + row_a) * p.a_m + k_a) / CELL;
    let step_a = 32u * p.a_m / CELL;
    var at_b = (p.start_b + group.z * p.b_batch + (n0 + row_b) * p.b_n + inner_b) / CELL;
    var step_b = 32u * p.b_n / CELL;
    var deeper_b = DEPTH / CELL;
    if !B_ALONG_K {
        at_b = (p.start_b + group.z * p.b_batch + row_b * p.b_k + n0 + inner_b) / CELL;
        step_b = 8u * p.b_k / CELL;
        deeper_b = DEPTH * p.b_k / CELL;
    }
    // What is left of each axis from this thread's first cells on.
    let room_m = i32(p.m) - i32(m0 + row_a);
    let room_n = i32(p.n) - i32(n0 + select(inner_b, row_b, B_ALONG_K));
    let k_b = select(row_b, inner_b, B_ALONG_K);
    let along_n = select(0, 32, B_ALONG_K);
    let along_k = select(8u, 0u, B_ALONG_K);
    // This subgroup's corner in the tile.
    let corner_m = (subgroup / 2u) * 64u;
    let corner_n = (subgroup % 2u) * 64u;
    let load_a = corner_m * PITCH_K;
    let load_b = select(corner_n / CELL, corner_n * PITCH_K, B_ALONG_K);
    var s00 = SUM();
    var s01 = SUM();
    var s02 = SUM();
    var s03 = SUM();
    var s10 = SUM();
    var s11 = SUM();
    var s12 = SUM();
    var s13 = SUM();
    var s20 = SUM();
    var s21 = SUM();
    var s22 = SUM();
    var s23 = SUM();
    var s30 = SUM();
    var s31 = SUM();
    var s32 = SUM();
    var s33 = SUM();
    var a0: vec4<f32>;
    var b0: vec4<f32>;
    var a1: vec4<f32>;
    var b1: vec4<f32>;
    var a2: vec4<f32>;
    var b2: vec4<f32>;
    var a3: vec4<f32>;
    var b3: vec4<f32>;
    // The cells that are fetched while the tiles are multiplied come one round early.
    for (var k0 = 0u; k0 < p.k + DEPTH; k0 += DEPTH) {
        if k0 > 0u {
            tile_a[keep_a] = a0;
            tile_a[keep_a + 32u * PITCH_K] = a1;
            tile_a[keep_a + 64u * PITCH_K] = a2;
            tile_a[keep_a + 96u * PITCH_K] = a3;
            tile_b[keep_b] = b0;
            tile_b[keep_b + rows_b * PITCH_B] = b1;
            tile_b[keep_b + 2u * rows_b * PITCH_B] = b2;
            tile_b[keep_b + 3u * rows_b * PITCH_B] = b3;
            workgroupBarrier();
        }
        if k0 < p.k {
            let inside_a = k0 + k_a < p.k;
            a0 = cell_a(at_a, inside_a && room_m > 0);
            a1 = cell_a(at_a + step_a, inside_a && room_m > 32);
            a2 = cell_a(at_a + 2u * step_a, inside_a && room_m > 64);
            a3 = cell_a(at_a + 3u * step_a, inside_a && room_m > 96);
            b0 = cell_b(at_b, k0 + k_b < p.k && room_n > 0);
            b1 = cell_b(at_b + step_b, k0 + k_b + along_k < p.k && room_n > along_n);
            b2 = cell_b(at_b + 2u * step_b, k0 + k_b + 2u * along_k < p.k && room_n > 2 * along_n);
            b3 = cell_b(at_b + 3u * step_b, k0 + k_b + 3u * along_k < p.k && room_n > 3 * along_n);
            at_a += DEPTH / CELL;
            at_b += deeper_b;
        }
        if k0 == 0u {
            continue;
        }
        // The first half of the depth.
        let l0_0 = left(load_a);
        let l1_0 = left(load_a + 16u * PITCH_K);
        let l2_0 = left(load_a + 32u * PITCH_K);
        let l3_0 = left(load_a + 48u * PITCH_K);
        let r0_0 = right(load_b, 0u, 0u);
        s00 = coopMultiplyAdd(l0_0, r0_0, s00);
        s10 = coopMultiplyAdd(l1_0, r0_0, s10);
        s20 = coopMultiplyAdd(l2_0, r0_0, s20);
        s30 = coopMultiplyAdd(l3_0, r0_0, s30);
        let r1_0 = right(load_b, 1u, 0u);
        s01 = coopMultiplyAdd(l0_0, r1_0, s01);
        s11 = coopMultiplyAdd(l1_0, r1_0, s11);
        s21 = coopMultiplyAdd(l2_0, r1_0, s21);
        s31 = coopMultiplyAdd(l3_0, r1_0, s31);
        let r2_0 = right(load_b, 2u, 0u);
        s02 = coopMultiplyAdd(l0_0, r2_0, s02);
        s12 = coopMultiplyAdd(l1_0, r2_0, s12);
        s22 = coopMultiplyAdd(l2_0, r2_0, s22);
        s32 = coopMultiplyAdd(l3_0, r2_0, s32);
        let r3_0 = right(load_b, 3u, 0u);
        s03 = coopMultiplyAdd(l0_0, r3_0, s03);
        s13 = coopMultiplyAdd(l1_0, r3_0, s13);
        s23 = coopMultiplyAdd(l2_0, r3_0, s23);
        s33 = coopMultiplyAdd(l3_0, r3_0, s33);
        // The second half of the depth.
        let l0_1 = left(load_a + 2u);
        let l1_1 = left(load_a + 16u * PITCH_K + 2u);
        let l2_1 = left(load_a + 32u * PITCH_K + 2u);
        let l3_1 = left(load_a + 48u * PITCH_K + 2u);
        let r0_1 = right(load_b, 0u, 1u);
        s00 = coopMultiplyAdd(l0_1, r0_1, s00);
        s10 = coopMultiplyAdd(l1_1, r0_1, s10);
        s20 = coopMultiplyAdd(l2_1, r0_1, s20);
        s30 = coopMultiplyAdd(l3_1, r0_1, s30);
        let r1_1 = right(load_b, 1u, 1u);
        s01 = coopMultiplyAdd(l0_1, r1_1, s01);
        s11 = coopMultiplyAdd(l1_1, r1_1, s11);
        s21 = coopMultiplyAdd(l2_1, r1_1, s21);
        s31 = coopMultiplyAdd(l3_1, r1_1, s31);
        let r2_1 = right(load_b, 2u, 1u);
        s02 = coopMultiplyAdd(l0_1, r2_1, s02);
        s12 = coopMultiplyAdd(l1_1, r2_1, s12);
        s22 = coopMultiplyAdd(l2_1, r2_1, s22);
        s32 = coopMultiplyAdd(l3_1, r2_1, s32);
        let r3_1 = right(load_b, 3u, 1u);
        s03 = coopMultiplyAdd(l0_1, r3_1, s03);
        s13 = coopMultiplyAdd(l1_1, r3_1, s13);
        s23 = coopMultiplyAdd(l2_1, r3_1, s23);
        s33 = coopMultiplyAdd(l3_1, r3_1, s33);
        workgroupBarrier();
    }
    let to = Corner(group.z, m0 + corner_m, n0 + corner_n, subgroup * QUARTER, lane);
    let way = to.quarter;
    let o00 = s00;
    let o01 = s01;
    coopStoreT(o00, &tile_a[way], PITCH_OUT);
    coopStoreT(o01, &tile_a[way + 4u], PITCH_OUT);
    store(to, 0u, 0u);
    let o02 = s02;
    let o03 = s03;
    coopStoreT(o02, &tile_a[way], PITCH_OUT);
    coopStoreT(o03, &tile_a[way + 4u], PITCH_OUT);
    store(to, 0u, 32u);
    let o10 = s10;
    let o11 = s11;
    coopStoreT(o10, &tile_a[way], PITCH_OUT);
    coopStoreT(o11, &tile_a[way + 4u], PITCH_OUT);
    store(to, 16u, 0u);
    let o12 = s12;
    let o13 = s13;
    coopStoreT(o12, &tile_a[way], PITCH_OUT);
    coopStoreT(o13, &tile_a[way + 4u], PITCH_OUT);
    store(to, 16u, 32u);
    let o20 = s20;
    let o21 = s21;
    coopStoreT(o20, &tile_a[way], PITCH_OUT);
    coopStoreT(o21, &tile_a[way + 4u], PITCH_OUT);
    store(to, 32u, 0u);
    let o22 = s22;
    let o23 = s23;
    coopStoreT(o22, &tile_a[way], PITCH_OUT);
    coopStoreT(o23, &tile_a[way + 4u], PITCH_OUT);
    store(to, 32u, 32u);
    let o30 = s30;
    let o31 = s31;
    coopStoreT(o30, &tile_a[way], PITCH_OUT);
    coopStoreT(o31, &tile_a[way + 4u], PITCH_OUT);
    store(to, 48u, 0u);
    let o32 = s32;
    let o33 = s33;
    coopStoreT(o32, &tile_a[way], PITCH_OUT);
    coopStoreT(o33, &tile_a[way + 4u], PITCH_OUT);
    store(to, 48u, 32u);
}
