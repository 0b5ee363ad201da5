// A tile of BM x BN outputs a workgroup, through workgroup memory, BK deep; 256 threads, each with
// 4x4 outputs in every quarter of 64x64. Any strides; edges are guarded where tiles are loaded and
// stored. The sum over k runs in ascending order, whatever the tile.
alias T = f32;
alias W = f32;
alias OUT = f32;
alias THROUGH = f32;
override A_BF16: bool = false;
override B_BF16: bool = false;
override OUT_BF16: bool = false;
override BM: u32 = 128u;
override BN: u32 = 128u;
// Neighbouring threads load along k, else along m or n.
override A_ALONG_K: bool = true;
override B_ALONG_K: bool = true;
const BK: u32 = 16u;
const THREADS: u32 = 256u;

@group(0) @binding(0) var<storage, read> a: array<T>;
@group(0) @binding(1) var<storage, read> b: array<W>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

// [k][m / 4] and [k][n / 4]; one vector of padding a row keeps columns on different banks.
var<workgroup> tile_a: array<vec4<f32>, BK * (BM / 4u + 1u)>;
var<workgroup> tile_b: array<vec4<f32>, BK * (BN / 4u + 1u)>;

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

fn store(at: u32, v: f32) {
    if OUT_BF16 {
        out[at] = OUT(f32_to_bf16(v));
    } else {
        out[at] = OUT(THROUGH(v));
    }
}

// Four neighbours of a row.
fn store_row(z: u32, row: u32, column: u32, v: vec4<f32>) {
    if row < p.m {
        let at = p.start_out + z * p.out_batch + row * p.out_m + column;
        if column < p.n { store(at, v.x); }
        if column + 1u < p.n { store(at + 1u, v.y); }
        if column + 2u < p.n { store(at + 2u, v.z); }
        if column + 3u < p.n { store(at + 3u, v.w); }
    }
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let z = group.z;
    let m0 = group.y * BM;
    let n0 = group.x * BN;
    let ty = thread / 16u;
    let tx = thread % 16u;
    let row_a = BM / 4u + 1u;
    let row_b = BN / 4u + 1u;
    let base_a = p.start_a + z * p.a_batch;
    let base_b = p.start_b + z * p.b_batch;
    var c: array<vec4<f32>, 16>;
    for (var i = 0u; i < 16u; i++) {
        c[i] = vec4<f32>();
    }
    for (var k0 = 0u; k0 < p.k; k0 += BK) {
        for (var i = thread; i < BM * BK; i += THREADS) {
            var row = i % BM;
            var kk = i / BM;
            if A_ALONG_K {
                row = i / BK;
                kk = i % BK;
            }
            var v = 0.0;
            if m0 + row < p.m && k0 + kk < p.k {
                v = load_a(base_a + (m0 + row) * p.a_m + (k0 + kk) * p.a_k);
            }
            tile_a[kk * row_a + row / 4u][row % 4u] = v;
        }
        for (var i = thread; i < BN * BK; i += THREADS) {
            var column = i % BN;
            var kk = i / BN;
            if B_ALONG_K {
                column = i / BK;
                kk = i % BK;
            }
            var v = 0.0;
            if n0 + column < p.n && k0 + kk < p.k {
                v = load_b(base_b + (k0 + kk) * p.b_k + (n0 + column) * p.b_n);
            }
            tile_b[kk * row_b + column / 4u][column % 4u] = v;
        }
        workgroupBarrier();
        for (var kk = 0u; kk < BK; kk++) {
            let a0 = tile_a[kk * row_a + ty];
            let b0 = tile_b[kk * row_b + tx];
            c[0] = fma(vec4<f32>(a0.x), b0, c[0]);
            c[1] = fma(vec4<f32>(a0.y), b0, c[1]);
            c[2] = fma(vec4<f32>(a0.z), b0, c[2]);
            c[3] = fma(vec4<f32>(a0.w), b0, c[3]);
            if BN > 64u {
                let b1 = tile_b[kk * row_b + 16u + tx];
                c[4] = fma(vec4<f32>(a0.x), b1, c[4]);
                c[5] = fma(vec4<f32>(a0.y), b1, c[5]);
                c[6] = fma(vec4<f32>(a0.z), b1, c[6]);
                c[7] = fma(vec4<f32>(a0.w), b1, c[7]);
            }
            if BM > 64u {
                let a1 = tile_a[kk * row_a + 16u + ty];
                c[8] = fma(vec4<f32>(a1.x), b0, c[8]);
                c[9] = fma(vec4<f32>(a1.y), b0, c[9]);
                c[10] = fma(vec4<f32>(a1.z), b0, c[10]);
                c[11] = fma(vec4<f32>(a1.w), b0, c[11]);
                if BN > 64u {
                    let b1 = tile_b[kk * row_b + 16u + tx];
                    c[12] = fma(vec4<f32>(a1.x), b1, c[12]);
                    c[13] = fma(vec4<f32>(a1.y), b1, c[13]);
                    c[14] = fma(vec4<f32>(a1.z), b1, c[14]);
                    c[15] = fma(vec4<f32>(a1.w), b1, c[15]);
                }
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < 4u; r++) {
        let row = m0 + ty * 4u + r;
        let column = n0 + tx * 4u;
        store_row(z, row, column, c[r]);
        if BN > 64u { store_row(z, row, column + 64u, c[4u + r]); }
        if BM > 64u { store_row(z, row + 64u, column, c[8u + r]); }
        if BM > 64u && BN > 64u { store_row(z, row + 64u, column + 64u, c[12u + r]); }
    }
}
