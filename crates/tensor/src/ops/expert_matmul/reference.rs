//! Products with chosen experts in float64.

use crate::ops::case::Values;

/// `[tokens, used, n]` from weights `[experts, n, k]`, x `[tokens, used or 1, k]`, ids `[tokens, used]`.
pub(super) fn products(inputs: &[Values], term: fn(f64, f64) -> f64) -> Vec<f64> {
    let [weights, x, ids] = inputs else { return Vec::new() };
    let (n, k) = (weights.shape[1], weights.shape[2]);
    let (used, own) = (ids.shape[1], x.shape[1]);
    let mut out = Vec::new();
    for (pair, id) in ids.data.iter().enumerate() {
        let row = pair / used * own + if own == 1 { 0 } else { pair % used };
        let x = &x.data[row * k..][..k];
        let expert = &weights.data[*id as usize * n * k..][..n * k];
        out.extend(
            expert.chunks_exact(k).map(|w| w.iter().zip(x).map(|(w, x)| term(*w, *x)).sum::<f64>()),
        );
    }
    out
}
