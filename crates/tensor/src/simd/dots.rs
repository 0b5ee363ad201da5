//! Products of rows with rows, all running along k. Each is summed in 16 lanes, sixteen terms after
//! sixteen, then the lanes in a tree: one order, whatever the number of rows on either side.

use super::lanes::{LANES, Lanes, OnLanes, dispatch};

/// Rows that lie `pitch` apart.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) pitch: usize,
}

impl Rows<'_> {
    /// Whether `count` rows, `k` long, lie inside.
    fn hold(self, count: usize, k: usize) -> bool {
        let last = (count - 1).checked_mul(self.pitch);
        last.and_then(|last| last.checked_add(k)).is_some_and(|end| end <= self.data.len())
    }

    /// From element `k` on.
    fn from(self, k: usize) -> Self {
        Rows { data: &self.data[k..], ..self }
    }
}

/// Depth of a stretch that left and right rows are multiplied in while they lie in the first cache.
const DEPTH: usize = 512;

/// Left rows up to which right rows are read once, whole, as they stream from memory.
const STREAMED: usize = 8;

/// Left rows at a time: their running sums stay in the cache.
const LEFT: usize = 6;

/// `out[i][j] = Σ left[i]·right[j]` for `m` and `n` rows `k` long, `out` dense. `lanes` is scratch.
/// Rows that do not hold that are a mistake of the caller: it panics.
pub(crate) fn products(
    left: Rows<'_>,
    m: usize,
    right: Rows<'_>,
    n: usize,
    k: usize,
    out: &mut [f32],
    lanes: &mut Vec<f32>,
) {
    assert!(m > 0 && n > 0 && k > 0 && out.len() >= m * n, "out too short");
    assert!(left.hold(m, k) && right.hold(n, k), "rows too short");
    let whole = k / LANES * LANES;
    // What is left behind whole lanes, with zeros behind it.
    let rest = |rows: Rows<'_>, count: usize| {
        let mut padded = vec![0.0f32; if whole < k { count * LANES } else { 0 }];
        for (at, row) in padded.chunks_exact_mut(LANES).enumerate() {
            row[..k - whole].copy_from_slice(&rows.data[at * rows.pitch + whole..][..k - whole]);
        }
        padded
    };
    let (left_rest, right_rest) = (rest(left, m), rest(right, n));
    let (at_once, depth) = if m <= STREAMED { (m, whole.max(1)) } else { (LEFT, DEPTH) };
    for (chunk, out) in out[..m * n].chunks_mut(at_once * n).enumerate() {
        let (first, m) = (chunk * at_once, out.len() / n);
        lanes.clear();
        lanes.resize(m * n * LANES, 0.0);
        let own = left.from(first * left.pitch);
        for k0 in (0..whole).step_by(depth) {
            let depth = depth.min(whole - k0);
            dispatch(Tiles { left: own.from(k0), right: right.from(k0), depth, m, n, lanes });
        }
        if whole < k {
            let left = Rows { data: &left_rest[first * LANES..], pitch: LANES };
            let right = Rows { data: &right_rest, pitch: LANES };
            dispatch(Tiles { left, right, depth: LANES, m, n, lanes });
        }
        dispatch(Sums { lanes, out });
    }
}

struct Sums<'a> {
    lanes: &'a [f32],
    out: &'a mut [f32],
}

impl OnLanes for Sums<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for (lanes, out) in self.lanes.chunks_exact(LANES).zip(self.out) {
            *out = L::load(lanes).sum();
        }
    }
}

/// Adds products of `m` and `n` rows, `depth` deep, to sixteen lanes each.
struct Tiles<'a> {
    left: Rows<'a>,
    right: Rows<'a>,
    depth: usize,
    m: usize,
    n: usize,
    /// `[m][n][LANES]`
    lanes: &'a mut [f32],
}

impl OnLanes for Tiles<'_> {
    #[inline(always)]
    fn run<L: Lanes>(mut self) {
        let held = self.left.hold(self.m, self.depth) && self.right.hold(self.n, self.depth);
        assert!(held && self.depth.is_multiple_of(LANES), "rows too short");
        assert!(self.lanes.len() >= self.m * self.n * LANES, "sums too short");
        let mut m = 0;
        while m < self.m {
            let high = match self.m - m {
                6.. if L::WIDE => 6,
                4.. if L::WIDE => 4,
                2.. => 2,
                _ => 1,
            };
            let mut n = 0;
            while n < self.n {
                let left = self.n - n;
                // SAFETY: the tile ends where `m` and `n` do, for which lengths are asserted.
                n += unsafe {
                    match (high, left) {
                        (6, 4..) if L::WIDE => tile::<L, 6, 4>(&mut self, m, n),
                        (6, 2..) if L::WIDE => tile::<L, 6, 2>(&mut self, m, n),
                        (6, _) if L::WIDE => tile::<L, 6, 1>(&mut self, m, n),
                        (4, 4..) if L::WIDE => tile::<L, 4, 4>(&mut self, m, n),
                        (4, _) if L::WIDE => tile::<L, 4, 1>(&mut self, m, n),
                        (2, 4..) if L::WIDE => tile::<L, 2, 4>(&mut self, m, n),
                        (2, 2..) => tile::<L, 2, 2>(&mut self, m, n),
                        (2, _) => tile::<L, 2, 1>(&mut self, m, n),
                        (_, 4..) => tile::<L, 1, 4>(&mut self, m, n),
                        (_, _) => tile::<L, 1, 1>(&mut self, m, n),
                    }
                };
            }
            m += high;
        }
    }
}

/// # Safety
/// `m + M` and `n + N` are within the rows that [`Tiles::run`] asserted lengths for.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "an index names a register of a tile")]
unsafe fn tile<L: Lanes, const M: usize, const N: usize>(
    tiles: &mut Tiles<'_>,
    m: usize,
    n: usize,
) -> usize {
    let (left_pitch, right_pitch) = (tiles.left.pitch, tiles.right.pitch);
    let mut sums = [[L::zero(); N]; M];
    let mut x = [L::zero(); M];
    // SAFETY: addresses stay within rows below `m + M` and `n + N` and below `depth` in each.
    unsafe {
        let lanes = tiles.lanes.as_mut_ptr().add((m * tiles.n + n) * LANES);
        for i in 0..M {
            for j in 0..N {
                sums[i][j] = L::read(lanes.add((i * tiles.n + j) * LANES));
            }
        }
        let left = tiles.left.data.as_ptr().add(m * left_pitch);
        let right = tiles.right.data.as_ptr().add(n * right_pitch);
        for at in (0..tiles.depth).step_by(LANES) {
            for i in 0..M {
                x[i] = L::read(left.add(i * left_pitch + at));
            }
            for j in 0..N {
                let w = L::read(right.add(j * right_pitch + at));
                for i in 0..M {
                    sums[i][j] = w.mul_add(x[i], sums[i][j]);
                }
            }
        }
        for i in 0..M {
            for j in 0..N {
                sums[i][j].write(lanes.add((i * tiles.n + j) * LANES));
            }
        }
    }
    N
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_how_many_there_are() {
        let mut random = fastrand::Rng::new();
        for (m, n, k) in [(13, 9, 700), (29, 5, 33), (3, 2, 16), (8, 4, 1040), (7, 7, 5)] {
            let mut fill =
                |count: usize| -> Vec<f32> { (0..count).map(|_| random.f32() - 0.5).collect() };
            let (a, b) = (fill(m * (k + 3)), fill(n * (k + 1)));
            let left = Rows { data: &a, pitch: k + 3 };
            let right = Rows { data: &b, pitch: k + 1 };
            let mut together = vec![0.0; m * n];
            products(left, m, right, n, k, &mut together, &mut Vec::new());
            for (at, together) in together.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let own = (left.from(i * left.pitch), right.from(j * right.pitch));
                let mut alone = [0.0];
                products(own.0, 1, own.1, 1, k, &mut alone, &mut Vec::new());
                let right: f64 = (0..k)
                    .map(|l| f64::from(a[i * (k + 3) + l]) * f64::from(b[j * (k + 1) + l]))
                    .sum();
                assert!(alone[0] == *together && (f64::from(alone[0]) - right).abs() < 1e-4);
            }
        }
    }
}
