//! Gathering on the CPU, element by element; bits are moved, whatever they are.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;

pub(super) fn gather(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    match p.codes {
        4 => moved::<u32>(unit, &p, p.missing),
        _ => moved::<u16>(unit, &p, p.missing as u16),
    }
}

fn moved<T: bytemuck::Pod>(unit: &Unit<'_>, p: &Params, missing: T) -> Result<(), UnitError> {
    let (x, ids): (&[T], &[u32]) = (unit.read(0)?, unit.read(1)?);
    let out: &mut [T] = unit.write(2)?;
    let first = unit.index() * p.unit_rows;
    for row in first..(first + p.unit_rows).min(p.rows) {
        let (begin, of_ids) = (p.x.row(row, p.width), p.ids.row(row, p.width));
        let to = p.out.row(row, p.width) - p.out.row(first, p.width);
        for i in 0..p.n as usize {
            let id = ids[of_ids + i * p.ids.inner as usize];
            let from = begin + i * p.x.inner as usize + id as usize * p.axis_stride as usize;
            out[to + i * p.out.inner as usize] = if id < p.extent { x[from] } else { missing };
        }
    }
    Ok(())
}
