//! Norms on the CPU: a row is taken into the cache as f32, then its sums, then what comes out.

use tintype_gpu::kernel::{Unit, UnitError};

use super::{HAS_GAIN, HAS_SHIFT, Norm, Params};
use crate::number::{Number, Numbers, NumbersMut};
use crate::simd::fold::{sum, sum_squares_about};
use crate::simd::vectorize;

pub(super) fn row(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    rows(unit, &params, [1, 2, 3], None)
}

pub(super) fn row_add(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let number = number(&params, 2);
    let residual = (Numbers::read(unit, 1, number)?, NumbersMut::write(unit, 4, number)?);
    rows(unit, &params, [2, 3, 5], Some(residual))
}

fn number(params: &Params, bit: u32) -> Number {
    Number::from_code(params.codes >> bit & 3)
}

fn rows(
    unit: &Unit<'_>,
    p: &Params,
    [gain, shift, out]: [usize; 3],
    mut residual: Option<(Numbers<'_>, NumbersMut<'_>)>,
) -> Result<(), UnitError> {
    let x = Numbers::read(unit, 0, number(p, 0))?;
    // What is not there is bound to something of another type.
    let weights = |slot: usize, flag: u32| match p.codes & flag {
        0 => Ok(None),
        _ => Numbers::read(unit, slot, number(p, 4)).map(Some),
    };
    let (gain, shift) = (weights(gain, HAS_GAIN)?, weights(shift, HAS_SHIFT)?);
    let mut out = NumbersMut::write(unit, out, number(p, 6))?;
    let n = p.n as usize;
    let (mut row, mut other) = (vec![0.0f32; n], vec![0.0f32; n]);
    let mut weights = [None, None].map(|_: Option<()>| (usize::MAX, vec![0.0f32; n]));
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        x.load(p.x.row(at, p.width), p.x.inner as usize, &mut row);
        let own = |place: &super::Place| place.row(at, p.width) - place.row(first, p.width);
        if let Some((r, sums)) = &mut residual {
            r.load(p.r.row(at, p.width), p.r.inner as usize, &mut other);
            vectorize(|| row.iter_mut().zip(&other).for_each(|(x, r)| *x += r));
            sums.store(own(&p.sum), p.sum.inner as usize, &row);
        }
        let (mean, scale) = middle_and_scale(p, &row);
        let [gains, shifts] = &mut weights;
        let gains = keep(gain, p.gain.row(at, p.width), p.gain.inner as usize, gains);
        let shifts = keep(shift, p.shift.row(at, p.width), p.shift.inner as usize, shifts);
        affine(&mut row, mean, scale, gains.map(|gains| (gains, p.offset)), shifts);
        out.store(own(&p.out), p.out.inner as usize, &row);
    }
    Ok(())
}

/// A row of weights as f32, converted again only where it is another one.
fn keep<'s>(
    from: Option<Numbers<'_>>,
    at: usize,
    stride: usize,
    kept: &'s mut (usize, Vec<f32>),
) -> Option<&'s [f32]> {
    let from = from?;
    if kept.0 != at {
        from.load(at, stride, &mut kept.1);
        kept.0 = at;
    }
    Some(&kept.1)
}

fn middle_and_scale(p: &Params, row: &[f32]) -> (f32, f32) {
    let kind = p.codes >> 8 & 3;
    let n = row.len() as f32;
    let mean = if kind == Norm::Layer as u32 { sum(row) / n } else { 0.0 };
    let squares = sum_squares_about(row, mean);
    let scale = match kind == Norm::L2 as u32 {
        true => 1.0 / squares.sqrt().max(p.eps),
        false => 1.0 / (squares / n + p.eps).sqrt(),
    };
    (mean, scale)
}

/// `row = (row − mean)·scale·(gain + offset) + shift`
fn affine(
    row: &mut [f32],
    mean: f32,
    scale: f32,
    gain: Option<(&[f32], f32)>,
    shift: Option<&[f32]>,
) {
    vectorize(
        #[inline(always)]
        || {
            row.iter_mut().for_each(|v| *v = (*v - mean) * scale);
            if let Some((gain, offset)) = gain {
                row.iter_mut().zip(gain).for_each(|(v, g)| *v *= g + offset);
            }
            if let Some(shift) = shift {
                row.iter_mut().zip(shift).for_each(|(v, s)| *v += s);
            }
        },
    );
}
