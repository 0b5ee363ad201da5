//! Pointwise functions in double precision. It must not share arithmetic with the kernels.

use super::{Binary, Unary};
use crate::ops::case::Values;

/// `f(a)` for each element of `shape`.
pub(crate) fn unary(function: Unary, [x, y]: [f32; 2], a: &Values, shape: &[usize]) -> Vec<f64> {
    let count = shape.iter().product();
    (0..count).map(|at| function.reference()(a.broadcast(shape, at), x.into(), y.into())).collect()
}

/// `f(a, b)` for each element of `shape`.
pub(crate) fn binary(function: Binary, a: &Values, b: &Values, shape: &[usize]) -> Vec<f64> {
    let count = shape.iter().product();
    (0..count)
        .map(|at| function.reference()(a.broadcast(shape, at), b.broadcast(shape, at)))
        .collect()
}
