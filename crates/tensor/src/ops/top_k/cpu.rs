//! The first of each row on the CPU: keys that sort as the numbers do, with their places behind them.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers};
use crate::ops::keys::{place, placed};

pub(super) fn top_k(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let x = Numbers::read(unit, 0, Number::from_code(p.codes))?;
    let out: &mut [i32] = unit.write(1)?;
    let k = p.k as usize;
    let mut row = vec![0.0f32; p.n as usize];
    let mut keys: Vec<u64> = Vec::with_capacity(row.len());
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        x.load(p.x.row(at, p.width), p.x.inner as usize, &mut row);
        keys.clear();
        let numbered = row.iter().zip(0u64..);
        keys.extend(numbered.map(|(&v, i)| placed(v, p.ascending == 1, i)));
        if k < keys.len() {
            keys.select_nth_unstable(k);
            keys.truncate(k);
        }
        keys.sort_unstable();
        let to = p.out.row(at, p.width) - p.out.row(first, p.width);
        for (i, &key) in keys.iter().enumerate() {
            out[to + i * p.out.inner as usize] = place(key) as i32;
        }
    }
    Ok(())
}
