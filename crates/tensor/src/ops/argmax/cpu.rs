//! The place of the largest on the CPU, row by row.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers};

pub(super) fn argmax(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let x = Numbers::read(unit, 0, Number::from_code(p.codes))?;
    let out: &mut [i32] = unit.write(1)?;
    let mut row = vec![0.0f32; p.n as usize];
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        x.load(p.x.row(at, p.width), p.x.inner as usize, &mut row);
        let mut best: Option<(usize, f32)> = None;
        for (place, &v) in row.iter().enumerate() {
            if !v.is_nan() && best.is_none_or(|(_, most)| v > most) {
                best = Some((place, v));
            }
        }
        let place = p.out.row(at, p.width) - p.out.row(first, p.width);
        out[place] = best.map_or(-1, |(place, _)| place as i32);
    }
    Ok(())
}
