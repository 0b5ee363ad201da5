//! Dense f32 products, through the `gemm` crate, on slices whose bounds are checked here.

use tintype_gpu::kernel::Rows;

/// A matrix in a slice: element (i, j) is `data[i * row + j * column]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl Matrix<'_> {
    /// Whether `rows` by `columns` of it, neither zero, lie inside the slice.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let last = (rows - 1)
            .checked_mul(self.row)
            .zip((columns - 1).checked_mul(self.column))
            .and_then(|(down, across)| down.checked_add(across));
        last.is_some_and(|last| last < self.data.len())
    }
}

/// `out = lhs · rhs`, with `k` terms a sum. Returns false, having written nothing, if an operand is
/// smaller than the product asks for. The order of each sum depends on `k` and the tile's shape only.
#[must_use]
pub(crate) fn product(lhs: Matrix<'_>, rhs: Matrix<'_>, k: usize, out: &mut Rows<'_, f32>) -> bool {
    let (m, n, stride) = (out.len(), out.columns(), out.stride());
    if m == 0 || n == 0 {
        return true;
    }
    if k == 0 || !lhs.holds(m, k) || !rhs.holds(k, n) {
        return false;
    }
    // SAFETY: reads stay inside the slices (checked above) and writes inside the tile (its own
    // shape); the tile does not overlap the slices (slots of a dispatch do not, where one is
    // written).
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            stride as isize,
            false,
            lhs.data.as_ptr(),
            lhs.column as isize,
            lhs.row as isize,
            rhs.data.as_ptr(),
            rhs.column as isize,
            rhs.row as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
    true
}

/// Σ a·b in a fixed order: 32 running sums, then a tree.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 32];
    let (left, right) = (a.chunks_exact(32), b.chunks_exact(32));
    let rest = left.remainder().iter().zip(right.remainder());
    let rest: f32 = rest.map(|(x, y)| x * y).sum();
    for (x, y) in left.zip(right) {
        for lane in 0..32 {
            sums[lane] = x[lane].mul_add(y[lane], sums[lane]);
        }
    }
    let mut width = 16;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest
}
