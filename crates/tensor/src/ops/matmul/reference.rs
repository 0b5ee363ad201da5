//! The product in float64, as it is defined.

use crate::ops::case::Values;

/// `[batch, m, n]` of lhs `[.., m, k]` and rhs `[.., k, n]`, batches of 1 repeated.
pub(super) fn matmul(lhs: &Values, rhs: &Values, batch: usize) -> Vec<f64> {
    let last_two = |values: &Values| {
        let rank = values.shape.len();
        (values.shape[rank - 2], values.shape[rank - 1])
    };
    let ((m, k), (_, n)) = (last_two(lhs), last_two(rhs));
    let start = |values: &Values, at: usize, size: usize| {
        if values.data.len() == size { 0 } else { at * size }
    };
    let mut out = Vec::with_capacity(batch * m * n);
    for at in 0..batch {
        let (left, right) = (start(lhs, at, m * k), start(rhs, at, k * n));
        for i in 0..m {
            for j in 0..n {
                let term = |p| lhs.data[left + i * k + p] * rhs.data[right + p * n + j];
                out.push((0..k).map(term).sum());
            }
        }
    }
    out
}
