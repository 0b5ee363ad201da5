//! Every function in every type and place; odd sizes, views and broadcasts.

use super::reference;
use super::{Binary, Unary, binary, binary_in_place, unary, unary_in_place};
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, ODD_SIZES, Operand};
use tintype_gpu::DType;

fn parameters(function: Unary) -> [f32; 2] {
    match function {
        Unary::Affine => [1.75, -0.5],
        Unary::Clamp => [-1.5, 2.5],
        Unary::SoftCap => [30.0, 0.0],
        _ => [0.0, 0.0],
    }
}

fn one(function: Unary, a: Operand, out: Operand) -> Case {
    let shape = out.shape.clone();
    let given = parameters(function);
    Case::new(
        function.name(),
        vec![a.within(function.range())],
        out,
        move |session, inputs, out| unary(session, function, given, &inputs[0], out),
        move |inputs| reference::unary(function, given, &inputs[0], &shape),
    )
}

fn one_in_place(function: Unary, a: Operand) -> Case {
    let shape = a.shape.clone();
    let given = parameters(function);
    let a = a.within(function.range());
    Case::new(
        function.name(),
        vec![a.clone()],
        a,
        move |session, _, out| unary_in_place(session, function, given, out),
        move |inputs| reference::unary(function, given, &inputs[0], &shape),
    )
    .in_place(0)
}

fn two(function: Binary, a: Operand, b: Operand, out: Operand) -> Case {
    let shape = out.shape.clone();
    let range = function.range();
    Case::new(
        function.name(),
        vec![a.within(range.clone()), b.within(range)],
        out,
        move |session, inputs, out| binary(session, function, &inputs[0], &inputs[1], out),
        move |inputs| reference::binary(function, &inputs[0], &inputs[1], &shape),
    )
}

fn two_in_place(function: Binary, a: Operand, b: Operand) -> Case {
    let shape = a.shape.clone();
    let range = function.range();
    let a = a.within(range.clone());
    Case::new(
        function.name(),
        vec![a.clone(), b.within(range)],
        a,
        move |session, inputs, out| binary_in_place(session, function, out, &inputs[1]),
        move |inputs| reference::binary(function, &inputs[0], &inputs[1], &shape),
    )
    .in_place(0)
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let f32s = |shape: &[usize]| Operand::new(DType::F32, shape);
    // Every function, in each type.
    for dtype in NUMBERS.map(|number| number.dtype()) {
        let of = |shape: &[usize]| Operand::new(dtype, shape);
        for &function in Unary::ALL {
            all.push(one(function, of(&[1031]), of(&[1031])));
            all.push(one_in_place(function, of(&[1031])));
        }
        for &function in Binary::ALL {
            all.push(two(function, of(&[1031]), of(&[1031]), of(&[1031])));
            all.push(two_in_place(function, of(&[7, 147]), of(&[147])));
        }
        // Mixed types.
        all.push(one(Unary::Identity, of(&[257]), f32s(&[257])));
        all.push(one(Unary::Silu, f32s(&[257]), of(&[257])));
        all.push(two(Binary::Add, of(&[3, 257]), f32s(&[257]), of(&[3, 257])));
        all.push(two(Binary::Mul, f32s(&[3, 257]), of(&[3, 1]), f32s(&[3, 257])));
        all.push(two_in_place(Binary::Add, f32s(&[3, 257]), of(&[257])));
    }
    // Odd sizes.
    for n in ODD_SIZES {
        all.push(one(Unary::Neg, f32s(&[n]), f32s(&[n])));
        let half = Operand::new(DType::F16, &[n]);
        all.push(two(Binary::Sub, half.clone(), half.clone(), half));
    }
    // Views of inputs and outputs.
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for from in LAYOUTS {
            for to in LAYOUTS {
                let of = |layout| Operand::new(dtype, &[5, 31, 13]).laid(layout);
                all.push(one(Unary::Tanh, of(from), of(to)));
            }
            all.push(one_in_place(Unary::Gelu, Operand::new(dtype, &[3, 65]).laid(from)));
        }
    }
    // Broadcasts, up to six axes.
    for (a, b, out) in [
        (&[4, 1, 7][..], &[9, 1][..], &[4, 9, 7][..]),
        (&[1], &[5, 1000], &[5, 1000]),
        (&[64, 1], &[1, 64], &[64, 64]),
        (&[2, 1, 3, 1, 2, 5], &[1, 3, 1, 4, 2, 1], &[2, 3, 3, 4, 2, 5]),
        (&[], &[3], &[3]),
    ] {
        all.push(two(Binary::Sub, f32s(a), f32s(b), f32s(out)));
        all.push(two(Binary::Mul, f32s(a), f32s(b), f32s(out).laid(Layout::Stepped(1))));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let of = |dtype, shape: &[usize]| Operand::new(dtype, shape);
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        let shape = [2048, 4096];
        all.push(two(Binary::Add, of(dtype, &shape), of(dtype, &shape), of(dtype, &shape)));
        all.push(two(Binary::Mul, of(dtype, &shape), of(dtype, &[4096]), of(dtype, &shape)));
        for function in [Unary::Silu, Unary::Gelu, Unary::Exp] {
            all.push(one(function, of(dtype, &shape), of(dtype, &shape)));
        }
    }
    all
}
