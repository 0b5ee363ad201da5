//! Products with chosen experts on the CPU: a unit takes some rows of one token's expert.

use tintype_gpu::kernel::{Rows, Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers, Stored};
use crate::simd::dots;
use crate::simd::quant::{Block, rows};

pub(super) fn dense(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let weights = Numbers::read(unit, 0, Number::from_code(p.codes & 3))?;
    let (n, k) = (p.n as usize, p.k as usize);
    let (mut converted, mut lanes) = (Vec::new(), Vec::new());
    by_output(unit, &p, |expert, first, x, sums| {
        let start = (expert * n + first) * k;
        let own = match weights {
            Numbers::F32(all) => &all[start..][..sums.len() * k],
            _ => {
                converted.resize(sums.len() * k, 0.0);
                weights.load(start, 1, &mut converted);
                &converted
            }
        };
        let [left, right] = [x, own].map(|data| dots::Rows { data, pitch: k });
        dots::products(left, 1, right, sums.len(), k, sums, &mut lanes);
    })
}

pub(super) fn blocks<B: Block>(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let weights: &[u8] = unit.read(0)?;
    let row_bytes = p.k as usize / B::ELEMENTS * B::BYTES;
    by_output(unit, &p, |expert, first, x, sums| {
        let start = (expert * p.n as usize + first) * row_bytes;
        rows::<B, 1>(&weights[start..][..sums.len() * row_bytes], [x], sums);
    })
}

fn by_output(
    unit: &mut Unit<'_>,
    p: &Params,
    product: impl FnMut(usize, usize, &[f32], &mut [f32]),
) -> Result<(), UnitError> {
    match Number::from_code(p.codes >> 4 & 3) {
        Number::F32 => into::<f32>(unit, p, product),
        Number::F16 => into::<half::f16>(unit, p, product),
        Number::Bf16 => into::<half::bf16>(unit, p, product),
    }
}

/// `product` takes an expert's number in this part, the first of its rows, x, and where sums go.
fn into<T: Stored>(
    unit: &mut Unit<'_>,
    p: &Params,
    mut product: impl FnMut(usize, usize, &[f32], &mut [f32]),
) -> Result<(), UnitError> {
    let x = Numbers::read(unit, 1, Number::from_code(p.codes >> 2 & 3))?;
    let ids: &[u32] = unit.read(2)?;
    let mut out: Rows<'_, T> = unit.rows(3)?;
    let (pair, first, used) = (out.first_row(), out.first_column(), p.used as usize);
    let id = ids[pair];
    let mut sums = vec![0.0f32; out.columns()];
    if id >= p.experts && p.first == 0 {
        sums.fill(f32::NAN);
    } else if (p.first..p.end).contains(&id) {
        let start = pair / used * p.x_token as usize + pair % used * p.x_used as usize;
        let mut scratch = vec![0.0f32; p.k as usize];
        let x = x.stretch(start, 1, p.k as usize, &mut scratch);
        product((id - p.first) as usize, first, x, &mut sums);
    } else {
        return Ok(());
    }
    if let Some(row) = out.row(0) {
        T::store(row, &sums);
    }
    Ok(())
}
