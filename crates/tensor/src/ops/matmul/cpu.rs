//! Products on the CPU. A unit computes one tile of the output: row by row where both operands run along
//! k, as with weights, else by the `gemm` crate (also for many shallow f32 rows). Neither order of a sum
//! depends on the tile or on other rows' number.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers, NumbersMut, Stored};
use crate::simd::dense::{Matrix, gemm};
use crate::simd::dots::{Rows, products};

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

/// Rows up to which columns are read once, as they stream from memory.
const FEW: usize = 8;

/// Floats of converted columns that stay in half of the first-level cache.
const L1_FLOATS: usize = 4 << 10;

/// Rows of a tile where both operands run along k.
const ROWS: usize = 240;

/// Floats of such a tile's columns: a third of a second-level cache.
const COLUMNS: usize = 96 << 10;

/// Depth from which many f32 rows are multiplied row by row: below, adding up lanes costs more than
/// what the `gemm` crate spends on packing.
const DEEP: usize = 512;

/// Whether operands that run along k are multiplied row by row, rather than by the `gemm` crate: what
/// that depends on is the same for a member of a batch alone.
pub(super) fn by_rows(types: [Number; 2], few: bool, k: usize) -> bool {
    types != [Number::F32; 2] || few || k >= DEEP
}

/// The tile for a shape: (rows, columns). `by_rows`: row by row.
pub(super) fn tile(batch: usize, m: usize, n: usize, k: usize, by_rows: bool) -> (usize, usize) {
    if by_rows && m <= FEW {
        let columns = (MATVEC_ELEMENTS / k.max(1)).clamp(1, n.div_ceil(16).max(1));
        return (m, columns.next_multiple_of(4).min(n));
    }
    if by_rows {
        let rows = m.div_ceil(m.div_ceil(ROWS)).next_multiple_of(6).min(m);
        let mut columns = (COLUMNS / k.max(1)).clamp(16, 64) / 4 * 4;
        while batch * m.div_ceil(rows) * n.div_ceil(columns) < TILES && columns >= 32 {
            columns = (columns / 2).next_multiple_of(4);
        }
        return (rows, columns.min(n));
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
    Tile(tintype_gpu::kernel::Rows<'a, T>),
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
        1 => tile.dots(a, b, &mut sums),
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
    fn dots(&self, a: Numbers<'_>, b: Numbers<'_>, sums: &mut [f32]) {
        let p = self.params;
        let k = p.k as usize;
        let (mut left, mut right, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
        let left = rows(a, self.start_a(), p.a_m as usize, self.m, k, &mut left);
        if let Numbers::F32(_) = b {
            let right = rows(b, self.start_b(), p.b_n as usize, self.n, k, &mut right);
            return products(left, self.m, right, self.n, k, sums, &mut lanes);
        }
        // A few columns are converted at a time where they are used once, all where they are used again.
        let few = (L1_FLOATS / k).clamp(1, 4).min(self.n);
        let at_once = if self.m <= FEW { few } else { self.n };
        let mut part = vec![0.0f32; if at_once < self.n { self.m * at_once } else { 0 }];
        for n0 in (0..self.n).step_by(at_once) {
            let n = at_once.min(self.n - n0);
            let start = self.start_b() + n0 * p.b_n as usize;
            let right = rows(b, start, p.b_n as usize, n, k, &mut right);
            if n == self.n {
                return products(left, self.m, right, n, k, sums, &mut lanes);
            }
            products(left, self.m, right, n, k, &mut part[..self.m * n], &mut lanes);
            for (sums, part) in sums.chunks_exact_mut(self.n).zip(part.chunks_exact(n)) {
                sums[n0..n0 + n].copy_from_slice(part);
            }
        }
    }
}

/// `count` rows along k: as they lie if they are f32, else converted.
fn rows<'s>(
    all: Numbers<'s>,
    start: usize,
    pitch: usize,
    count: usize,
    k: usize,
    scratch: &'s mut Vec<f32>,
) -> Rows<'s> {
    if let Numbers::F32(all) = all {
        return Rows { data: &all[start..], pitch };
    }
    scratch.resize(count * k, 0.0);
    for (at, row) in scratch.chunks_exact_mut(k).enumerate() {
        all.load(start + at * pitch, 1, row);
    }
    Rows { data: scratch, pitch: k }
}
