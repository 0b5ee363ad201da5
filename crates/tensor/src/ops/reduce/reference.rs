//! Reductions in double precision.

use super::Fold;
use crate::ops::case::Values;

/// The fold over `axes`, in the order of the axes that are left.
pub(super) fn reduce(fold: Fold, a: &Values, axes: &[usize]) -> Vec<f64> {
    let kept: Vec<usize> = (0..a.shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let outputs: usize = kept.iter().map(|&axis| a.shape[axis]).product();
    let mut groups = vec![Vec::new(); outputs];
    for (at, value) in a.data.iter().enumerate() {
        let (mut rest, mut index) = (at, vec![0; a.shape.len()]);
        for axis in (0..a.shape.len()).rev() {
            index[axis] = rest % a.shape[axis];
            rest /= a.shape[axis];
        }
        let output = kept.iter().fold(0, |sum, &axis| sum * a.shape[axis] + index[axis]);
        groups[output].push(*value);
    }
    groups.iter().map(|group| of(fold, group)).collect()
}

fn of(fold: Fold, group: &[f64]) -> f64 {
    match fold {
        Fold::Sum => group.iter().sum(),
        Fold::Mean => group.iter().sum::<f64>() / group.len() as f64,
        Fold::SumSquares => group.iter().map(|v| v * v).sum(),
        Fold::Max => group.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Fold::Min => group.iter().copied().fold(f64::INFINITY, f64::min),
    }
}
