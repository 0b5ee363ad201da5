//! Products on the processor: a unit computes one tile through the `gemm` crate, or, for few rows,
//! the dot products of a stretch of columns.

use std::cell::RefCell;

use half::{bf16, f16};
use tintype_gpu::kernel::{Rows, Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers};
use crate::simd::{Matrix, dot, product, vectorize};

thread_local! {
    /// Converted operands and results of this worker, kept between units.
    static SCRATCH: RefCell<[Vec<f32>; 3]> = const { RefCell::new([const { Vec::new() }; 3]) };
}

/// Where a unit's tile lies: batch, first row and column, extents.
struct Tile {
    batch: usize,
    row: usize,
    column: usize,
    rows: usize,
    columns: usize,
}

impl Tile {
    fn of(unit: &Unit<'_>, params: &Params) -> Tile {
        let [tall, wide] = params.tile.map(|n| n as usize);
        let (m, n) = (params.m as usize, params.n as usize);
        let across = n.div_ceil(wide);
        let (down, right) = (unit.index() as usize / across, unit.index() as usize % across);
        let (batch, row) = (down * tall / m, down * tall % m);
        let column = right * wide;
        Tile { batch, row, column, rows: tall.min(m - row), columns: wide.min(n - column) }
    }
}

fn types(params: &Params) -> [Number; 3] {
    [0, 8, 16].map(|shift| Number::from_code(params.types >> shift & 0xff))
}

/// The operands of a tile as f32 matrices, converted where they are not.
struct Operands<'a> {
    lhs: Matrix<'a>,
    rhs: Matrix<'a>,
}

fn convert<'a>(
    numbers: Numbers<'a>,
    start: usize,
    (outer, outer_stride): (usize, usize),
    (inner, inner_stride): (usize, usize),
    scratch: &'a mut Vec<f32>,
) -> (&'a [f32], usize, usize) {
    if let Numbers::F32(all) = numbers {
        return (all.get(start..).unwrap_or_default(), outer_stride, inner_stride);
    }
    // The contiguous axis becomes the inner one.
    let swap = inner_stride != 1 && outer_stride == 1;
    let ((o, os), (i, is)) = match swap {
        true => ((inner, inner_stride), (outer, outer_stride)),
        false => ((outer, outer_stride), (inner, inner_stride)),
    };
    scratch.resize(o * i, 0.0);
    for (at, row) in scratch.chunks_exact_mut(i).enumerate() {
        numbers.load(start + at * os, is, row);
    }
    match swap {
        true => (scratch, 1, i),
        false => (scratch, i, 1),
    }
}

/// One tile of the output.
pub(super) fn tile(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let [tl, tr, to] = types(&params);
    let tile = Tile::of(unit, &params);
    let (lhs, rhs) = (Numbers::read(unit, 0, tl)?, Numbers::read(unit, 1, tr)?);
    let k = params.k as usize;
    let left = params.lhs_start as usize
        + tile.batch * params.lhs_batch as usize
        + tile.row * params.lhs_row as usize;
    let right = params.rhs_start as usize
        + tile.batch * params.rhs_batch as usize
        + tile.column * params.rhs_column as usize;
    SCRATCH.with_borrow_mut(|[for_lhs, for_rhs, for_out]| {
        let (data, row, column) = convert(
            lhs,
            left,
            (tile.rows, params.lhs_row as usize),
            (k, params.lhs_k as usize),
            for_lhs,
        );
        let lhs = Matrix { data, row, column };
        let (data, row, column) = convert(
            rhs,
            right,
            (k, params.rhs_k as usize),
            (tile.columns, params.rhs_column as usize),
            for_rhs,
        );
        let operands = Operands { lhs, rhs: Matrix { data, row, column } };
        write(unit, &params, &tile, to, &operands, for_out)
    })
}

/// Computes into the unit's own part of the output.
fn write(
    unit: &Unit<'_>,
    params: &Params,
    tile: &Tile,
    to: Number,
    operands: &Operands<'_>,
    scratch: &mut Vec<f32>,
) -> Result<(), UnitError> {
    let k = params.k as usize;
    let small = || UnitError::Kernel("an operand is smaller than its strides say".into());
    let tiled = unit.write_is_tiled(2);
    match (to, tiled) {
        (Number::F32, true) => {
            let mut rows = unit.rows::<f32>(2)?;
            product(operands.lhs, operands.rhs, k, &mut rows).then_some(()).ok_or_else(small)
        }
        _ => {
            scratch.resize(tile.rows * tile.columns, 0.0);
            let mut rows = Rows::of(scratch, tile.columns);
            if !product(operands.lhs, operands.rhs, k, &mut rows) {
                return Err(small());
            }
            let values = scratch.chunks_exact(tile.columns);
            match (to, tiled) {
                (Number::F32, _) => copy_out(unit, params, tiled, values, |x| x),
                (Number::F16, _) => copy_out(unit, params, tiled, values, f16::from_f32),
                (Number::Bf16, _) => copy_out(unit, params, tiled, values, bf16::from_f32),
            }
        }
    }
}

/// Stores rows of f32 in the output's type.
fn copy_out<'v, T: bytemuck::Pod>(
    unit: &Unit<'_>,
    params: &Params,
    tiled: bool,
    values: impl Iterator<Item = &'v [f32]>,
    to: impl Fn(f32) -> T,
) -> Result<(), UnitError> {
    let store = |out: &mut [T], row: &[f32]| {
        for (out, x) in out.iter_mut().zip(row) {
            *out = to(*x);
        }
    };
    if tiled {
        let mut rows = unit.rows::<T>(2)?;
        for (at, row) in values.enumerate() {
            rows.row(at).into_iter().for_each(|out| store(out, row));
        }
    } else {
        let out = unit.write::<T>(2)?;
        for (out, row) in out.chunks_mut((params.out_row as usize).max(1)).zip(values) {
            store(out, row);
        }
    }
    Ok(())
}

/// A stretch of columns of one row: a dot product each.
pub(super) fn columns(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let [tl, tr, to] = types(&params);
    let tile = Tile::of(unit, &params);
    let (lhs, rhs) = (Numbers::read(unit, 0, tl)?, Numbers::read(unit, 1, tr)?);
    let k = params.k as usize;
    let left = params.lhs_start as usize
        + tile.batch * params.lhs_batch as usize
        + tile.row * params.lhs_row as usize;
    let right = params.rhs_start as usize + tile.batch * params.rhs_batch as usize;
    SCRATCH.with_borrow_mut(|[for_lhs, for_rhs, sums]| {
        for_lhs.resize(k, 0.0);
        for_rhs.resize(k, 0.0);
        sums.resize(tile.columns, 0.0);
        let x = lhs.stretch(left, 1, k, for_lhs);
        vectorize(|| {
            for (at, sum) in sums.iter_mut().enumerate() {
                let start = right + (tile.column + at) * params.rhs_column as usize;
                *sum = dot(x, rhs.stretch(start, 1, k, for_rhs));
            }
        });
        let values = std::iter::once(&sums[..]);
        let tiled = unit.write_is_tiled(2);
        match to {
            Number::F32 => copy_out(unit, &params, tiled, values, |x| x),
            Number::F16 => copy_out(unit, &params, tiled, values, f16::from_f32),
            Number::Bf16 => copy_out(unit, &params, tiled, values, bf16::from_f32),
        }
    })
}
