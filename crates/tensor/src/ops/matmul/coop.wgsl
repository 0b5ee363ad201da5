// A tile of BM x BN outputs a workgroup by cooperative matrices: f16 in, f32 sums. Four subgroups in
// a square hold (BM/2) x (BN/2) outputs each, as 4x4 fragments. Tiles of a and b, BK deep, pass
// through workgroup memory in two buffers: one is multiplied while the next is on its way. Edges:
// what lies outside is loaded as 0 and not stored. For any strides and starts, one number at a time.
// Aliases: fragments of 16 or 8, and as many numbers as a thread moves of a tile.
enable f16;
enable wgpu_cooperative_matrix;

alias CELLS = array<f16, 32>;
alias LEFT = coop_mat16x16<f16, A>;
alias RIGHT = coop_mat16x16<f16, B>;
alias SUM = coop_mat16x16<f32, C>;
alias OUT = f32;
override SIDE: u32 = 16u;
// Columns of b run along k (weights [n, k]), else along n.
override B_ALONG_K: bool = true;
const FRAGMENTS: u32 = 4u;
const THREADS: u32 = 128u;
const BK: u32 = 32u;
const PAD: u32 = 8u;
override BM: u32 = SIDE * FRAGMENTS * 2u;
override BN: u32 = SIDE * FRAGMENTS * 2u;
// Numbers that a row of each tile takes, and a buffer.
const ROW_A: u32 = BK + PAD;
override ROW_B: u32 = select(BN + PAD, BK + PAD, B_ALONG_K);
override SIZE_A: u32 = BM * ROW_A;
override SIZE_B: u32 = select(BK, BN, B_ALONG_K) * ROW_B;

@group(0) @binding(0) var<storage, read> a: array<f16>;
@group(0) @binding(1) var<storage, read> b: array<f16>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

var<workgroup> tile_a: array<f16, 2u * SIZE_A>;
var<workgroup> tile_b: array<f16, 2u * SIZE_B>;
// One fragment a subgroup on its way out.
var<workgroup> stage: array<f32, 4u * SIDE * SIDE>;

struct Place {
    z: u32,
    m0: u32,
    n0: u32,
    thread: u32,
}

// This thread's cells of the tile of a at depth k0.
fn fetch_a(at: Place, k0: u32) -> CELLS {
    var cells: CELLS;
    let across = BK;
    for (var i = 0u; i < BM * across / THREADS; i++) {
        let index = at.thread + i * THREADS;
        let row = at.m0 + index / across;
        let k = k0 + index % across;
        var cell: f16;
        if row < p.m && k < p.k {
            cell = a[p.start_a + at.z * p.a_batch + row * p.a_m + k];
        }
        cells[i] = cell;
    }
    return cells;
}

fn keep_a(at: Place, buffer: u32, cells: CELLS) {
    var copy = cells;
    let across = BK;
    for (var i = 0u; i < BM * across / THREADS; i++) {
        let index = at.thread + i * THREADS;
        tile_a[buffer * SIZE_A + (index / across) * (ROW_A) + index % across] = copy[i];
    }
}

fn fetch_b(at: Place, k0: u32) -> CELLS {
    var cells: CELLS;
    var across = BN;
    if B_ALONG_K {
        across = BK;
    }
    for (var i = 0u; i < BN * BK / THREADS; i++) {
        let index = at.thread + i * THREADS;
        let outer = index / across;
        let inner = index % across;
        var n = at.n0 + inner;
        var k = k0 + outer;
        if B_ALONG_K {
            n = at.n0 + outer;
            k = k0 + inner;
        }
        var cell: f16;
        if n < p.n && k < p.k {
            cell = b[p.start_b + at.z * p.b_batch + n * p.b_n + k * p.b_k];
        }
        cells[i] = cell;
    }
    return cells;
}

fn keep_b(at: Place, buffer: u32, cells: CELLS) {
    var copy = cells;
    var across = BN;
    if B_ALONG_K {
        across = BK;
    }
    for (var i = 0u; i < BN * BK / THREADS; i++) {
        let index = at.thread + i * THREADS;
        tile_b[buffer * SIZE_B + (index / across) * (ROW_B) + index % across] = copy[i];
    }
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) lanes: u32,
) {
    let at = Place(group.z, group.y * BM, group.x * BN, thread);
    // This subgroup's corner in the tile.
    let corner_m = (subgroup / 2u) * (BM / 2u);
    let corner_n = (subgroup % 2u) * (BN / 2u);
    var sums: array<SUM, 16>;
    for (var i = 0u; i < 16u; i++) {
        sums[i] = SUM();
    }
    keep_a(at, 0u, fetch_a(at, 0u));
    keep_b(at, 0u, fetch_b(at, 0u));
    var buffer = 0u;
    for (var k0 = 0u; k0 < p.k; k0 += BK) {
        workgroupBarrier();
        // Zeros past the end: never multiplied.
        let next_a = fetch_a(at, k0 + BK);
        let next_b = fetch_b(at, k0 + BK);
        let base_a = buffer * SIZE_A;
        let base_b = buffer * SIZE_B;
        for (var kk = 0u; kk < BK; kk += SIDE) {
            var left: array<LEFT, 4>;
            for (var i = 0u; i < FRAGMENTS; i++) {
                let begin = base_a + (corner_m + i * SIDE) * ROW_A + kk;
                left[i] = coopLoadT<LEFT>(&tile_a[begin], ROW_A);
            }
            for (var j = 0u; j < FRAGMENTS; j++) {
                let n = corner_n + j * SIDE;
                var right: RIGHT;
                if B_ALONG_K {
                    let begin = base_b + n * ROW_B + kk;
                    right = coopLoad<RIGHT>(&tile_b[begin], ROW_B);
                } else {
                    let begin = base_b + kk * ROW_B + n;
                    right = coopLoadT<RIGHT>(&tile_b[begin], ROW_B);
                }
                for (var i = 0u; i < FRAGMENTS; i++) {
                    sums[i * FRAGMENTS + j] = coopMultiplyAdd(left[i], right, sums[i * FRAGMENTS + j]);
                }
            }
        }
        buffer = 1u - buffer;
        keep_a(at, buffer, next_a);
        keep_b(at, buffer, next_b);
    }
    let mine = subgroup * SIDE * SIDE;
    for (var i = 0u; i < FRAGMENTS; i++) {
        for (var j = 0u; j < FRAGMENTS; j++) {
            let sum = sums[i * FRAGMENTS + j];
            let stride = SIDE;
            coopStoreT(sum, &stage[mine], stride);
            workgroupBarrier();
            let row0 = at.m0 + corner_m + i * SIDE;
            let column0 = at.n0 + corner_n + j * SIDE;
            for (var e = lane; e < SIDE * SIDE; e += lanes) {
                let row = row0 + e / SIDE;
                let column = column0 + e % SIDE;
                if row < p.m && column < p.n {
                    out[p.start_out + at.z * p.out_batch + row * p.out_m + column] = OUT(stage[mine + e]);
                }
            }
            workgroupBarrier();
        }
    }
}
