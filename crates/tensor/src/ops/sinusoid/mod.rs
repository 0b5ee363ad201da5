//! Sinusoids of timesteps or positions (Vaswani et al. 2017; diffusers' `get_timestep_embedding`): sines
//! and cosines of x·frequency. Frequencies are an operand, so that their base and shift are the table's
//! business: see [`frequencies`].

mod cases;
mod cpu;
mod node;
mod reference;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session};

pub use node::SinusoidOp;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, OUT};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "sinusoid",
    summary: "sines and cosines of timesteps times frequencies",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// `most^(-i / (count - shift))` for `i` in `0..count`: the frequencies of a timestep embedding of
/// `2·count` numbers. `most` is 10 000 as a rule; the shift (diffusers' `downscale_freq_shift`) 0 or 1.
pub fn frequencies(count: usize, most: f64, shift: f64) -> Vec<f32> {
    let exponent = |i: usize| -(i as f64) / (count as f64 - shift).max(1.0);
    (0..count).map(|i| most.powf(exponent(i)) as f32).collect()
}

/// Immediates (WGSL: `sinusoid.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    /// Frequencies: half of a row.
    half: u32,
    /// 1: cosines come first.
    cosines_first: u32,
    /// For the CPU kernel: type of out.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    start_frequencies: u32,
    x: Place,
    out: Place,
}

const SINUSOID: KernelSource = KernelSource {
    name: "sinusoid",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("../prelude/turn.wgsl"),
        include_str!("sinusoid.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::sinusoid,
};

fn variant(out: Number) -> Variant {
    let source = KernelSource { aliases: &OUT[out as usize], ..SINUSOID };
    Variant { source, overrides: vec![("OUT_BF16", out.is_bf16())] }
}

fn kernels() -> Vec<Variant> {
    NUMBERS.map(variant).into()
}

const TYPES_TAKEN: &str = "x and frequencies are F32, the output F32, F16 or BF16";

/// `out[.., :] = sin(x[..]·frequencies), cos(x[..]·frequencies)`, cosines first where asked: x F32 of any
/// shape, frequencies F32 `[half]`, contiguous, out `[.., 2·half]`.
pub fn sinusoid(
    session: &mut Session<'_>,
    cosines_first: bool,
    x: &Tensor,
    frequencies: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let op = "sinusoid";
    let operands = [x, frequencies, out];
    let (Some(tout), DType::F32, DType::F32) =
        (Number::of(out.dtype()), x.dtype(), frequencies.dtype())
    else {
        return Err(dtype(op, &operands, TYPES_TAKEN));
    };
    let &[half] = frequencies.shape() else {
        return Err(shape(op, &operands, "frequencies have one axis"));
    };
    if out.shape() != [x.shape(), &[2 * half]].concat() || !frequencies.is_contiguous() {
        let reason = "the output is [.., 2·half] of x [..] and frequencies [half], contiguous";
        return Err(shape(op, &operands, reason));
    }
    let x = x.insert_axis(x.rank())?;
    let kernel = variant(tout).compile(session)?;
    let unit_rows = unit_rows(16 * half);
    for space in spaces(session.device(), op, [&x, out], &[1])? {
        let [x, out] = &space.operands;
        let (from, by, to) = (x.read()?, frequencies.read()?, out.write()?);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            half: half as u32,
            cosines_first: cosines_first.into(),
            codes: tout as u32,
            unit_rows,
            start_frequencies: by.start_in(4),
            x: space.place(0, from.start_in(4)),
            out: space.place(1, to.start_in(out.dtype().block_bytes())),
        };
        let dispatch = Dispatch::new(&kernel)
            .label(op)
            .bind(from)
            .bind(by)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, space.rows().into()))
            .cpu(space.rows().div_ceil(unit_rows), [space.split(1, unit_rows)]);
        session.dispatch(dispatch)?;
    }
    Ok(())
}
