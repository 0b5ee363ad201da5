//! How the CPU walks a convolution: the tile of a unit, and along each axis which taps read which
//! rows of a padded plane. Strides become several planes of stride 1; a transposed convolution
//! becomes several convolutions with some of the taps each. Pure.

use std::ops::Range;

use super::{Conv, Direction, Params};

/// Filters of a unit, at most.
const FILTERS: usize = 128;

/// Sums of a unit: their f32 fill a quarter of a second-level cache.
const SUMS: usize = 64 << 10;

/// Operations of a unit, at most: some milliseconds, so that a pass can be cancelled between.
const OPERATIONS: usize = 500_000_000;

/// Units to aim for, so that threads end together.
const UNITS: usize = 12;

/// Filters and pixels of a unit.
pub(super) fn tile(
    conv: &Conv,
    weights: &[usize],
    out: &[usize],
    direction: Direction,
) -> (usize, usize) {
    let (images, filters, pixels) = (out[0], out[1], out[2] * out[3]);
    let own_channels = match direction {
        Direction::Forward => weights[1],
        Direction::Transposed => weights[0] / conv.groups,
    };
    let each = 2 * own_channels.max(1) * weights[2] * weights[3];
    let parts = filters.div_ceil(FILTERS);
    let mut own = filters.div_ceil(parts).next_multiple_of(8).min(filters);
    let most = SUMS.min(OPERATIONS / each) / own;
    // Whole rows, where a row is no longer than that.
    let rows = |pixels: usize| (pixels / out[3] * out[3]).max(pixels.min(out[3]));
    let mut stretch = rows(most.max(16)).min(pixels);
    let units =
        |own: usize, stretch: usize| images * filters.div_ceil(own) * pixels.div_ceil(stretch);
    while units(own, stretch) < UNITS {
        if stretch >= 384 && rows(stretch.div_ceil(2)) < stretch {
            stretch = rows(stretch.div_ceil(2));
        } else if own >= 32 {
            own = (own / 2).next_multiple_of(8);
        } else {
            break;
        }
    }
    (own, stretch)
}

/// A tap as one axis sees it: its number, its plane, its first row (or column) there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tap {
    pub(super) index: usize,
    pub(super) plane: usize,
    pub(super) offset: usize,
}

/// Outputs `first, first + step, …`, `count` of them, along one axis; output `first + n·step` is
/// the sum over taps of row `n + tap.offset` of plane `tap.plane`. Row `n` of a plane is input row
/// `plane + n·stride` (outside of the input: zeros).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) first: usize,
    pub(super) step: usize,
    pub(super) count: usize,
    pub(super) taps: Vec<Tap>,
    /// Input row of each plane's first row.
    pub(super) planes: Vec<i64>,
    /// Input rows between a plane's rows.
    pub(super) stride: usize,
    /// Rows of a plane.
    pub(super) rows: usize,
}

/// The axes that together give outputs `range` along axis `axis`: one, or transposed one for each
/// remainder by the stride.
pub(super) fn axes(
    p: &Params,
    direction: Direction,
    axis: usize,
    range: Range<usize>,
) -> Vec<Axis> {
    let (stride, pad) = (p.stride[axis] as usize, i64::from(p.padding[axis]));
    let (taps, dilation) = (p.taps[axis] as usize, p.dilation[axis] as usize);
    match direction {
        Direction::Forward => {
            let mut phases: Vec<usize> = (0..taps).map(|tap| tap * dilation % stride).collect();
            phases.sort_unstable();
            phases.dedup();
            let place = |index: usize| {
                let plane = phases.partition_point(|&phase| phase < index * dilation % stride);
                Tap { index, plane, offset: index * dilation / stride }
            };
            let count = range.len();
            let base = (range.start * stride) as i64 - pad;
            vec![Axis {
                first: range.start,
                step: 1,
                count,
                taps: (0..taps).map(place).collect(),
                planes: phases.iter().map(|&phase| base + phase as i64).collect(),
                stride,
                rows: count + (taps - 1) * dilation / stride,
            }]
        }
        Direction::Transposed => (0..stride)
            .filter_map(|remainder| {
                // Outputs u·stride + remainder with u in `from..to`.
                let from = (range.start + stride - 1 - remainder) / stride;
                let to = (range.end + stride - 1 - remainder) / stride;
                let count = to.checked_sub(from).filter(|&count| count > 0)?;
                // Output u·stride + remainder takes tap t from input u + (remainder + pad − t·dilation)/stride.
                let reach = |tap: usize| remainder as i64 + pad - (tap * dilation) as i64;
                let used = (0..taps).filter(|&tap| reach(tap) % stride as i64 == 0);
                let shifts: Vec<(usize, i64)> =
                    used.map(|tap| (tap, reach(tap) / stride as i64)).collect();
                let least = shifts.iter().map(|(_, shift)| *shift).min().unwrap_or(0);
                let most = shifts.iter().map(|(_, shift)| *shift).max().unwrap_or(0);
                let place = |(index, shift): (usize, i64)| Tap {
                    index,
                    plane: 0,
                    offset: (shift - least) as usize,
                };
                Some(Axis {
                    first: from * stride + remainder,
                    step: stride,
                    count,
                    taps: shifts.into_iter().map(place).collect(),
                    planes: vec![from as i64 + least],
                    stride: 1,
                    rows: count + (most - least) as usize,
                })
            })
            .collect(),
    }
}

/// Pixels `range` of an image `width` wide as rectangles (rows, columns): part of a row, whole rows,
/// part of a row.
pub(super) fn rectangles(range: Range<usize>, width: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let mut all = Vec::with_capacity(3);
    let mut at = range.start;
    while at < range.end {
        let (row, column) = (at / width, at % width);
        let whole = (range.end - at) / width;
        let (rows, columns) = match (column, whole) {
            (0, 1..) => (row..row + whole, 0..width),
            _ => (row..row + 1, column..width.min(column + range.end - at)),
        };
        at += rows.len() * columns.len();
        all.push((rows, columns));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_cover_a_stretch_once() {
        for (start, end) in [(0, 12), (3, 4), (3, 11), (4, 8), (2, 23), (0, 3)] {
            let mut seen = Vec::new();
            for (rows, columns) in rectangles(start..end, 4) {
                seen.extend(rows.flat_map(|y| columns.clone().map(move |x| y * 4 + x)));
            }
            assert_eq!(seen, (start..end).collect::<Vec<_>>());
        }
    }

    /// Every axis against the definition: output y takes tap t from input y·stride + t·dilation −
    /// pad; transposed, input i gives tap t to output i·stride + t·dilation − pad.
    #[test]
    fn axes_follow_the_definition() {
        for direction in [Direction::Forward, Direction::Transposed] {
            for (stride, pad, taps, dilation) in
                [(1, 1, 3, 1), (2, 1, 3, 1), (2, 0, 1, 1), (3, 2, 4, 2), (2, 3, 2, 5), (1, 0, 5, 3)]
            {
                let p = Params {
                    stride: [stride, 1],
                    padding: [pad, 0],
                    taps: [taps, 1],
                    dilation: [dilation, 1],
                    ..Params::default()
                };
                let range = 2..11usize;
                let mut outputs = Vec::new();
                for axis in axes(&p, direction, 0, range.clone()) {
                    for n in 0..axis.count {
                        let out = axis.first + n * axis.step;
                        outputs.push(out);
                        let given: Vec<(usize, i64)> = axis
                            .taps
                            .iter()
                            .map(|tap| {
                                assert!(n + tap.offset < axis.rows);
                                let row = axis.planes[tap.plane];
                                (tap.index, row + ((n + tap.offset) * axis.stride) as i64)
                            })
                            .collect();
                        let reach = |tap: u32| i64::from(tap * dilation) - i64::from(pad);
                        let right: Vec<(usize, i64)> = match direction {
                            Direction::Forward => (0..taps)
                                .map(|tap| {
                                    (tap as usize, out as i64 * i64::from(stride) + reach(tap))
                                })
                                .collect(),
                            Direction::Transposed => (0..taps)
                                .filter_map(|tap| {
                                    let from = out as i64 - reach(tap);
                                    let whole = from.rem_euclid(stride.into()) == 0;
                                    whole.then(|| (tap as usize, from.div_euclid(stride.into())))
                                })
                                .collect(),
                        };
                        assert_eq!(given, right, "{direction:?} {stride} {pad} {taps} {dilation}");
                    }
                }
                outputs.sort_unstable();
                assert_eq!(outputs, range.clone().collect::<Vec<_>>());
            }
        }
    }
}
