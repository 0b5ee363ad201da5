//! Padding on the CPU: a row of the output at a time, its middle copied, its ends filled.

use tintype_gpu::kernel::{Unit, UnitError};

use super::{AXES, Params};
use crate::number::{Number, Numbers, NumbersMut};

/// The input place of output `at` along an axis; `None` where a constant stands.
fn place(mode: u32, at: usize, before: u32, inside: u32) -> Option<usize> {
    let (place, last) = (at as i64 - i64::from(before), i64::from(inside) - 1);
    let found = match mode {
        0 => return (0..=last).contains(&place).then_some(place as usize),
        1 => last - (last - place.abs()).abs(),
        _ => place.clamp(0, last),
    };
    Some(found.clamp(0, last) as usize)
}

pub(super) fn pad(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let (mode, rows) = (p.codes & 15, (p.codes >> 16) as usize);
    let a = Numbers::read(unit, 0, Number::from_code(p.codes >> 4 & 15))?;
    let mut out = NumbersMut::write(unit, 1, Number::from_code(p.codes >> 8 & 15))?;
    let [outer, inner] = [&p.extents[..AXES - 1], &p.extents[AXES - 1..]];
    let width = inner[0] as usize;
    let all = p.count as usize / width;
    let first = unit.index() as usize * rows;
    let mut line = vec![0.0f32; width];
    let (before, inside) = (p.before[AXES - 1] as usize, p.inside[AXES - 1] as usize);
    let step = p.a[AXES - 1] as usize;
    for row in first..all.min(first + rows) {
        let mut rest = row;
        let mut start = Some(0);
        for axis in (0..outer.len()).rev() {
            let extent = outer[axis] as usize;
            let at = place(mode, rest % extent, p.before[axis], p.inside[axis]);
            rest /= extent;
            start = start.zip(at).map(|(start, at)| start + at * p.a[axis] as usize);
        }
        match start {
            None => line.fill(p.value),
            Some(start) => {
                a.load(start, step, &mut line[before..before + inside]);
                for at in (0..before).chain(before + inside..width) {
                    let from = place(mode, at, p.before[AXES - 1], p.inside[AXES - 1]);
                    line[at] = from.map_or(p.value, |from| line[before + from]);
                }
            }
        }
        out.store((row - first) * width, 1, &line);
    }
    Ok(())
}
