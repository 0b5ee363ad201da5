//! Quantized products on the CPU: a unit takes some rows of the matrix and all vectors.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::simd::quant::{Q6K, Q8_0, RowDot};

pub(super) fn q8_0(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    matvec::<Q8_0>(unit)
}

pub(super) fn q6_k(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    matvec::<Q6K>(unit)
}

fn matvec<B: RowDot>(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let weights: &[u8] = unit.read(0)?;
    let x: &[f32] = unit.read(1)?;
    let mut out = unit.rows::<f32>(2)?;
    let row_bytes = params.blocks as usize * B::BYTES;
    let k = params.blocks as usize * B::ELEMENTS;
    let (first, count, m) = (out.first_column(), out.columns(), out.len());
    let weights = &weights[first * row_bytes..(first + count) * row_bytes];
    let vector = |at: usize| &x[at * params.stride_x as usize..][..k];
    let mut sums = vec![0.0; count * m];
    match m {
        1 => B::rows(weights, [vector(0)], &mut sums),
        2 => B::rows(weights, [0, 1].map(vector), &mut sums),
        4 => B::rows(weights, [0, 1, 2, 3].map(vector), &mut sums),
        8 => B::rows(weights, [0, 1, 2, 3, 4, 5, 6, 7].map(vector), &mut sums),
        other => return Err(UnitError::Kernel(format!("{other} vectors at once"))),
    }
    for at in 0..m {
        if let Some(row) = out.row(at) {
            row.copy_from_slice(&sums[at * count..][..count]);
        }
    }
    Ok(())
}
