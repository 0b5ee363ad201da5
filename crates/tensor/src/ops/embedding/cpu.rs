//! Embedding on the CPU: rows converted as they are copied.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers, NumbersMut};
use crate::simd::quant::{Block, decode};
use crate::simd::vectorize;

pub(super) fn dense(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let table = Numbers::read(unit, 0, Number::from_code(p.codes & 3))?;
    rows(unit, &p, |id, row| table.load(id * p.stride_table as usize, 1, row))
}

pub(super) fn blocks<B: Block>(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let table: &[u8] = unit.read(0)?;
    let bytes = p.n as usize / B::ELEMENTS * B::BYTES;
    rows(unit, &p, |id, row| decode::<B>(&table[id * p.stride_table as usize * 2..][..bytes], row))
}

/// Row by row; `load` takes the row's number in this part of the table.
fn rows(unit: &Unit<'_>, p: &Params, load: impl Fn(usize, &mut [f32])) -> Result<(), UnitError> {
    let ids: &[u32] = unit.read(1)?;
    let mut out = NumbersMut::write(unit, 2, Number::from_code(p.codes >> 2))?;
    let mut row = vec![0.0f32; p.n as usize];
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        let id = ids[p.ids.row(at, p.width)];
        if id >= p.vocabulary && p.first == 0 {
            row.fill(f32::NAN);
        } else if (p.first..p.end).contains(&id) {
            load((id - p.first) as usize, &mut row);
        } else {
            continue;
        }
        if p.scale != 1.0 {
            vectorize(|| row.iter_mut().for_each(|x| *x *= p.scale));
        }
        out.store(p.out.row(at, p.width) - p.out.row(first, p.width), p.out.inner as usize, &row);
    }
    Ok(())
}
