//! Dot products and weighted sums of rows, for few queries: each row of keys or values is loaded once
//! for all. Widths are multiples of 16. A query's arithmetic does not depend on the others.

use super::lanes::{LANES, Lanes, OnLanes, dispatch};

/// Numbers a row is padded to.
pub(crate) const PAD: usize = LANES;

/// Rows of `width` numbers, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) count: usize,
    pub(crate) width: usize,
}

impl<'a> Lines<'a> {
    #[inline(always)]
    fn line(&self, at: usize) -> &'a [f32] {
        &self.data[at * self.stride..][..self.width]
    }
}

/// `out[query·keys.count + key] = queries[query]·keys[key]`.
pub(crate) fn dots(queries: Lines<'_>, keys: Lines<'_>, out: &mut [f32]) {
    dispatch(Dots { queries, keys, out });
}

/// `out[query] += Σ weights[query·values.count + key]·values[key]`, out rows of `values.width`.
pub(crate) fn weighted(weights: &[f32], values: Lines<'_>, out: &mut [f32]) {
    dispatch(Weighted { weights, values, out });
}

struct Dots<'a> {
    queries: Lines<'a>,
    keys: Lines<'a>,
    out: &'a mut [f32],
}

impl OnLanes for Dots<'_> {
    #[inline(always)]
    fn run<L: Lanes>(mut self) {
        let mut at = 0;
        while at < self.queries.count {
            match self.queries.count - at {
                4.. => at += self.some::<L, 4>(at),
                2.. => at += self.some::<L, 2>(at),
                _ => at += self.some::<L, 1>(at),
            }
        }
    }
}

impl Dots<'_> {
    #[inline(always)]
    fn some<L: Lanes, const M: usize>(&mut self, first: usize) -> usize {
        let queries: [&[f32]; M] = std::array::from_fn(|m| self.queries.line(first + m));
        for key in 0..self.keys.count {
            let line = self.keys.line(key);
            let mut sums = [L::zero(); M];
            for (at, part) in line.chunks_exact(LANES).enumerate() {
                let part = L::load(part);
                for (sum, query) in sums.iter_mut().zip(queries) {
                    *sum = part.mul_add(L::load(&query[at * LANES..]), *sum);
                }
            }
            for (m, sum) in sums.into_iter().enumerate() {
                self.out[(first + m) * self.keys.count + key] = sum.sum();
            }
        }
        M
    }
}

struct Weighted<'a> {
    weights: &'a [f32],
    values: Lines<'a>,
    out: &'a mut [f32],
}

impl OnLanes for Weighted<'_> {
    #[inline(always)]
    fn run<L: Lanes>(mut self) {
        let queries = self.weights.len() / self.values.count.max(1);
        let mut at = 0;
        while at < queries {
            match queries - at {
                4.. => at += self.some::<L, 4>(at),
                2.. => at += self.some::<L, 2>(at),
                _ => at += self.some::<L, 1>(at),
            }
        }
    }
}

impl Weighted<'_> {
    #[inline(always)]
    fn some<L: Lanes, const M: usize>(&mut self, first: usize) -> usize {
        let (count, width) = (self.values.count, self.values.width);
        let weights: [&[f32]; M] =
            std::array::from_fn(|m| &self.weights[(first + m) * count..][..count]);
        for part in (0..width).step_by(LANES) {
            let mut sums: [L; M] =
                std::array::from_fn(|m| L::load(&self.out[(first + m) * width + part..]));
            for key in 0..count {
                let value = L::load(&self.values.line(key)[part..]);
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    *sum = value.mul_add(L::splat(weights[key]), *sum);
                }
            }
            for (m, sum) in sums.into_iter().enumerate() {
                sum.store(&mut self.out[(first + m) * width + part..]);
            }
        }
        M
    }
}
