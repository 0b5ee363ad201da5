//! Convolution on the CPU: a unit takes some filters and some pixels. Padded planes of some channels
//! are laid out so that every tap is a shift, and swept with all filters while they lie in the cache.

use std::ops::Range;

use tintype_gpu::kernel::{Rows, Unit, UnitError};

use super::plan::{Axis, axes, rectangles};
use super::{Direction, Params};
use crate::number::{Number, Numbers, Stored};
use crate::ops::pointwise::Unary;
use crate::simd::sweep::Sweep;

/// Products of a position and a filter in one pass over planes: what a stretch of 48 positions
/// reads stays in the first-level cache.
const TERMS: usize = 288;

/// Channels in one pass, at most.
const CHANNELS: usize = 96;

/// Floats that all planes of a pass may take: half of a second-level cache.
const PLANES: usize = 96 << 10;

pub(super) fn conv(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    match Number::from_code(p.codes >> 12 & 15) {
        Number::F32 => into::<f32>(unit, &p),
        Number::F16 => into::<half::f16>(unit, &p),
        Number::Bf16 => into::<half::bf16>(unit, &p),
    }
}

fn into<T: Stored>(unit: &mut Unit<'_>, p: &Params) -> Result<(), UnitError> {
    let number = |at: u32| Number::from_code(p.codes >> at & 15);
    let x = Numbers::read(unit, 0, number(0))?;
    let weights = Numbers::read(unit, 1, number(4))?;
    let bias = match p.codes >> 17 & 1 {
        1 => Some(Numbers::read(unit, 2, number(8))?),
        _ => None,
    };
    let mut out = unit.rows::<T>(3)?;
    if out.is_empty() || out.columns() == 0 {
        return Ok(());
    }
    let direction = if p.codes >> 16 & 1 == 1 { Direction::Transposed } else { Direction::Forward };
    let all = (p.filters * p.groups) as usize;
    let (image, first) = (out.first_row() / all, out.first_row() % all);
    let work = Work { p, x, weights, bias, direction, image, first };
    let pixels = out.first_column()..out.first_column() + out.columns();
    let mut scratch = Scratch::default();
    for (rows, columns) in rectangles(pixels, p.output[1] as usize) {
        for down in axes(p, direction, 0, rows) {
            for across in axes(p, direction, 1, columns.clone()) {
                work.rectangle(&down, &across, &mut scratch, &mut out);
            }
        }
    }
    Ok(())
}

/// Memory that rectangles share.
#[derive(Default)]
struct Scratch {
    planes: Vec<f32>,
    filters: Vec<f32>,
    sums: Vec<f32>,
    line: Vec<f32>,
}

/// A unit's work.
struct Work<'a> {
    p: &'a Params,
    x: Numbers<'a>,
    weights: Numbers<'a>,
    bias: Option<Numbers<'a>>,
    direction: Direction,
    image: usize,
    /// First filter.
    first: usize,
}

/// How the planes of a channel lie.
struct Planes<'a> {
    down: &'a Axis,
    across: &'a Axis,
    /// Floats of a plane.
    plane: usize,
    /// Distance between channels: an odd number of cache lines, so that they do not collide.
    channel: usize,
}

impl<'a> Planes<'a> {
    fn new(down: &'a Axis, across: &'a Axis) -> Self {
        let plane = down.rows * across.rows;
        let all = down.planes.len() * across.planes.len() * plane;
        Planes { down, across, plane, channel: odd_lines(all) }
    }

    /// Where each tap begins in a channel, and its number among the weights.
    fn taps(&self, width: usize) -> (Vec<usize>, Vec<usize>) {
        let columns = self.across.planes.len();
        let pairs =
            self.down.taps.iter().flat_map(|y| self.across.taps.iter().map(move |x| (y, x)));
        pairs
            .map(|(y, x)| {
                let plane = (y.plane * columns + x.plane) * self.plane;
                (plane + y.offset * self.across.rows + x.offset, y.index * width + x.index)
            })
            .unzip()
    }
}

/// Rounded up to an odd number of cache lines.
fn odd_lines(floats: usize) -> usize {
    (floats.div_ceil(16) | 1) * 16
}

impl Work<'_> {
    fn rectangle<T: Stored>(
        &self,
        down: &Axis,
        across: &Axis,
        scratch: &mut Scratch,
        out: &mut Rows<'_, T>,
    ) {
        let p = self.p;
        let planes = Planes::new(down, across);
        let (taps, numbers) = planes.taps(p.taps[1] as usize);
        // Positions run through whole plane rows; those past the last column mean nothing.
        let len = (down.count - 1) * across.rows + across.count;
        let pitch = odd_lines(len);
        let channels = p.channels as usize;
        let at_once = (TERMS / taps.len().max(1))
            .min(CHANNELS)
            .min(PLANES / planes.channel)
            .clamp(1, channels.max(1));
        let own = p.filters as usize;
        let last = self.first + out.len();
        scratch.sums.resize((out.len() * pitch).max(scratch.sums.len()), 0.0);
        scratch.planes.clear();
        scratch.planes.resize(at_once * planes.channel + 16, 0.0);
        let mut from = self.first;
        while from < last {
            let group = from / own;
            let to = last.min((group + 1) * own);
            let sums = &mut scratch.sums[(from - self.first) * pitch..];
            if taps.is_empty() || channels == 0 {
                sums[..(to - from) * pitch].fill(0.0);
            } else {
                for c0 in (0..channels).step_by(at_once) {
                    let some = c0..channels.min(c0 + at_once);
                    self.fill(&planes, group * channels, some.clone(), &mut scratch.planes);
                    let terms = some.len() * taps.len();
                    let (filters, filter) =
                        self.filters(from..to, some.clone(), &numbers, &mut scratch.filters);
                    debug_assert!(filter >= terms || to - from == 1);
                    Sweep {
                        planes: &scratch.planes,
                        channel: planes.channel,
                        channels: some.len(),
                        taps: &taps,
                        filters,
                        filter,
                        count: to - from,
                        out: sums,
                        pitch,
                        len,
                        add: c0 > 0,
                    }
                    .run();
                }
            }
            from = to;
        }
        self.finish(down, across, pitch, scratch, out);
    }

    /// Lays out the planes of channels `some` of those from `base` on. What lies outside of the input
    /// is zero from the start and stays so.
    fn fill(&self, planes: &Planes<'_>, base: usize, some: Range<usize>, all: &mut [f32]) {
        let p = self.p;
        let [h, w] = p.input.map(i64::from);
        let [x_n, x_c, x_h, x_w] = [p.x_n, p.x_c, p.x_h, p.x_w].map(|n| n as usize);
        let (down, across) = (planes.down, planes.across);
        let step = across.stride as i64;
        for (channel, all) in some.zip(all.chunks_exact_mut(planes.channel)) {
            let image = self.image * x_n + (base + channel) * x_c;
            let mut plane = all.chunks_exact_mut(planes.plane);
            for &y0 in &down.planes {
                for &x0 in &across.planes {
                    let Some(plane) = plane.next() else { return };
                    // Columns that lie inside: x0 + i·step in 0..w.
                    let begin = (-x0).max(0).div_ceil_to(step).min(across.rows as i64);
                    let end = (w - x0).max(0).div_ceil_to(step).clamp(begin, across.rows as i64);
                    let (begin, end) = (begin as usize, end as usize);
                    if begin == end {
                        continue;
                    }
                    let column = (x0 + begin as i64 * step) as usize;
                    for (n, row) in plane.chunks_exact_mut(across.rows).enumerate() {
                        let y = y0 + (n * down.stride) as i64;
                        if (0..h).contains(&y) {
                            let at = image + y as usize * x_h + column * x_w;
                            self.x.load(at, across.stride * x_w, &mut row[begin..end]);
                        }
                    }
                }
            }
        }
    }

    /// Weights of some filters and channels of their group, and the distance between filters: as
    /// they lie if they are f32 in the order of taps, else converted.
    fn filters<'s>(
        &'s self,
        filters: Range<usize>,
        channels: Range<usize>,
        numbers: &[usize],
        scratch: &'s mut Vec<f32>,
    ) -> (&'s [f32], usize) {
        let p = self.p;
        let (weight_o, weight_c) = (p.weight_o as usize, p.weight_c as usize);
        let (group, own) = (filters.start / p.filters as usize, p.filters as usize);
        let start = |filter: usize| match self.direction {
            Direction::Forward => filter * weight_o,
            Direction::Transposed => {
                filter % own * weight_o + group * p.channels as usize * weight_c
            }
        };
        let taps = (p.taps[0] * p.taps[1]) as usize;
        let in_order = numbers.len() == taps && numbers.is_sorted();
        let dense = in_order && (weight_c == taps || channels.len() == 1);
        let begin = start(filters.start) + channels.start * weight_c;
        if let (Numbers::F32(all), true) = (self.weights, dense) {
            return (&all[begin..], weight_o);
        }
        let terms = channels.len() * numbers.len();
        scratch.resize((filters.len() * terms).max(scratch.len()), 0.0);
        for (filter, row) in filters.zip(scratch.chunks_exact_mut(terms)) {
            let begin = start(filter) + channels.start * weight_c;
            if dense {
                self.weights.load(begin, 1, row);
                continue;
            }
            for (channel, row) in row.chunks_exact_mut(numbers.len()).enumerate() {
                let begin = begin + channel * weight_c;
                if in_order {
                    self.weights.load(begin, 1, row);
                } else {
                    for (number, weight) in numbers.iter().zip(row) {
                        self.weights.load(begin + number, 1, std::slice::from_mut(weight));
                    }
                }
            }
        }
        (scratch, terms)
    }

    /// Bias, activation, and each row to its place.
    fn finish<T: Stored>(
        &self,
        down: &Axis,
        across: &Axis,
        pitch: usize,
        scratch: &mut Scratch,
        out: &mut Rows<'_, T>,
    ) {
        let p = self.p;
        let width = p.output[1] as usize;
        let before = out.first_column();
        let activation = Unary::from_code(p.codes >> 24);
        for filter in 0..out.len() {
            let mut bias = [0.0f32];
            if let Some(all) = self.bias {
                all.load((self.first + filter) * p.bias_step as usize, 1, &mut bias);
            }
            let Some(row) = out.row(filter) else { continue };
            let sums = &mut scratch.sums[filter * pitch..][..pitch];
            if bias[0] != 0.0 {
                crate::simd::vectorize(
                    #[inline(always)]
                    || sums.iter_mut().for_each(|sum| *sum += bias[0]),
                );
            }
            if activation != Unary::Identity {
                scratch.line.resize(pitch.max(scratch.line.len()), 0.0);
                activation.apply(&mut scratch.line[..pitch], sums, 0.0, 0.0);
                sums.copy_from_slice(&scratch.line[..pitch]);
            }
            // Lines without anything between them are one.
            let whole = across.rows == across.count && across.count == width && across.step == 1;
            let (lines, length) = match whole {
                true => (1, down.count * across.count),
                false => (down.count, across.count),
            };
            for line in 0..lines {
                let sums = &sums[line * across.rows..][..length];
                let at = (down.first + line * down.step) * width + across.first - before;
                if across.step == 1 {
                    T::store(&mut row[at..at + length], sums);
                } else {
                    for (n, sum) in sums.iter().enumerate() {
                        T::store(
                            std::slice::from_mut(&mut row[at + n * across.step]),
                            std::slice::from_ref(sum),
                        );
                    }
                }
            }
        }
    }
}

/// Division of a count that rounds up.
trait DivCeil {
    fn div_ceil_to(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    fn div_ceil_to(self, by: i64) -> i64 {
        (self + by - 1) / by
    }
}
