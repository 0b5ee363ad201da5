//! Places of the `k` first numbers of each row in order: the largest first, or the smallest. Equals go
//! by place, −0 equals 0, NaN goes last either way. With `k` of a whole row it is argsort.

mod cases;
mod cpu;
mod node;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session};

pub use node::TopK;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, WGSL};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "top_k",
    summary: "places of each row's largest or smallest numbers in order (argsort, if all of them)",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Most places asked of a row: they are sorted in a workgroup's memory.
pub const MAX_PLACES: usize = 1024;

/// Immediates (WGSL: `top_k.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    k: u32,
    /// 1: the smallest first.
    ascending: u32,
    /// For the CPU kernel: type of x.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    x: Place,
    out: Place,
}

const TOP_K: KernelSource = KernelSource {
    name: "top_k",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("../prelude/keys.wgsl"),
        include_str!("top_k.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::top_k,
};

static TYPES: [[(&str, &str); 1]; 3] = [[("X", WGSL[0])], [("X", WGSL[1])], [("X", WGSL[2])]];

fn variant(x: Number) -> Variant {
    let source = KernelSource { aliases: &TYPES[x as usize], ..TOP_K };
    Variant { source, overrides: vec![("X_BF16", x.is_bf16())] }
}

fn kernels() -> Vec<Variant> {
    NUMBERS.map(variant).into()
}

const TYPES_TAKEN: &str = "x is F32, F16 or BF16, the output I32";

/// `out[.., i] =` the place of the `i`-th largest of `x[.., :]`, or smallest where `ascending`: x
/// `[.., n]`, out I32 `[.., k]` of x's outer axes, `k` at most `n` and [`MAX_PLACES`].
pub fn top_k(session: &mut Session<'_>, ascending: bool, x: &Tensor, out: &Tensor) -> Result<()> {
    let op = "top_k";
    let operands = [x, out];
    let (Some(tx), DType::I32) = (Number::of(x.dtype()), out.dtype()) else {
        return Err(dtype(op, &operands, TYPES_TAKEN));
    };
    let (Some((&n, outer)), Some((&k, own))) = (x.shape().split_last(), out.shape().split_last())
    else {
        return Err(shape(op, &operands, "x and the output have an axis or more"));
    };
    if own != outer || k > n || k > MAX_PLACES || n > i32::MAX as usize {
        let reason = format!("the output is [.., k] of x [.., n], k at most n and {MAX_PLACES}");
        return Err(shape(op, &operands, reason));
    }
    let kernel = variant(tx).compile(session)?;
    let unit_rows = unit_rows(16 * n);
    for space in spaces(session.device(), op, [x, out], &[1])? {
        let [x, out] = &space.operands;
        let (from, to) = (x.read()?, out.write()?);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            k: k as u32,
            ascending: ascending.into(),
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
