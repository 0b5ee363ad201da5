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
    /// Whether `rows × columns` elements lie inside.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let last = (rows - 1).checked_mul(self.rows).and_then(|row| {
            (columns - 1).checked_mul(self.columns).and_then(|column| row.checked_add(column))
        });
        last.is_some_and(|last| last < self.data.len())
    }
}

/// `out[m, n] (+)= left[m, k]·right[k, n]`, out row-major and dense, on this thread. Shapes that the
/// operands do not hold are a mistake of the caller: it panics, as an index would.
pub(crate) fn gemm(
    [m, n, k]: [usize; 3],
    left: Matrix<'_>,
    right: Matrix<'_>,
    out: &mut [f32],
    add: bool,
) {
    assert!(m > 0 && n > 0 && k > 0, "empty product");
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
    #[should_panic(expected = "operands shorter")]
    fn short_operands_are_caught() {
        let short = Matrix { data: &[1.0; 5], rows: 3, columns: 1 };
        gemm([2, 1, 3], short, short, &mut [0.0; 2], false);
    }
}
