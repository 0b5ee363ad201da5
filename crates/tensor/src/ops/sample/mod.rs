//! Choosing a token of each row of logits by a given uniform number: temperature, then the k most
//! likely (top-k), then the fewest of those that together have probability p (top-p, Holtzman et al.
//! 2020), then those at least a share as likely as the most likely (min-p); the order of Hugging Face's
//! logits processors. Settings are operands: a recorded pass serves every request.

mod cases;
mod cpu;
mod node;
mod reference;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session};

pub use node::SampleOp;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, WGSL};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "sample",
    summary: "a token of each row of logits by temperature, top-k, top-p, min-p and a uniform number",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Numbers of a row of settings: temperature, top-k, top-p, min-p.
pub const SETTINGS: usize = 4;

/// Immediates (WGSL: `sample.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: type of x.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    x: Place,
    settings: Place,
    uniform: Place,
    out: Place,
}

const SAMPLE: KernelSource = KernelSource {
    name: "sample",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("../prelude/functions.wgsl"),
        include_str!("../prelude/keys.wgsl"),
        include_str!("sample.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::sample,
};

static TYPES: [[(&str, &str); 1]; 3] = [[("X", WGSL[0])], [("X", WGSL[1])], [("X", WGSL[2])]];

fn variant(x: Number) -> Variant {
    let source = KernelSource { aliases: &TYPES[x as usize], ..SAMPLE };
    Variant { source, overrides: vec![("X_BF16", x.is_bf16())] }
}

fn kernels() -> Vec<Variant> {
    NUMBERS.map(variant).into()
}

const TYPES_TAKEN: &str = "x is F32, F16 or BF16, settings and uniform numbers F32, the output I32";

/// `out[..] =` a place of `x[.., :]`: x `[.., n]`, settings `[.., 4]` (temperature, top-k, top-p, min-p),
/// uniform `[..]` in 0..1, out I32 `[..]`. Settings and uniform numbers repeat to x's rows. The token is
/// the first, by place, up to which the kept ones have more than the uniform number's share of their
/// common probability.
///
/// A temperature of 0 and less takes the most likely, the first of equals. A top-k of 0 and less, a
/// top-p of 1 and more, a min-p of 0 and less keep everything. NaN is never taken; a row of nothing else
/// gives −1.
pub fn sample(
    session: &mut Session<'_>,
    x: &Tensor,
    settings: &Tensor,
    uniform: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let op = "sample";
    let operands = [x, settings, uniform, out];
    let (Some(tx), DType::F32, DType::F32, DType::I32) =
        (Number::of(x.dtype()), settings.dtype(), uniform.dtype(), out.dtype())
    else {
        return Err(dtype(op, &operands, TYPES_TAKEN));
    };
    let Some((&n, outer)) = x.shape().split_last() else {
        return Err(shape(op, &operands, "x has an axis or more"));
    };
    if out.shape() != outer || n == 0 || n > i32::MAX as usize {
        let reason = "the output has x's axes but the last, which has elements";
        return Err(shape(op, &operands, reason));
    }
    let (Ok(settings), Ok(uniform)) =
        (settings.broadcast_to(&[outer, &[SETTINGS]].concat()), uniform.broadcast_to(outer))
    else {
        let reason = "settings [.., 4] and uniform numbers [..] repeat to x's rows";
        return Err(shape(op, &operands, reason));
    };
    let [uniform, out] = [&uniform, out].map(|tensor| tensor.insert_axis(tensor.rank()));
    let kernel = variant(tx).compile(session)?;
    let unit_rows = unit_rows(16 * n);
    for space in spaces(session.device(), op, [x, &settings, &uniform?, &out?], &[3])? {
        let [x, settings, uniform, out] = &space.operands;
        let (from, by, at) = (x.read()?, settings.read()?, uniform.read()?);
        let to = out.write()?;
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            codes: tx as u32,
            unit_rows,
            x: space.place(0, from.start_in(x.dtype().block_bytes())),
            settings: space.place(1, by.start_in(4)),
            uniform: space.place(2, at.start_in(4)),
            out: space.place(3, to.start_in(4)),
        };
        let dispatch = Dispatch::new(&kernel)
            .label(op)
            .bind(from)
            .bind(by)
            .bind(at)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, space.rows().into()))
            .cpu(space.rows().div_ceil(unit_rows), [space.split(3, unit_rows)]);
        session.dispatch(dispatch)?;
    }
    Ok(())
}
