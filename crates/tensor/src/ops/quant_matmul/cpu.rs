//! Quantized products on the CPU: a unit takes some rows of the matrix and some vectors. Few vectors
//! meet rows as they are decoded; for many, rows are decoded once. Both sum in one order.

use tintype_gpu::kernel::{Rows, Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers, Stored};
use crate::simd::dots;
use crate::simd::quant::{Block, decode, rows};

/// Vectors up to which rows are not decoded into memory.
pub(super) const FEW: usize = 8;

/// Vectors of a unit, where they are many.
const VECTORS: usize = 240;

/// Floats of decoded rows, at most: a third of a second-level cache.
const DECODED: usize = 96 << 10;

/// Weight bytes that a unit of few vectors reads: some fifty microseconds.
const UNIT_BYTES: usize = 256 << 10;

/// Rows and vectors of a unit.
pub(super) fn tile(rows: usize, vectors: usize, k: usize, row_bytes: usize) -> [usize; 2] {
    if vectors <= FEW {
        let own = UNIT_BYTES / row_bytes.max(1) / vectors.max(1);
        return [own.clamp(1, rows.div_ceil(16).max(1)).next_multiple_of(4).min(rows), vectors];
    }
    let own = (DECODED / k).clamp(4, 64) / 4 * 4;
    let parts = vectors.div_ceil(VECTORS);
    [own.min(rows), vectors.div_ceil(parts).next_multiple_of(6).min(vectors)]
}

pub(super) fn matmul<B: Block>(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    match Number::from_code(p.codes >> 4 & 15) {
        Number::F32 => into::<B, f32>(unit, &p),
        Number::F16 => into::<B, half::f16>(unit, &p),
        Number::Bf16 => into::<B, half::bf16>(unit, &p),
    }
}

fn into<B: Block, T: Stored>(unit: &mut Unit<'_>, p: &Params) -> Result<(), UnitError> {
    let weights: &[u8] = unit.read(0)?;
    let x = Numbers::read(unit, 1, Number::from_code(p.codes & 15))?;
    let mut out: Rows<'_, T> = unit.rows(2)?;
    let row_bytes = p.blocks as usize * B::BYTES;
    let k = p.blocks as usize * B::ELEMENTS;
    let (first, count, m) = (out.first_column(), out.columns(), out.len());
    if count == 0 || m == 0 {
        return Ok(());
    }
    let weights = &weights[first * row_bytes..(first + count) * row_bytes];
    let mut scratch = Vec::new();
    let first_vector = out.first_row();
    let start = |at: usize| (first_vector + at) * p.stride_x as usize;
    let mut sums = vec![0.0f32; count * m];
    // As they lie, if they are dense f32.
    let xs = match x {
        Numbers::F32(all) if p.stride_x as usize == k || m == 1 => &all[start(0)..][..m * k],
        _ => {
            scratch.resize(m * k, 0.0);
            for (at, row) in scratch.chunks_exact_mut(k).enumerate() {
                x.load(start(at), 1, row);
            }
            &scratch
        }
    };
    if m <= FEW {
        few::<B>(weights, xs, k, &mut sums, count);
    } else {
        let mut decoded = vec![0.0f32; count * k];
        decode::<B>(weights, &mut decoded);
        let mut lanes = Vec::new();
        let [left, right] = [xs, &decoded].map(|data| dots::Rows { data, pitch: k });
        dots::products(left, m, right, count, k, &mut sums, &mut lanes);
    }
    for (at, sums) in sums.chunks_exact(count).enumerate() {
        if let Some(row) = out.row(at) {
            T::store(row, sums);
        }
    }
    Ok(())
}

/// Up to eight vectors, in fours and so on.
fn few<B: Block>(weights: &[u8], xs: &[f32], k: usize, sums: &mut [f32], count: usize) {
    fn take<B: Block, const M: usize>(weights: &[u8], xs: &[f32], k: usize, sums: &mut [f32]) {
        let vectors = std::array::from_fn::<&[f32], M, _>(|at| &xs[at * k..][..k]);
        rows::<B, M>(weights, vectors, sums);
    }
    let (mut xs, mut sums) = (xs, sums);
    while !xs.is_empty() {
        let at_once = match xs.len() / k {
            8.. => 8,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        let (own, rest) = sums.split_at_mut(at_once * count);
        match at_once {
            8 => take::<B, 8>(weights, xs, k, own),
            4 => take::<B, 4>(weights, xs, k, own),
            2 => take::<B, 2>(weights, xs, k, own),
            _ => take::<B, 1>(weights, xs, k, own),
        }
        (xs, sums) = (&xs[at_once * k..], rest);
    }
}
