//! Embedding: rows of a table by id, dense or of GGML blocks, times a factor. An id outside the table
//! gives a row of NaN, so that the mistake shows.

mod cases;
mod cpu;
mod kernels;
mod node;

use std::ops::Range;

use tintype_gpu::{DType, Dispatch, Session};

pub use node::EmbeddingOp;

use super::Operation;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::Number;
use crate::quant::TYPES;

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "embedding",
    summary: "rows of a dense or quantized table by id, times a factor",
    cases: cases::cases,
    benches: cases::benches,
    kernels: kernels::kernels,
};

/// Immediates (WGSL: `params.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: types of the table, where it is dense, and out in 2 bits each.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    vocabulary: u32,
    first: u32,
    end: u32,
    start_table: u32,
    stride_table: u32,
    scale: f32,
    ids: Place,
    out: Place,
}

/// Whether rows of this type can be looked up.
fn is_known(table: DType) -> bool {
    Number::of(table).is_some() || TYPES.contains(&table)
}

/// `out[.., :] = table[ids[..], :]·scale`: table `[vocabulary, n]` with dense rows, of numbers or of a
/// type in [`TYPES`]; ids I32 or U32; out with the shape of `ids` and n.
pub fn embedding(
    session: &mut Session<'_>,
    scale: f32,
    table: &Tensor,
    ids: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let op = "embedding";
    let operands = [table, ids, out];
    let (true, Some(tout)) = (is_known(table.dtype()), Number::of(out.dtype())) else {
        return Err(dtype(op, &operands, UNKNOWN));
    };
    if !matches!(ids.dtype(), DType::I32 | DType::U32) {
        return Err(dtype(op, &operands, "ids are I32 or U32"));
    }
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    let &[vocabulary, n] = table.shape() else { return refuse("the table is a matrix") };
    if out.shape() != [ids.shape(), &[n]].concat() || !scale.is_finite() {
        return refuse("the output has the shape of the ids and the length of the table's rows");
    }
    if n > 1 && table.strides()[1] != 1 || vocabulary == 0 {
        return refuse("the table has rows, and they are dense");
    }
    let limit = span_limit(session.device());
    let row_bytes = table.span_bytes().div_ceil(vocabulary as u64).max(1);
    let rows_at_once = (limit / row_bytes).min(vocabulary as u64) as usize;
    if rows_at_once == 0 || vocabulary > i32::MAX as usize {
        return refuse("one row of the table does not fit in a binding");
    }
    for first in (0..vocabulary).step_by(rows_at_once) {
        let part = first..(first + rows_at_once).min(vocabulary);
        if first > 0 {
            // Parts write different rows, which ids tell apart: nobody can know before.
            session.barrier_between(&[], &[out.write()?])?;
        }
        part_of(session, scale, [table, ids, out], part, tout)?;
    }
    Ok(())
}

/// What tables may be.
const UNKNOWN: &str = "the table is F32, F16, BF16 or of a block type that is decoded, the output \
                       F32, F16 or BF16";

/// Writes the rows whose ids lie in `part` of the table.
fn part_of(
    session: &mut Session<'_>,
    scale: f32,
    [table, ids, out]: [&Tensor; 3],
    part: Range<usize>,
    tout: Number,
) -> Result<()> {
    let op = "embedding";
    let (vocabulary, n) = (table.shape()[0], table.shape()[1]);
    let (block, bytes) =
        (table.dtype().block_elements() as usize, table.dtype().block_bytes() as usize);
    let own = table.slice(0, part.clone())?;
    let ids = ids.insert_axis(ids.rank())?;
    for space in spaces(session.device(), op, [&ids, out], &[1])? {
        let [ids, out] = &space.operands;
        let (from, from_ids, to) = (own.read()?, ids.read()?, out.write()?);
        let start_table = from.start_in(if block > 1 { 2 } else { bytes as u64 });
        let halves = !(u64::from(start_table) * 2 + from.len()).is_multiple_of(4);
        let stride = match block {
            1 => table.strides()[0],
            _ => table.strides()[0] / block * bytes / 2,
        };
        let code = Number::of(table.dtype()).map_or(0, |number| number as u32);
        let unit_rows = unit_rows(n);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            codes: code | (tout as u32) << 2,
            unit_rows,
            vocabulary: vocabulary as u32,
            first: part.start as u32,
            end: part.end as u32,
            start_table,
            stride_table: stride as u32,
            scale,
            ids: space.place(0, from_ids.start_in(4)),
            out: space.place(1, to.start_in(out.dtype().block_bytes())),
        };
        let Some(kernel) = kernels::variant(table.dtype(), tout, block > 1 && halves) else {
            return Err(dtype(op, &[table, ids, out], UNKNOWN));
        };
        let dispatch = Dispatch::new(&kernel.compile(session)?)
            .label(op)
            .bind(from)
            .bind(from_ids)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, space.rows().into()))
            .cpu(space.rows().div_ceil(unit_rows), [space.split(1, unit_rows)]);
        session.dispatch(dispatch)?;
    }
    Ok(())
}
