//! Norms in double precision.

use super::Norm;
use crate::ops::case::Values;

/// What a row becomes before gain and shift.
fn normalized(kind: Norm, eps: f64, row: &[f64]) -> Vec<f64> {
    let n = row.len() as f64;
    let mean = if kind == Norm::Layer { row.iter().sum::<f64>() / n } else { 0.0 };
    let squares: f64 = row.iter().map(|v| (v - mean).powi(2)).sum();
    let by = if kind == Norm::L2 { squares.sqrt().max(eps) } else { (squares / n + eps).sqrt() };
    row.iter().map(|v| (v - mean) / by).collect()
}

/// Gain, its offset, and shift.
pub(super) struct Affine<'a> {
    pub(super) gain: Option<&'a Values>,
    pub(super) offset: f64,
    pub(super) shift: Option<&'a Values>,
}

impl Affine<'_> {
    fn apply(&self, shape: &[usize], values: Vec<f64>) -> Vec<f64> {
        let one = |(at, v): (usize, f64)| {
            let gain = self.gain.map_or(1.0, |gain| gain.broadcast(shape, at) + self.offset);
            v * gain + self.shift.map_or(0.0, |shift| shift.broadcast(shape, at))
        };
        values.into_iter().enumerate().map(one).collect()
    }
}

pub(super) fn row(
    kind: Norm,
    eps: f64,
    x: &[f64],
    shape: &[usize],
    affine: &Affine<'_>,
) -> Vec<f64> {
    let n = shape.last().copied().unwrap_or(1);
    let values = x.chunks_exact(n).flat_map(|row| normalized(kind, eps, row)).collect();
    affine.apply(shape, values)
}

/// Over `groups` of the channels of `[batch, channels, ..]`; gain and shift repeat over positions.
pub(super) fn group(
    groups: usize,
    eps: f64,
    x: &Values,
    affine: &Affine<'_>,
    silu: bool,
) -> Vec<f64> {
    let n = x.data.len() / x.shape[0] / groups;
    let values = x.data.chunks_exact(n).flat_map(|row| normalized(Norm::Layer, eps, row)).collect();
    let channels = [x.shape[0], x.shape[1], n * groups / x.shape[1]];
    let values = affine.apply(&channels, values);
    let silu = |v: f64| if silu { v / (1.0 + (-v).exp()) } else { v };
    values.into_iter().map(silu).collect()
}
