//! Gathering along an axis: rows by number, or elements by number in each row. Ids repeat along axes
//! of extent 1. An id outside gives NaN, or −1 (all bits set) of integers, so that the mistake shows.

mod cases;
mod cpu;
mod node;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session};

pub use node::GatherOp;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::error::{Result, dtype, shape};
use crate::{MAX_RANK, Tensor};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "gather",
    summary: "positions along an axis by id, ids repeating along the others",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Immediates (WGSL: `gather.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: bytes of an element.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    extent: u32,
    axis_stride: u32,
    missing: u32,
    x: Place,
    ids: Place,
    out: Place,
}

const GATHER: KernelSource = KernelSource {
    name: "gather",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("gather.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::gather,
};

fn variant(bytes: u64) -> Variant {
    let aliases: &'static [(&str, &str)] =
        if bytes == 4 { &[("X", "u32")] } else { &[("X", "u16")] };
    Variant { source: KernelSource { aliases, ..GATHER }, overrides: Vec::new() }
}

fn kernels() -> Vec<Variant> {
    [4, 2].map(variant).into()
}

/// What an id outside gives, as bits; `None` for types that are not gathered.
fn missing(dtype: DType) -> Option<u32> {
    Some(match dtype {
        DType::F32 => f32::NAN.to_bits(),
        DType::F16 => half::f16::NAN.to_bits().into(),
        DType::Bf16 => half::bf16::NAN.to_bits().into(),
        DType::I32 | DType::U32 => u32::MAX,
        _ => return None,
    })
}

const TYPES_TAKEN: &str =
    "x and out are of one type, F32, F16, BF16, I32 or U32; ids are I32 or U32";

/// `out[.., i, ..] = x[.., ids[.., i, ..], ..]` along `axis`: out has x's shape but for the axis; ids
/// repeat to out's shape. As NumPy's `take_along_axis`.
pub fn gather(
    session: &mut Session<'_>,
    axis: usize,
    x: &Tensor,
    ids: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let op = "gather";
    let operands = [x, ids, out];
    let of_ids = matches!(ids.dtype(), DType::I32 | DType::U32);
    let Some(missing) = missing(x.dtype()).filter(|_| of_ids && x.dtype() == out.dtype()) else {
        return Err(dtype(op, &operands, TYPES_TAKEN));
    };
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    let rank = x.rank();
    if axis >= rank || rank >= MAX_RANK || out.rank() != rank {
        return refuse("x and out have the same axes, at most five, and the gathered one");
    }
    if (0..rank).any(|at| at != axis && x.shape()[at] != out.shape()[at]) {
        return refuse("the output has x's extents but for the gathered axis");
    }
    let Ok(ids) = ids.broadcast_to(out.shape()) else {
        return refuse("ids repeat to the shape of the output");
    };
    let (extent, axis_stride) = (x.shape()[axis], x.strides()[axis]);
    if out.elements() == 0 {
        return Ok(());
    }
    if extent == 0 || extent > i32::MAX as usize {
        return refuse("the gathered axis has positions, and less than 2^31");
    }
    // Position 0 of the axis for every element of the output.
    let mut strides = x.strides().to_vec();
    strides[axis] = 0;
    let first = Tensor::strided(x.buffer(), out.shape(), &strides, x.start())?;
    let size = x.dtype().block_bytes();
    let kernel = variant(size).compile(session)?;
    let n = out.shape()[rank - 1];
    let unit_rows = unit_rows(4 * n);
    for space in spaces(session.device(), op, [&first, &ids, out], &[2])? {
        let [first, ids, out] = &space.operands;
        // All positions: the span of the first, prolonged.
        let all = Tensor::strided(
            first.buffer(),
            &[&[extent], first.shape()].concat(),
            &[&[axis_stride], first.strides()].concat(),
            first.start(),
        )?;
        let (from, from_ids, to) = (all.read()?, ids.read()?, out.write()?);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            codes: size as u32,
            unit_rows,
            extent: extent as u32,
            axis_stride: axis_stride as u32,
            missing,
            x: space.place(0, from.start_in(size)),
            ids: space.place(1, from_ids.start_in(4)),
            out: space.place(2, to.start_in(size)),
        };
        let dispatch = Dispatch::new(&kernel)
            .label(op)
            .bind(from)
            .bind(from_ids)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, space.rows().into()))
            .cpu(space.rows().div_ceil(unit_rows), [space.split(2, unit_rows)]);
        session.dispatch(dispatch)?;
    }
    Ok(())
}
