//! Running sums of rows: out[i] = x[0] + … + x[i]. A row's sums have one order, whatever other rows
//! there are.

mod cases;
mod cpu;
mod node;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{Dispatch, Session};

pub use node::CumsumOp;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, input_and_out};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "cumsum",
    summary: "running sums along the last axis",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Immediates (WGSL: `cumsum.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: types of x and out in 2 bits each.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    x: Place,
    out: Place,
}

const CUMSUM: KernelSource = KernelSource {
    name: "cumsum",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("cumsum.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::cumsum,
};

static TYPES: [[(&str, &str); 3]; 9] = input_and_out("X");

fn variant(x: Number, out: Number) -> Variant {
    let source = KernelSource { aliases: &TYPES[x as usize * 3 + out as usize], ..CUMSUM };
    let overrides = vec![("X_BF16", x.is_bf16()), ("OUT_BF16", out.is_bf16())];
    Variant { source, overrides }
}

fn kernels() -> Vec<Variant> {
    NUMBERS.into_iter().flat_map(|x| NUMBERS.map(|out| variant(x, out))).collect()
}

/// `out[.., i] = x[.., 0] + … + x[.., i]`: x and out of one shape, F32, F16 or BF16.
pub fn cumsum(session: &mut Session<'_>, x: &Tensor, out: &Tensor) -> Result<()> {
    let op = "cumsum";
    let operands = [x, out];
    let (Some(tx), Some(tout)) = (Number::of(x.dtype()), Number::of(out.dtype())) else {
        return Err(dtype(op, &operands, "x and out are F32, F16 or BF16"));
    };
    if x.rank() == 0 || out.shape() != x.shape() {
        return Err(shape(op, &operands, "x and out have one shape, of an axis or more"));
    }
    let n = x.shape()[x.rank() - 1];
    let kernel = variant(tx, tout).compile(session)?;
    let unit_rows = unit_rows(4 * n);
    for space in spaces(session.device(), op, [x, out], &[1])? {
        let [x, out] = &space.operands;
        let (from, to) = (x.read()?, out.write()?);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            codes: tx as u32 | (tout as u32) << 2,
            unit_rows,
            x: space.place(0, from.start_in(x.dtype().block_bytes())),
            out: space.place(1, to.start_in(out.dtype().block_bytes())),
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
