//! Products in double precision.

use crate::ops::case::Values;

/// `[z, m, n]` from a `[z or 1, m, k]` and b `[z or 1, k, n]`.
pub(super) fn matmul(a: &Values, b: &Values, batch: usize) -> Vec<f64> {
    products(a, b, batch, |a, b| a * b)
}

/// Output `at` of a single product.
pub(super) fn one(a: &Values, b: &Values, at: usize) -> f64 {
    let (k, n) = (b.shape[0], b.shape[1]);
    let (row, column) = (at / n, at % n);
    (0..k).map(|l| a.data[row * k + l] * b.data[l * n + column]).sum()
}

/// Norm of the output if its terms' signs were independent.
pub(super) fn spread(a: &Values, b: &Values, batch: usize) -> f64 {
    products(a, b, batch, |a, b| (a * b).powi(2)).iter().sum::<f64>().sqrt()
}

fn products(a: &Values, b: &Values, batch: usize, term: fn(f64, f64) -> f64) -> Vec<f64> {
    let last = |values: &Values| {
        let rank = values.shape.len();
        (values.shape[rank - 2], values.shape[rank - 1])
    };
    let ((m, k), (_, n)) = (last(a), last(b));
    let mut out = vec![0.0; batch * m * n];
    for z in 0..batch {
        // A batch of one serves all.
        let a = &a.data[z * m * k % a.data.len()..][..m * k];
        let b = &b.data[z * k * n % b.data.len()..][..k * n];
        let out = &mut out[z * m * n..][..m * n];
        for i in 0..m {
            for l in 0..k {
                for j in 0..n {
                    out[i * n + j] += term(a[i * k + l], b[l * n + j]);
                }
            }
        }
    }
    out
}
