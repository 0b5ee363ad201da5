//! The product in double precision.

use crate::ops::case::Values;

/// `[m, rows]` from weights `[rows, k]` and x `[m, k]`.
pub(super) fn matmul(weights: &Values, x: &Values) -> Vec<f64> {
    products(weights, x, |w, x| w * x)
}

/// Output `at`.
pub(super) fn one(weights: &Values, x: &Values, at: usize) -> f64 {
    let (rows, k) = (weights.shape[0], weights.shape[1]);
    let (m, row) = (at / rows, at % rows);
    weights.data[row * k..][..k].iter().zip(&x.data[m * k..]).map(|(w, x)| w * x).sum()
}

/// Norm of the output if its terms' signs were independent.
pub(super) fn spread(weights: &Values, x: &Values) -> f64 {
    products(weights, x, |w, x| (w * x).powi(2)).iter().sum::<f64>().sqrt()
}

fn products(weights: &Values, x: &Values, term: fn(f64, f64) -> f64) -> Vec<f64> {
    let k = *weights.shape.last().unwrap_or(&1);
    let dot = |w: &[f64], x: &[f64]| w.iter().zip(x).map(|(w, x)| term(*w, *x)).sum();
    x.data
        .chunks_exact(k)
        .flat_map(|x| weights.data.chunks_exact(k).map(move |w| dot(w, x)))
        .collect()
}
