//! Correlation of planes with many filters at once: sums for a stretch of positions and several
//! filters stay in registers while channels and taps pass by. Every position is summed channel by
//! channel, tap by tap, whatever the tile and the instruction set.

use super::lanes::{LANES, Lanes, OnLanes, dispatch};

/// `out[f][q] (+)= Σ filters[f][c·T + t] · planes[c][taps[t] + q]` over channels c and taps t.
pub(crate) struct Sweep<'a> {
    pub(crate) planes: &'a [f32],
    /// Distance between channels in `planes`.
    pub(crate) channel: usize,
    pub(crate) channels: usize,
    /// Where each tap begins in a channel.
    pub(crate) taps: &'a [usize],
    /// A filter's weights run along channels and taps.
    pub(crate) filters: &'a [f32],
    /// Distance between filters.
    pub(crate) filter: usize,
    pub(crate) count: usize,
    pub(crate) out: &'a mut [f32],
    /// Distance between filters in `out`.
    pub(crate) pitch: usize,
    /// Positions; sixteen at a time are computed, so the last may be followed by up to 15 of no
    /// meaning.
    pub(crate) len: usize,
    /// Adds to what `out` holds.
    pub(crate) add: bool,
}

impl Sweep<'_> {
    /// Computes it. Slices too short for what the sizes say are a mistake of the caller: it panics.
    pub(crate) fn run(self) {
        let whole = self.len.next_multiple_of(LANES);
        let last_tap = self.taps.iter().copied().max();
        let terms = self.channels * self.taps.len();
        assert!(self.count > 0 && self.len > 0 && self.pitch >= whole, "an empty or narrow sweep");
        assert!(self.out.len() >= (self.count - 1) * self.pitch + whole, "sums too short");
        if let (Some(last), true) = (last_tap, self.channels > 0) {
            let reach = (self.channels - 1) * self.channel + last + whole;
            assert!(self.planes.len() >= reach, "planes too short");
            assert!(self.filters.len() >= (self.count - 1) * self.filter + terms, "few filters");
        }
        dispatch(self);
    }
}

impl OnLanes for Sweep<'_> {
    #[inline(always)]
    fn run<L: Lanes>(mut self) {
        let vectors = self.len.div_ceil(LANES);
        let mut v = 0;
        while v < vectors {
            let width = if L::WIDE { (vectors - v).min(3) } else { 1 };
            let mut f = 0;
            while f < self.count {
                let left = self.count - f;
                // SAFETY: `Sweep::run` asserted the lengths that these tiles stay within: filters
                // below `count`, whole vectors below the rounded length.
                f += unsafe {
                    match (width, left) {
                        (3, 8..) if L::WIDE => tile::<L, 8, 3>(&mut self, f, v),
                        (3, 4..) if L::WIDE => tile::<L, 4, 3>(&mut self, f, v),
                        (3, 2..) if L::WIDE => tile::<L, 2, 3>(&mut self, f, v),
                        (3, _) if L::WIDE => tile::<L, 1, 3>(&mut self, f, v),
                        (2, 8..) if L::WIDE => tile::<L, 8, 2>(&mut self, f, v),
                        (2, 4..) if L::WIDE => tile::<L, 4, 2>(&mut self, f, v),
                        (2, 2..) if L::WIDE => tile::<L, 2, 2>(&mut self, f, v),
                        (2, _) if L::WIDE => tile::<L, 1, 2>(&mut self, f, v),
                        (_, 8..) if L::WIDE => tile::<L, 8, 1>(&mut self, f, v),
                        (_, 4..) => tile::<L, 4, 1>(&mut self, f, v),
                        (_, 2..) => tile::<L, 2, 1>(&mut self, f, v),
                        (_, _) => tile::<L, 1, 1>(&mut self, f, v),
                    }
                };
            }
            v += width;
        }
    }
}

/// `F` filters from `first` at `V` vectors from `vector`; returns `F`.
///
/// # Safety
/// Filters `first..first + F` and vectors `vector..vector + V` lie within what [`Sweep::run`] checks.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "an index names a register of a tile")]
unsafe fn tile<L: Lanes, const F: usize, const V: usize>(
    sweep: &mut Sweep<'_>,
    first: usize,
    vector: usize,
) -> usize {
    let position = vector * LANES;
    let mut sums = [[L::zero(); V]; F];
    // SAFETY: in all three blocks addresses stay within the lengths that the caller vouches for.
    unsafe {
        let out = sweep.out.as_mut_ptr().add(first * sweep.pitch + position);
        if sweep.add {
            for f in 0..F {
                for v in 0..V {
                    sums[f][v] = L::read(out.add(f * sweep.pitch + v * LANES));
                }
            }
        }
        let mut weights = sweep.filters.as_ptr().wrapping_add(first * sweep.filter);
        let mut plane = sweep.planes.as_ptr().wrapping_add(position);
        let mut x = [L::zero(); V];
        for _ in 0..sweep.channels {
            for tap in sweep.taps {
                for v in 0..V {
                    x[v] = L::read(plane.add(tap + v * LANES));
                }
                for f in 0..F {
                    let weight = L::splat(*weights.add(f * sweep.filter));
                    for v in 0..V {
                        sums[f][v] = x[v].mul_add(weight, sums[f][v]);
                    }
                }
                weights = weights.wrapping_add(1);
            }
            plane = plane.wrapping_add(sweep.channel);
        }
        for f in 0..F {
            for v in 0..V {
                sums[f][v].write(out.add(f * sweep.pitch + v * LANES));
            }
        }
    }
    F
}
