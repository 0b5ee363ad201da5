//! Padding along any of up to four axes: a constant, the values reflected at the border, or the
//! border's own, as PyTorch's `pad` does.

mod cases;
mod cpu;
mod node;
mod reference;

pub use node::PadBy;
use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{Dispatch, Session, Split};

use super::Operation;
use super::case::Variant;
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::{NUMBERS, Number, input_and_out};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "pad",
    summary: "borders: a constant, reflected, or repeated",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// What stands outside of the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pad {
    /// One value.
    Constant(f32),
    /// The values within, mirrored at the border, which is not repeated. At most an extent less one.
    Reflect,
    /// The border's value.
    Replicate,
}

impl Pad {
    fn mode(self) -> u32 {
        match self {
            Pad::Constant(_) => 0,
            Pad::Reflect => 1,
            Pad::Replicate => 2,
        }
    }

    fn value(self) -> f32 {
        match self {
            Pad::Constant(value) => value,
            Pad::Reflect | Pad::Replicate => 0.0,
        }
    }
}

/// Axes that a kernel knows.
const AXES: usize = 4;

/// Immediates (WGSL: `pad.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    extents: [u32; AXES],
    out: [u32; AXES],
    a: [u32; AXES],
    inside: [u32; AXES],
    before: [u32; AXES],
    start_out: u32,
    start_a: u32,
    count: u32,
    /// For the CPU kernel: mode, type of a, type of out, 4 bits each; from bit 16: rows of a unit.
    codes: u32,
    value: f32,
}

const PAD: KernelSource = KernelSource {
    name: "pad",
    wgsl: concat!(include_str!("../prelude/numbers.wgsl"), include_str!("pad.wgsl")),
    entry: "main",
    aliases: &[],
    cpu: cpu::pad,
};

/// Threads of a GPU workgroup (`GROUP` in the WGSL).
const GROUP: u64 = 256;

/// Output elements of a CPU unit.
const UNIT_ELEMENTS: usize = 32 << 10;

static TYPES: [[(&str, &str); 3]; 9] = input_and_out("A");

fn variant(a: Number, out: Number, mode: u32) -> Variant {
    Variant {
        source: KernelSource { aliases: &TYPES[a as usize * 3 + out as usize], ..PAD },
        overrides: vec![
            ("A_BF16", a.is_bf16()),
            ("OUT_BF16", out.is_bf16()),
            ("MODE", f64::from(mode)),
        ],
    }
}

fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    for a in NUMBERS {
        for out in NUMBERS {
            all.extend([0, 1, 2].map(|mode| variant(a, out, mode)));
        }
    }
    all
}

/// `out` is `a` with `padding[axis] = [before, after]` more along each axis; out is contiguous.
pub fn pad(
    session: &mut Session<'_>,
    how: Pad,
    padding: &[[usize; 2]],
    a: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let (op, operands) = ("pad", [a, out]);
    let refuse = |reason: String| Err(shape(op, &operands, reason));
    let (Some(ta), Some(tout)) = (Number::of(a.dtype()), Number::of(out.dtype())) else {
        return Err(dtype(op, &operands, "types are F32, F16 and BF16"));
    };
    let rank = a.rank();
    if rank != out.rank() || rank != padding.len() || rank > AXES {
        return refuse(format!(
            "a, out and the padding ({} pairs) have the same number of axes, at most {AXES}",
            padding.len()
        ));
    }
    for (axis, [before, after]) in padding.iter().enumerate() {
        let inside = a.shape()[axis];
        let padded = inside.checked_add(*before).and_then(|sum| sum.checked_add(*after));
        if padded != Some(out.shape()[axis]) {
            return refuse(format!(
                "axis {axis} with {before} and {after} more is {padded:?} long"
            ));
        }
        let farthest = *before.max(after);
        if how == Pad::Reflect && farthest > 0 && farthest >= inside {
            return refuse(format!("axis {axis} is too short to reflect {farthest}"));
        }
        if inside == 0 && farthest > 0 && !matches!(how, Pad::Constant(_)) {
            return refuse(format!("axis {axis} has no border"));
        }
    }
    if !out.is_contiguous() {
        return refuse("the output must be contiguous".into());
    }
    if out.elements() == 0 {
        return Ok(());
    }
    if a.elements() == 0 {
        return super::fill::fill(session, how.value().into(), out);
    }
    let limit = span_limit(session.device());
    if a.span_bytes() > limit || out.span_bytes() > limit {
        return refuse("a tensor does not fit in a binding; cut it along the first axis".into());
    }
    let (from, to) = (a.read()?, out.write()?);
    let size = |tensor: &Tensor| tensor.dtype().block_bytes();
    // Unused axes stand in front.
    let axes = |filler: u32, of: &dyn Fn(usize) -> usize| {
        let mut all = [filler; AXES];
        (0..rank).for_each(|axis| all[AXES - rank + axis] = of(axis) as u32);
        all
    };
    let width = out.shape().last().copied().unwrap_or(1);
    let rows = (UNIT_ELEMENTS / width).clamp(1, 0xffff);
    let params = Params {
        extents: axes(1, &|axis| out.shape()[axis]),
        out: axes(0, &|axis| out.strides()[axis]),
        a: axes(0, &|axis| a.strides()[axis]),
        inside: axes(1, &|axis| a.shape()[axis]),
        before: axes(0, &|axis| padding[axis][0]),
        start_out: to.start_in(size(out)),
        start_a: from.start_in(size(a)),
        count: out.elements() as u32,
        codes: how.mode() | (ta as u32) << 4 | (tout as u32) << 8 | (rows as u32) << 16,
        value: how.value(),
    };
    let unit_bytes = (rows * width) as u64 * size(out);
    let units = to.len().div_ceil(unit_bytes) as u32;
    let count = u64::from(params.count).div_ceil(GROUP);
    let dispatch = Dispatch::new(&variant(ta, tout, how.mode()).compile(session)?)
        .label(op)
        .bind(from)
        .bind(to)
        .immediates(&params)
        .groups(groups(session, count))
        .cpu(units, [Split::Chunks(unit_bytes)]);
    session.dispatch(dispatch)?;
    Ok(())
}
