//! Dense products: the `gemm` crate behind slices.

/// A strided matrix of which some top-left part is used.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) data: &'a [f32],
    /// Distance between rows.
    pub(crate) rows: usize,
    /// Distance between columns.
    pub(crate) columns: usize,
}

impl Matrix<'_> {
    /// What begins some floats later.
    fn from(self, floats: usize) -> Self {
        Matrix { data: &self.data[floats..], ..self }
    }

    /// Whether `rows × columns` elements lie inside.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let last = (rows - 1).checked_mul(self.rows).and_then(|row| {
            (columns - 1).checked_mul(self.columns).and_then(|column| row.checked_add(column))
        });
        last.is_some_and(|last| last < self.data.len())
    }
}

/// `out[m, n] (+)= left[m, k]·right[k, n]`, out row-major and dense, on this thread; an element's bits
/// do not depend on m and n. Shapes that the operands do not hold are a mistake of the caller: it
/// panics, as an index would.
pub(crate) fn gemm(
    [m, n, k]: [usize; 3],
    left: Matrix<'_>,
    right: Matrix<'_>,
    out: &mut [f32],
    add: bool,
) {
    assert!(m > 0 && n > 0 && k > 0 && out.len() >= m * n, "an empty product or no place for it");
    assert!(left.holds(m, k) && right.holds(k, n), "operands shorter than {m}x{k}, {k}x{n}");
    // The crate sums single rows and columns, few elements along k, and stretches of k that it chooses
    // by m and n, in orders of their own. So single ones are computed twice, few elements come from
    // another layout, and k is cut here: 512 is what the crate never cuts.
    let (rows, columns) = (m.max(2), n.max(2));
    let single = m == 1 || n == 1;
    let turned: Vec<f32>;
    let left = if left.columns == 1 && right.rows == 1 && rows * columns <= FEW {
        let places = (0..k).flat_map(|l| (0..rows).map(move |i| l + i.min(m - 1) * left.rows));
        turned = places.map(|place| left.data[place]).collect();
        Matrix { data: &turned, rows: 1, columns: rows }
    } else {
        Matrix { rows: if m == 1 { 0 } else { left.rows }, ..left }
    };
    let right = Matrix { columns: if n == 1 { 0 } else { right.columns }, ..right };
    let mut twice = vec![0.0f32; if single { rows * columns } else { 0 }];
    if single && add {
        for (at, twice) in twice.iter_mut().enumerate() {
            *twice = out[at / columns % m * n + at % columns % n];
        }
    }
    let stretch = k.div_ceil(k.div_ceil(STRETCH));
    for k0 in (0..k).step_by(stretch) {
        let depth = stretch.min(k - k0);
        let (left, right) = (left.from(k0 * left.columns), right.from(k0 * right.rows));
        let out = if single { &mut twice[..] } else { &mut *out };
        product([rows, columns, depth], left, right, out, add || k0 > 0);
    }
    if single {
        for (at, out) in out[..m * n].iter_mut().enumerate() {
            *out = twice[at / n * columns + at % n];
        }
    }
}

/// Depth that the crate sums in one stretch, whatever the caches.
const STRETCH: usize = 512;

/// Elements up to which the crate sums along k, where both operands run along it.
const FEW: usize = 256;

/// One call of the crate.
fn product([m, n, k]: [usize; 3], left: Matrix<'_>, right: Matrix<'_>, out: &mut [f32], add: bool) {
    assert!(left.holds(m, k) && right.holds(k, n), "operands shorter than {m}x{k}, {k}x{n}");
    assert!(out.len() >= m * n, "output shorter than {m}x{n}");
    // SAFETY: `out` is exclusive and holds m·n elements at strides (n, 1); every element of `left`
    // and `right` that (m, k) and (k, n) name lies in its slice (asserted above); they do not
    // overlap `out`, which is borrowed mutably.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            add,
            left.data.as_ptr(),
            left.columns as isize,
            left.rows as isize,
            right.data.as_ptr(),
            right.columns as isize,
            right.rows as isize,
            1.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_every_stride_are_right() {
        let (m, n, k) = (5, 7, 9);
        let a: Vec<f32> = (0..m * k).map(|n| n as f32 * 0.25 - 3.0).collect();
        let b: Vec<f32> = (0..n * k).map(|n| 2.0 - n as f32 * 0.125).collect();
        let right = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum::<f32>();
        let mut out = vec![1.0; m * n];
        let left = Matrix { data: &a, rows: k, columns: 1 };
        let transposed = Matrix { data: &b, rows: 1, columns: k };
        gemm([m, n, k], left, transposed, &mut out, true);
        assert!((0..m * n).all(|at| (out[at] - 1.0 - right(at / n, at % n)).abs() < 1e-3));
    }

    #[test]
    fn an_element_does_not_depend_on_how_many_there_are() {
        let mut random = fastrand::Rng::new();
        let (m, n, most) = (21, 35, 1100);
        let mut fill = |count| (0..count).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
        let (a, b, before) = (fill(m * most), fill(n * most), fill(m * n));
        for k in [1, 2, 3, 17, 300, most] {
            for (left, right) in [([k, 1], [n, 1]), ([1, m], [1, k]), ([k, 1], [1, k])] {
                let of = |i: usize, j: usize, m, n, out: &mut [f32], add| {
                    let left = Matrix { data: &a[i * left[0]..], rows: left[0], columns: left[1] };
                    let right =
                        Matrix { data: &b[j * right[1]..], rows: right[0], columns: right[1] };
                    gemm([m, n, k], left, right, out, add);
                };
                for add in [false, true] {
                    let mut all = before.clone();
                    of(0, 0, m, n, &mut all, add);
                    for (i, j, rows, columns) in
                        [(0, 0, 1, 1), (20, 3, 1, 32), (4, 34, 17, 1), (2, 1, 2, 3)]
                    {
                        let place = |at: usize| (i + at / columns) * n + j + at % columns;
                        let mut some: Vec<f32> =
                            (0..rows * columns).map(|at| before[place(at)]).collect();
                        of(i, j, rows, columns, &mut some, add);
                        for (at, one) in some.iter().enumerate() {
                            assert_eq!(
                                *one,
                                all[place(at)],
                                "{k} deep, {rows} by {columns}, {add}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "operands shorter")]
    fn short_operands_are_caught() {
        let short = Matrix { data: &[1.0; 5], rows: 3, columns: 1 };
        gemm([2, 1, 3], short, short, &mut [0.0; 2], false);
    }
}
