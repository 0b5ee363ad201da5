//! Resizing on the CPU, row by row: lines of the input are read (and blended) once, then columns
//! are picked or blended by a table made once a unit.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers, NumbersMut};
use crate::simd::vectorize;

/// Where an output reads along an axis.
#[derive(Debug, Clone, Copy)]
struct Place {
    first: usize,
    second: usize,
    weight: f32,
}

fn place(at: usize, [a, b, d]: [i32; 3], extent: u32) -> Place {
    let n = (a * at as i32 + b).max(0);
    let last = extent as usize - 1;
    let first = (n / d) as usize;
    let weight = (n % d) as f32 / d as f32;
    Place { first: first.min(last), second: (first + 1).min(last), weight }
}

pub(super) fn resize(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let x = Numbers::read(unit, 0, Number::from_code(p.codes & 15))?;
    let mut out = NumbersMut::write(unit, 1, Number::from_code(p.codes >> 4 & 15))?;
    let linear = p.codes >> 8 & 1 == 1;
    let rows = (p.codes >> 16) as usize;
    let [height, width] = p.output.map(|n| n as usize);
    let (channels, w) = (p.channels as usize, p.input[1] as usize);
    let columns: Vec<Place> = (0..width).map(|at| place(at, p.lines[1], p.input[1])).collect();
    // Each input pixel so many times in a row?
    let times = width / w;
    let repeats = width.is_multiple_of(w)
        && columns.iter().enumerate().all(|(at, place)| place.first == at / times);
    let (mut upper, mut lower, mut line) = (vec![0.0f32; w], vec![0.0f32; w], vec![0.0f32; width]);
    let all = p.count as usize / width;
    let first = unit.index() as usize * rows;
    // The input row that `line` was made from, where it was from one.
    let mut made = None;
    for row in first..all.min(first + rows) {
        let (plane, y) = (row / height, row % height);
        let (image, channel) = (plane / channels, plane % channels);
        let base = image * p.x_n as usize + channel * p.x_c as usize;
        let y = place(y, p.lines[0], p.input[0]);
        let start = |y: usize| base + y * p.x_h as usize;
        if linear {
            x.load(start(y.first), p.x_w as usize, &mut upper);
            x.load(start(y.second), p.x_w as usize, &mut lower);
            // Along the row first: the order in which GPUs round.
            let blend = |line: &[f32], place: &Place| {
                let (a, b) = (line[place.first], line[place.second]);
                place.weight.mul_add(b - a, a)
            };
            vectorize(
                #[inline(always)]
                || {
                    for (out, place) in line.iter_mut().zip(&columns) {
                        let (a, b) = (blend(&upper, place), blend(&lower, place));
                        *out = y.weight.mul_add(b - a, a);
                    }
                },
            );
        } else if made != Some(start(y.first)) {
            x.load(start(y.first), p.x_w as usize, &mut upper);
            if repeats {
                for (out, value) in line.chunks_exact_mut(times).zip(&upper) {
                    out.fill(*value);
                }
            } else {
                for (out, place) in line.iter_mut().zip(&columns) {
                    *out = upper[place.first];
                }
            }
            made = Some(start(y.first));
        }
        out.store((row - first) * width, 1, &line);
    }
    Ok(())
}
