//! Rotary positions on the CPU: angles once a position, then products along rows.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers, NumbersMut};
use crate::simd::{turn, vectorize};

pub(super) fn rope(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let x = Numbers::read(unit, 0, Number::from_code(p.codes & 3))?;
    let (positions, frequencies): (&[i32], &[f32]) = (unit.read(1)?, unit.read(2)?);
    let mut out = NumbersMut::write(unit, 3, Number::from_code(p.codes >> 2))?;
    let (n, pairs) = (p.n as usize, p.pairs as usize);
    let (mut row, mut turned) = (vec![0.0f32; n], vec![0.0f32; n]);
    let (mut cosines, mut sines) = (vec![0.0f32; pairs], vec![0.0f32; pairs]);
    let mut known = None;
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        x.load(p.x.row(at, p.width), p.x.inner as usize, &mut row);
        let place = p.positions.row(at, p.width);
        if known != Some(place) {
            known = Some(place);
            let mut begin = 0;
            for (axis, end) in p.ends.into_iter().enumerate() {
                let end = end as usize;
                if end == begin {
                    continue;
                }
                let position = positions[place + axis * p.axis_stride as usize] as f32;
                let both = cosines[begin..end].iter_mut().zip(&mut sines[begin..end]);
                let frequencies = &frequencies[begin..end];
                vectorize(
                    #[inline(always)]
                    || {
                        for ((cosine, sine), frequency) in both.zip(frequencies) {
                            let [c, s] = turn(position, *frequency);
                            (*cosine, *sine) = (c * p.scale, s * p.scale);
                        }
                    },
                );
                begin = end;
            }
        }
        vectorize(
            #[inline(always)]
            || {
                if p.interleaved == 1 {
                    let both = turned.chunks_exact_mut(2).zip(row.chunks_exact(2));
                    for ((out, x), (c, s)) in both.zip(cosines.iter().zip(&sines)) {
                        out[0] = x[0].mul_add(*c, -(x[1] * s));
                        out[1] = x[0].mul_add(*s, x[1] * c);
                    }
                } else {
                    let (v, w) = row[..2 * pairs].split_at(pairs);
                    let (a, b) = turned[..2 * pairs].split_at_mut(pairs);
                    for i in 0..pairs {
                        a[i] = v[i].mul_add(cosines[i], -(w[i] * sines[i]));
                        b[i] = v[i].mul_add(sines[i], w[i] * cosines[i]);
                    }
                }
            },
        );
        turned[2 * pairs..].copy_from_slice(&row[2 * pairs..]);
        out.store(
            p.out.row(at, p.width) - p.out.row(first, p.width),
            p.out.inner as usize,
            &turned,
        );
    }
    Ok(())
}
