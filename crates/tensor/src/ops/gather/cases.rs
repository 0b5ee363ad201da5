//! Every type, every axis, ids that repeat and ids of their own, views.

use tintype_gpu::DType;

use super::gather;
use crate::ops::case::{Case, Layout, Operand, Values};

/// Row-major index of `at` in a shape, taken apart and put together.
fn apart(shape: &[usize], mut at: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = at % shape[axis];
        at /= shape[axis];
    }
    index
}

fn reference(axis: usize, out: &[usize], inputs: &[Values]) -> Vec<f64> {
    let x = &inputs[0];
    let one = |at: usize| {
        let mut index = apart(out, at);
        index[axis] = inputs[1].broadcast(out, at) as usize;
        x.data[index.iter().zip(&x.shape).fold(0, |sum, (i, n)| sum * n + i)]
    };
    (0..out.iter().product()).map(one).collect()
}

fn of(axis: usize, x: Operand, ids: Operand, layout: Layout) -> Case {
    let mut shape = x.shape.clone();
    shape[axis] = ids.shape[axis];
    let ids = ids.within(0.0..x.shape[axis] as f32);
    let out = Operand::new(x.dtype, &shape).laid(layout);
    Case::new(
        format!("gather along {axis}"),
        vec![x, ids],
        out,
        move |session, inputs, out| gather(session, axis, &inputs[0], &inputs[1], out),
        move |inputs| reference(axis, &shape, inputs),
    )
    .exact()
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::Bf16, DType::I32, DType::U32] {
        let x = |shape: &[usize]| Operand::new(dtype, shape).within(0.0..99.0);
        let ids = |shape: &[usize]| Operand::new(DType::I32, shape);
        let dense = Layout::Dense;
        // Rows by number, elements of rows, one row of each batch, everything with ids of its own.
        all.push(of(0, x(&[9, 130]), ids(&[4, 1]), dense));
        all.push(of(1, x(&[7, 65]), ids(&[7, 3]), dense));
        all.push(of(1, x(&[3, 11, 33]), ids(&[3, 1, 1]), Layout::Padded(3)));
        all.push(of(1, x(&[2, 5, 3, 31]), ids(&[2, 8, 3, 31]), dense));
        all.push(of(2, x(&[2, 5, 9]).laid(Layout::Transposed), ids(&[2, 1, 4]), dense));
        let far = Operand::new(DType::U32, &[6]).laid(Layout::Stepped(1));
        all.push(of(0, x(&[257]).laid(Layout::Stepped(1)), far, Layout::Offset(3)));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let x = Operand::new(DType::F32, &[4096, 2560]);
    vec![of(0, x, Operand::new(DType::I32, &[512, 1]), Layout::Dense)]
}
