//! Sinusoids on the CPU, a row at a time.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, NumbersMut};
use crate::simd::{turn, vectorize};

pub(super) fn sinusoid(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let (x, frequencies): (&[f32], &[f32]) = (unit.read(0)?, unit.read(1)?);
    let mut out = NumbersMut::write(unit, 2, Number::from_code(p.codes))?;
    let half = p.half as usize;
    let mut row = vec![0.0f32; 2 * half];
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        let position = x[p.x.row(at, p.width)];
        let (front, back) = row.split_at_mut(half);
        let (sines, cosines) = if p.cosines_first == 1 { (back, front) } else { (front, back) };
        vectorize(
            #[inline(always)]
            || {
                for ((sine, cosine), frequency) in sines.iter_mut().zip(cosines).zip(frequencies) {
                    [*cosine, *sine] = turn(position, *frequency);
                }
            },
        );
        out.store(p.out.row(at, p.width) - p.out.row(first, p.width), p.out.inner as usize, &row);
    }
    Ok(())
}
