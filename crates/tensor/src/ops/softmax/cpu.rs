//! Softmax on the CPU, a row at a time in the cache.

use tintype_gpu::kernel::{Unit, UnitError};

use super::{HAS_MASK, Params};
use crate::number::{Number, Numbers, NumbersMut};
use crate::simd::fold::{exp_sum, max};
use crate::simd::vectorize;

pub(super) fn softmax(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let number = |bit: u32| Number::from_code(p.codes >> bit & 3);
    let x = Numbers::read(unit, 0, number(0))?;
    let mask = match p.codes & HAS_MASK {
        0 => None,
        _ => Some(Numbers::read(unit, 1, number(2))?),
    };
    let mut out = NumbersMut::write(unit, 2, number(4))?;
    let n = p.n as usize;
    let (mut row, mut other) = (vec![0.0f32; n], vec![0.0f32; n]);
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        x.load(p.x.row(at, p.width), p.x.inner as usize, &mut row);
        vectorize(|| row.iter_mut().for_each(|v| *v *= p.scale));
        if let Some(mask) = mask {
            mask.load(p.mask.row(at, p.width), p.mask.inner as usize, &mut other);
            vectorize(|| row.iter_mut().zip(&other).for_each(|(v, m)| *v += m));
        }
        let largest = max(&row);
        if largest <= f32::MIN {
            row.fill(0.0);
        } else {
            let inverse = 1.0 / exp_sum(&mut row, largest);
            vectorize(|| row.iter_mut().for_each(|v| *v *= inverse));
        }
        out.store(p.out.row(at, p.width) - p.out.row(first, p.width), p.out.inner as usize, &row);
    }
    Ok(())
}
