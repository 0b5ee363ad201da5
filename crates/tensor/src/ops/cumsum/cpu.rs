//! Running sums on the CPU, in double precision: one after another, they would drift in single.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers, NumbersMut};

pub(super) fn cumsum(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let x = Numbers::read(unit, 0, Number::from_code(p.codes & 3))?;
    let mut out = NumbersMut::write(unit, 1, Number::from_code(p.codes >> 2))?;
    let mut row = vec![0.0f32; p.n as usize];
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        x.load(p.x.row(at, p.width), p.x.inner as usize, &mut row);
        let mut sum = 0.0f64;
        for v in &mut row {
            sum += f64::from(*v);
            *v = sum as f32;
        }
        out.store(p.out.row(at, p.width) - p.out.row(first, p.width), p.out.inner as usize, &row);
    }
    Ok(())
}
