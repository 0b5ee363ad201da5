//! Products on the CPU. A unit computes one tile of the output: by the `gemm` crate, or row by
//! weight row where rows are few. Neither order of a sum depends on the tile or on other rows' number.

use tintype_gpu::kernel::{Rows, Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers, NumbersMut, Stored};
use crate::simd::dense::{Dot, Matrix, gemm};

/// Rows and columns of a tile, at most: large enough that packing costs little.
const TILE: usize = 256;

/// Tiles that a product is cut into at least, down to [`SMALLEST`] columns.
const TILES: usize = 8;

/// Columns of a tile, at least.
const SMALLEST: usize = 64;

/// Weight elements that a mat-vec unit reads: some fifty microseconds.
const MATVEC_ELEMENTS: usize = 256 << 10;

/// Depth at which 16-bit operands are converted, so that they stay in the cache.
const DEPTH: usize = 512;

/// The tile for a shape: (rows, columns).
pub(super) fn tile(batch: usize, m: usize, n: usize, k: usize, matvec: bool) -> (usize, usize) {
    if matvec {
        return (m, (MATVEC_ELEMENTS / k.max(1)).clamp(1, n.div_ceil(16).max(1)));
    }
    let (rows, mut columns) = (m.min(TILE), n.min(TILE));
    while batch * m.div_ceil(rows) * n.div_ceil(columns) < TILES && columns >= 2 * SMALLEST {
        columns = columns.div_ceil(2);
    }
    (rows, columns)
}

pub(super) fn matmul(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    match Number::from_code(params.codes >> 16 & 0xff) {
        Number::F32 => into::<f32>(unit, &params, Number::F32),
        Number::F16 => into::<half::f16>(unit, &params, Number::F16),
        Number::Bf16 => into::<half::bf16>(unit, &params, Number::Bf16),
    }
}

/// A unit's output: a tile, or whole rows with gaps.
enum Output<'a, T> {
    Tile(Rows<'a, T>),
    Rows(NumbersMut<'a>),
}

fn into<T: Stored>(unit: &mut Unit<'_>, params: &Params, number: Number) -> Result<(), UnitError> {
    let a = Numbers::read(unit, 0, Number::from_code(params.codes & 0xff))?;
    let b = Numbers::read(unit, 1, Number::from_code(params.codes >> 8 & 0xff))?;
    let columns = params.n.div_ceil(params.tile_n);
    let (y, x) = (unit.index() / columns, unit.index() % columns);
    let (row, column) = (y * params.tile_m, x * params.tile_n);
    let (z, m0) = (row / params.m, (row % params.m) as usize);
    let m = (params.tile_m as usize).min(params.m as usize - m0);
    let n = params.tile_n.min(params.n - column) as usize;
    let mut output = match params.codes >> 25 & 1 {
        1 => Output::Rows(NumbersMut::write(unit, 2, number)?),
        _ => Output::Tile(unit.rows::<T>(2)?),
    };
    let mut sums = vec![0.0f32; m * n];
    let tile = Tile { params, z: z as usize, m0, n0: column as usize, m, n };
    match params.codes >> 24 & 1 {
        1 => tile.matvec(a, b, &mut sums),
        _ => tile.gemm(a, b, &mut sums),
    }
    for (at, sums) in sums.chunks_exact(n).enumerate() {
        match &mut output {
            Output::Tile(rows) => {
                if let Some(row) = rows.row(at) {
                    T::store(row, sums);
                }
            }
            Output::Rows(all) => all.store(at * params.out_m as usize, 1, sums),
        }
    }
    Ok(())
}

/// One tile of one batch.
struct Tile<'a> {
    params: &'a Params,
    z: usize,
    m0: usize,
    n0: usize,
    m: usize,
    n: usize,
}

impl Tile<'_> {
    fn start_a(&self) -> usize {
        self.z * self.params.a_batch as usize + self.m0 * self.params.a_m as usize
    }

    fn start_b(&self) -> usize {
        self.z * self.params.b_batch as usize + self.n0 * self.params.b_n as usize
    }

    fn gemm(&self, a: Numbers<'_>, b: Numbers<'_>, sums: &mut [f32]) {
        let p = self.params;
        let (a_m, a_k) = (p.a_m as usize, p.a_k as usize);
        let (b_k, b_n) = (p.b_k as usize, p.b_n as usize);
        let k = p.k as usize;
        if let (Numbers::F32(a), Numbers::F32(b)) = (a, b) {
            let left = Matrix { data: &a[self.start_a()..], rows: a_m, columns: a_k };
            let right = Matrix { data: &b[self.start_b()..], rows: b_k, columns: b_n };
            gemm([self.m, self.n, k], left, right, sums, false);
            return;
        }
        // [m, depth] and [n, depth], converted.
        let (mut left, mut right) = (vec![0.0f32; self.m * DEPTH], vec![0.0f32; self.n * DEPTH]);
        for k0 in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - k0);
            for (row, out) in left.chunks_exact_mut(DEPTH).enumerate() {
                a.load(self.start_a() + row * a_m + k0 * a_k, a_k, &mut out[..depth]);
            }
            let right = match b_n == 1 && b_k != 1 {
                true => {
                    // [depth, n]: the order in which it lies.
                    for (at, out) in right.chunks_exact_mut(self.n).take(depth).enumerate() {
                        b.load(self.start_b() + (k0 + at) * b_k, 1, out);
                    }
                    Matrix { data: &right, rows: self.n, columns: 1 }
                }
                false => {
                    for (column, out) in right.chunks_exact_mut(DEPTH).enumerate() {
                        b.load(self.start_b() + column * b_n + k0 * b_k, b_k, &mut out[..depth]);
                    }
                    Matrix { data: &right, rows: 1, columns: DEPTH }
                }
            };
            let left = Matrix { data: &left, rows: DEPTH, columns: 1 };
            gemm([self.m, self.n, depth], left, right, sums, k0 > 0);
        }
    }

    /// Rows of a and columns of b run along k.
    fn matvec(&self, a: Numbers<'_>, b: Numbers<'_>, sums: &mut [f32]) {
        let p = self.params;
        let k = p.k as usize;
        let mut rows = vec![0.0f32; self.m * k];
        for (row, out) in rows.chunks_exact_mut(k).enumerate() {
            a.load(self.start_a() + row * p.a_m as usize, 1, out);
        }
        let mut dots = vec![Dot::new(); self.m];
        let mut block = [0.0f32; DEPTH];
        for column in 0..self.n {
            dots.fill(Dot::new());
            let start = self.start_b() + column * p.b_n as usize;
            for k0 in (0..k).step_by(DEPTH) {
                let depth = DEPTH.min(k - k0);
                let weights = b.stretch(start + k0, 1, depth, &mut block);
                for (dot, row) in dots.iter_mut().zip(rows.chunks_exact(k)) {
                    dot.add(weights, &row[k0..k0 + depth]);
                }
            }
            for (row, dot) in dots.iter().enumerate() {
                sums[row * self.n + column] = dot.sum();
            }
        }
    }
}
