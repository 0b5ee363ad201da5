//! The place of the largest number of each row: greedy choice. The first of equals; NaN is never the
//! largest, and a row of nothing else gives −1.

mod cases;
mod cpu;
mod node;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session};

pub use node::ArgmaxOp;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, WGSL};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "argmax",
    summary: "place of the largest number of each row, the first of equals",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Immediates (WGSL: `argmax.wgsl`).
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
    out: Place,
}

const ARGMAX: KernelSource = KernelSource {
    name: "argmax",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("argmax.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::argmax,
};

static TYPES: [[(&str, &str); 1]; 3] = [[("X", WGSL[0])], [("X", WGSL[1])], [("X", WGSL[2])]];

fn variant(x: Number) -> Variant {
    let source = KernelSource { aliases: &TYPES[x as usize], ..ARGMAX };
    Variant { source, overrides: vec![("X_BF16", x.is_bf16())] }
}

fn kernels() -> Vec<Variant> {
    NUMBERS.map(variant).into()
}

const TYPES_TAKEN: &str = "x is F32, F16 or BF16, the output I32";

/// `out[..] = argmax of x[.., :]`: x `[.., n]`, out I32 with x's axes but the last.
pub fn argmax(session: &mut Session<'_>, x: &Tensor, out: &Tensor) -> Result<()> {
    let op = "argmax";
    let operands = [x, out];
    let (Some(tx), DType::I32) = (Number::of(x.dtype()), out.dtype()) else {
        return Err(dtype(op, &operands, TYPES_TAKEN));
    };
    let Some((&n, outer)) = x.shape().split_last() else {
        return Err(shape(op, &operands, "x has an axis or more"));
    };
    if out.shape() != outer || n == 0 || n > i32::MAX as usize {
        let reason = "the output has x's axes but the last, which has elements";
        return Err(shape(op, &operands, reason));
    }
    let out = out.insert_axis(out.rank())?;
    let kernel = variant(tx).compile(session)?;
    let unit_rows = unit_rows(4 * n);
    for space in spaces(session.device(), op, [x, &out], &[1])? {
        let [x, out] = &space.operands;
        let (from, to) = (x.read()?, out.write()?);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            codes: tx as u32,
            unit_rows,
            x: space.place(0, from.start_in(x.dtype().block_bytes())),
            out: space.place(1, to.start_in(4)),
        };
        let dispatch = Dispatch::new(&kernel)
            .label(op)
            .bind(from)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, space.rows().into()))
            .cpu(space.rows().div_ceil(unit_rows), [space.split(1, unit_rows)]);
        session.dispatch(dispatch)?;
    }
    Ok(())
}
