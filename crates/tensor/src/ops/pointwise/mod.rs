//! Functions of one or two numbers, element by element: the pointwise archetype. Any mix of F32, F16
//! and BF16, arithmetic in f32, any strides, operands repeated as NumPy broadcasts.

mod cases;
mod cpu;
mod functions;
pub mod node;
mod reference;

pub use functions::{Binary, Unary};
use tintype_gpu::Session;
use tintype_gpu::kernel::KernelSource;

use super::Operation;
use super::case::Variant;
use super::walked::Walked;
use crate::Tensor;
use crate::error::{Error, Result, dtype, shape};
use crate::number::{Aliases, NUMBERS, Number, OUT, input_and_out, inputs_and_out};
use cpu::Codes;

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "pointwise",
    summary: "functions of one or two numbers, with broadcasting",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

macro_rules! source {
    ($name:literal) => {
        concat!(
            include_str!("../prelude/numbers.wgsl"),
            include_str!("../prelude/walk.wgsl"),
            include_str!("../prelude/functions.wgsl"),
            include_str!($name)
        )
    };
}

const fn kernel(
    name: &'static str,
    wgsl: &'static str,
    cpu: tintype_gpu::kernel::CpuFn,
) -> KernelSource {
    KernelSource { name, wgsl, entry: "main", aliases: &[], cpu }
}

const UNARY: KernelSource = kernel("unary", source!("unary.wgsl"), cpu::unary);
const UNARY_IN_PLACE: KernelSource =
    kernel("unary_in_place", source!("unary_in_place.wgsl"), cpu::unary_in_place);
const BINARY: KernelSource = kernel("binary", source!("binary.wgsl"), cpu::binary);
const BINARY_IN_PLACE: KernelSource =
    kernel("binary_in_place", source!("binary_in_place.wgsl"), cpu::binary_in_place);

static ONE: [[(&str, &str); 2]; 3] = OUT;
static TWO: [[(&str, &str); 3]; 9] = input_and_out("A");
static TWO_IN_PLACE: [[(&str, &str); 3]; 9] = input_and_out("B");
static THREE: [[(&str, &str); 4]; 27] = inputs_and_out("A", "B");

fn with(source: KernelSource, aliases: Aliases) -> KernelSource {
    KernelSource { aliases, ..source }
}

/// The kernel and overrides for each form.
fn unary_variant(a: Number, out: Number, code: u32, rank: u32) -> Variant {
    Variant {
        source: with(UNARY, &TWO[a as usize * 3 + out as usize]),
        overrides: vec![
            ("A_BF16", a.is_bf16()),
            ("OUT_BF16", out.is_bf16()),
            ("CODE", code.into()),
            ("RANK", rank.into()),
        ],
    }
}

fn unary_in_place_variant(out: Number, code: u32, rank: u32) -> Variant {
    Variant {
        source: with(UNARY_IN_PLACE, &ONE[out as usize]),
        overrides: vec![("OUT_BF16", out.is_bf16()), ("CODE", code.into()), ("RANK", rank.into())],
    }
}

fn binary_variant(a: Number, b: Number, out: Number, code: u32, rank: u32) -> Variant {
    Variant {
        source: with(BINARY, &THREE[a as usize * 9 + b as usize * 3 + out as usize]),
        overrides: vec![
            ("A_BF16", a.is_bf16()),
            ("B_BF16", b.is_bf16()),
            ("OUT_BF16", out.is_bf16()),
            ("CODE", code.into()),
            ("RANK", rank.into()),
        ],
    }
}

fn binary_in_place_variant(b: Number, out: Number, code: u32, rank: u32) -> Variant {
    Variant {
        source: with(BINARY_IN_PLACE, &TWO_IN_PLACE[b as usize * 3 + out as usize]),
        overrides: vec![
            ("B_BF16", b.is_bf16()),
            ("OUT_BF16", out.is_bf16()),
            ("CODE", code.into()),
            ("RANK", rank.into()),
        ],
    }
}

/// Every type and number of axes with one function, and every function with one type.
fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    let f = Number::F32;
    for rank in super::walked::RANKS {
        for out in NUMBERS {
            all.push(unary_in_place_variant(out, 0, rank));
            for a in NUMBERS {
                all.push(unary_variant(a, out, 0, rank));
                all.push(binary_in_place_variant(a, out, 0, rank));
                all.extend(NUMBERS.map(|b| binary_variant(a, b, out, 0, rank)));
            }
        }
    }
    for function in Unary::ALL {
        all.push(unary_variant(f, f, *function as u32, 1));
        all.push(unary_in_place_variant(f, *function as u32, 1));
    }
    for function in Binary::ALL {
        all.push(binary_variant(f, f, f, *function as u32, 1));
        all.push(binary_in_place_variant(f, f, *function as u32, 1));
    }
    all
}

fn number(op: &'static str, operands: &[&Tensor], tensor: &Tensor) -> Result<Number> {
    let refuse = || dtype(op, operands, format!("{} is not one of F32, F16, BF16", tensor.dtype()));
    Number::of(tensor.dtype()).ok_or_else(refuse)
}

fn repeated(
    op: &'static str,
    operands: &[&Tensor],
    tensor: &Tensor,
    out: &Tensor,
) -> Result<Tensor> {
    tensor.broadcast_to(out.shape()).map_err(|_: Error| {
        shape(op, operands, format!("{tensor} does not repeat to the output's {:?}", out.shape()))
    })
}

/// `out = f(a)`; `a` repeats to the shape of `out`. `parameters` are the function's x and y.
pub fn unary(
    session: &mut Session<'_>,
    function: Unary,
    parameters: [f32; 2],
    a: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let (op, operands) = (function.name(), [a, out]);
    let types = (number(op, &operands, a)?, number(op, &operands, out)?);
    let a = repeated(op, &operands, a, out)?;
    let codes = Codes { function: function as u32, a: types.0, b: types.0, out: types.1 };
    let walked = Walked { op, label: op, codes: codes.pack(), x: parameters[0], y: parameters[1] };
    walked.record(session, [out, &a], |rank| unary_variant(types.0, types.1, function as u32, rank))
}

/// `out = f(out)`.
pub fn unary_in_place(
    session: &mut Session<'_>,
    function: Unary,
    parameters: [f32; 2],
    out: &Tensor,
) -> Result<()> {
    let op = function.name();
    let own = number(op, &[out], out)?;
    let codes = Codes { function: function as u32, a: own, b: own, out: own };
    let walked = Walked { op, label: op, codes: codes.pack(), x: parameters[0], y: parameters[1] };
    walked.record(session, [out], |rank| unary_in_place_variant(own, function as u32, rank))
}

/// `out = f(a, b)`; `a` and `b` repeat to the shape of `out`.
pub fn binary(
    session: &mut Session<'_>,
    function: Binary,
    a: &Tensor,
    b: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let (op, operands) = (function.name(), [a, b, out]);
    let [ta, tb, tout] =
        [number(op, &operands, a)?, number(op, &operands, b)?, number(op, &operands, out)?];
    let (a, b) = (repeated(op, &operands, a, out)?, repeated(op, &operands, b, out)?);
    let codes = Codes { function: function as u32, a: ta, b: tb, out: tout };
    let walked = Walked { op, label: op, codes: codes.pack(), x: 0.0, y: 0.0 };
    walked
        .record(session, [out, &a, &b], |rank| binary_variant(ta, tb, tout, function as u32, rank))
}

/// `out = f(out, b)`; `b` repeats to the shape of `out`.
pub fn binary_in_place(
    session: &mut Session<'_>,
    function: Binary,
    out: &Tensor,
    b: &Tensor,
) -> Result<()> {
    let (op, operands) = (function.name(), [out, b]);
    let (tout, tb) = (number(op, &operands, out)?, number(op, &operands, b)?);
    let b = repeated(op, &operands, b, out)?;
    let codes = Codes { function: function as u32, a: tout, b: tb, out: tout };
    let walked = Walked { op, label: op, codes: codes.pack(), x: 0.0, y: 0.0 };
    walked
        .record(session, [out, &b], |rank| binary_in_place_variant(tb, tout, function as u32, rank))
}
