//! Chains as fusion makes them: gates, residuals, modulations, biases with activations; every type,
//! views, broadcasts, in place.

use tintype_gpu::DType;

use super::{Program, Step, chain};
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, ODD_SIZES, Operand, Values};
use crate::ops::pointwise::{Binary, Unary};

fn unary(function: Unary, x: f32, y: f32) -> Step {
    Step::Unary(function, [x, y])
}

fn with(function: Binary, side: usize) -> Step {
    Step::Binary { function, side, reversed: false }
}

/// Each kind of step, and three sides.
pub(super) fn every_kind_of_step() -> Program {
    let reversed = Step::Binary { function: Binary::Sub, side: 1, reversed: true };
    Program {
        steps: vec![
            with(Binary::Mul, 0),
            unary(Unary::Affine, 0.5, 0.25),
            reversed,
            unary(Unary::Silu, 0.0, 0.0),
            Step::Own(Binary::Mul),
            with(Binary::Add, 2),
            unary(Unary::GeluTanh, 0.0, 0.0),
            with(Binary::Max, 0),
        ],
    }
}

/// silu(a)·b
fn gate() -> Program {
    Program { steps: vec![unary(Unary::Silu, 0.0, 0.0), with(Binary::Mul, 0)] }
}

/// gelu(a + b)
fn bias_gelu() -> Program {
    Program { steps: vec![with(Binary::Add, 0), unary(Unary::Gelu, 0.0, 0.0)] }
}

/// a·gate + residual
fn gated_residual() -> Program {
    Program { steps: vec![with(Binary::Mul, 0), with(Binary::Add, 1)] }
}

/// No other operands.
fn alone() -> Program {
    Program { steps: vec![unary(Unary::Tanh, 0.0, 0.0), unary(Unary::Affine, 2.0, -1.0)] }
}

fn exact(program: &Program, inputs: &[Values], shape: &[usize]) -> Vec<f64> {
    let count = shape.iter().product();
    let at = |at: usize| {
        program.steps.iter().fold(inputs[0].broadcast(shape, at), |r, step| match *step {
            Step::Unary(function, [x, y]) => function.reference()(r, x.into(), y.into()),
            Step::Own(function) => function.reference()(r, r),
            Step::Binary { function, side, reversed } => {
                let w = inputs[1 + side].broadcast(shape, at);
                let (v, w) = if reversed { (w, r) } else { (r, w) };
                function.reference()(v, w)
            }
        })
    };
    (0..count).map(at).collect()
}

fn case(name: &str, program: Program, inputs: Vec<Operand>, out: Operand) -> Case {
    let shape = out.shape.clone();
    let types: Vec<DType> = inputs.iter().map(|operand| operand.dtype).collect();
    let (record, dtype) = (program.clone(), out.dtype);
    Case::new(
        format!("chain {name}"),
        inputs,
        out,
        move |session, inputs, out| {
            let steps = record.tensor(session.device(), &types, dtype)?;
            chain(session, &record, &inputs[0], &inputs[1..], &steps, out)
        },
        move |inputs| exact(&program, inputs, &shape),
    )
}

fn in_place(name: &str, program: Program, inputs: Vec<Operand>) -> Case {
    let out = inputs[0].clone();
    let shape = out.shape.clone();
    let types: Vec<DType> = inputs.iter().map(|operand| operand.dtype).collect();
    let record = program.clone();
    Case::new(
        format!("chain {name}"),
        inputs,
        out,
        move |session, inputs, out| {
            let steps = record.tensor(session.device(), &types, types[0])?;
            chain(session, &record, out, &inputs[1..], &steps, out)
        },
        move |inputs| exact(&program, inputs, &shape),
    )
    .in_place(0)
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in NUMBERS.map(|number| number.dtype()) {
        let of = |shape: &[usize]| Operand::new(dtype, shape);
        let full = || of(&[5, 31, 13]);
        let four = |from| {
            vec![full().laid(from), of(&[13]), full().laid(Layout::Padded(2)), of(&[5, 1, 1])]
        };
        for from in LAYOUTS {
            for to in [Layout::Dense, Layout::Transposed, Layout::Stepped(1)] {
                all.push(case("of every step", every_kind_of_step(), four(from), full().laid(to)));
            }
            all.push(in_place("of every step", every_kind_of_step(), four(from)));
        }
        all.push(case("gate", gate(), vec![of(&[3, 257]), of(&[3, 257])], of(&[3, 257])));
        all.push(case(
            "gate",
            gate(),
            vec![of(&[3, 257]), of(&[3, 1])],
            Operand::new(DType::F32, &[3, 257]),
        ));
        all.push(in_place("bias and gelu", bias_gelu(), vec![of(&[7, 65]), of(&[65])]));
        let f32s = Operand::new(DType::F32, &[2, 9, 40]);
        all.push(case(
            "residual",
            gated_residual(),
            vec![of(&[2, 9, 40]), of(&[2, 1, 40]), f32s.clone()],
            f32s,
        ));
        all.push(in_place("alone", alone(), vec![of(&[1031])]));
    }
    for n in ODD_SIZES {
        let of = || Operand::new(DType::F32, &[n]);
        all.push(case(
            "gate",
            gate(),
            vec![of().laid(Layout::Offset(3)), of()],
            of().laid(Layout::Offset(1)),
        ));
    }
    // More axes than a dispatch walks.
    let six = |shape: &[usize]| Operand::new(DType::F32, shape);
    let inputs = vec![six(&[2, 3, 2, 3, 2, 5]), six(&[2, 1, 2, 1, 2, 1]), six(&[1, 3, 1, 3, 1, 5])];
    all.push(case("six axes", gated_residual(), inputs, six(&[2, 3, 2, 3, 2, 5])));
    all
}

pub(super) fn benches() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        let of = |shape: &[usize]| Operand::new(dtype, shape);
        let shape = [2048, 4096];
        all.push(case("gate", gate(), vec![of(&shape), of(&shape)], of(&shape)));
        all.push(case("bias and gelu", bias_gelu(), vec![of(&shape), of(&[4096])], of(&shape)));
    }
    all
}
