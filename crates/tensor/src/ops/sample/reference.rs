//! Choosing in float64, by sorting everything.

/// Places that are kept, in ascending order, with their weights.
pub(super) fn kept(
    row: &[f64],
    [_, top_k, top_p, min_p]: [f64; 4],
    inverse: f64,
) -> Vec<(usize, f64)> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut all: Vec<(usize, f64)> = row
        .iter()
        .map(|v| if v.is_nan() { 0.0 } else { ((v - largest) * inverse).exp() })
        .enumerate()
        .collect();
    // Stable: equals stay in order.
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    if top_k >= 1.0 {
        all.truncate(top_k as usize);
    }
    if top_p < 1.0 {
        let total: f64 = all.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let count = all.iter().position(|(_, weight)| {
            sum += weight;
            sum >= top_p * total
        });
        all.truncate(count.map_or(all.len(), |last| last + 1));
    }
    all.retain(|(_, weight)| *weight >= min_p && *weight > 0.0);
    all.sort_unstable_by_key(|(place, _)| *place);
    all
}

pub(super) fn choose(row: &[f64], settings: [f64; 4], uniform: f64) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return -1.0;
    }
    if settings[0] <= 0.0 {
        return row.iter().position(|v| *v == largest).map_or(-1.0, |place| place as f64);
    }
    let kept = kept(row, settings, 1.0 / settings[0]);
    let total: f64 = kept.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let chosen = kept.iter().find(|(_, weight)| {
        sum += weight;
        sum > uniform * total
    });
    chosen.or(kept.last()).map_or(-1.0, |(place, _)| *place as f64)
}
