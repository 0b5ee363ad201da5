//! Products with quantized weights: `out = x·wᵀ`, weights as GGML blocks of eleven types, decoded into
//! f32 and rounded once; activations are not rounded. Exact to f32 rounding. A row of x is summed in
//! an order of its own: on the CPU whatever the number of rows, on GPUs within up to 16 rows of a
//! member of a batch and beyond them (the two kernels differ).

mod cases;
mod cpu;
mod kernels;
mod reference;

use tintype_gpu::{DeviceKind, Dispatch, Session, Split};

use super::Operation;
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::Number;
use crate::quant::TYPES;
use kernels::{COUNTS, Form, GROUP, TILE, variant};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "quant_matmul",
    summary: "quantized matrix times vectors, few or many",
    cases: cases::cases,
    benches: cases::benches,
    kernels: kernels::kernels,
};

/// Immediates (WGSL: `params.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    rows: u32,
    blocks: u32,
    vectors: u32,
    start_w: u32,
    start_x: u32,
    start_out: u32,
    stride_x: u32,
    stride_out: u32,
    /// For the CPU kernel: types of x and out, 4 bits each.
    codes: u32,
    /// For the CPU kernel: rows and vectors of a unit.
    tile_rows: u32,
    tile_vectors: u32,
}

/// Vectors of a member of a batch up to which a GPU takes the kernel for few.
const FEW: usize = 16;

/// Threads for a row: as many as have a slice, fewer where there are rows enough to fill a GPU; one
/// for many rows on a software device, where a barrier costs more than what it shares out. It may not
/// depend on the number of vectors: the order of a sum depends on it.
fn threads_per_row(kind: DeviceKind, k: u32, rows: usize) -> u32 {
    let most = match kind {
        DeviceKind::Software if rows >= 65_536 => 1,
        _ if rows >= 8192 => 32,
        _ => 64,
    };
    (k / 16).clamp(1, most).next_power_of_two().min(most)
}

/// `out[.., row] = Σ weights[row, i]·x[.., i]`: weights `[rows, k]` of a type in [`TYPES`], x `[k]` or
/// `[.., m, k]` and out `[rows]` or `[.., m, rows]` in F32, F16 or BF16, rows contiguous. Leading axes
/// are a batch: each of its members gets the bits that it gets alone.
pub fn quant_matmul(
    session: &mut Session<'_>,
    weights: &Tensor,
    x: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let operands = [weights, x, out];
    let op = "quant_matmul";
    if !TYPES.contains(&weights.dtype()) {
        let known: Vec<_> = TYPES.iter().map(|dtype| dtype.name()).collect();
        return Err(dtype(op, &operands, format!("weights are {}", known.join(", "))));
    }
    let (Some(tx), Some(tout)) = (Number::of(x.dtype()), Number::of(out.dtype())) else {
        return Err(dtype(op, &operands, "x and out are F32, F16 or BF16"));
    };
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    if weights.rank() != 2 || !weights.is_contiguous() {
        return refuse("weights must be a contiguous matrix");
    }
    let (rows, k) = (weights.shape()[0], weights.shape()[1]);
    let Some((lead, &[own])) = x.shape().split_last_chunk() else {
        return refuse("x and out have an axis or more");
    };
    if own != k || out.shape() != [lead, &[rows]].concat() {
        return refuse("weights [rows, k] take x [.., k] and give out [.., rows]");
    }
    // Decided by a member's vectors, before batches are joined.
    let few = lead.last().is_none_or(|&m| m <= FEW);
    let m: usize = lead.iter().product();
    let (x, out) = match lead {
        [] => (x.insert_axis(0)?, out.insert_axis(0)?),
        [_] => (x.clone(), out.clone()),
        _ => (x.reshape(&[m, k])?, out.reshape(&[m, rows])?),
    };
    let dense = |tensor: &Tensor| tensor.strides()[1] == 1 || tensor.shape()[1] == 1;
    if !dense(&x) || !dense(&out) || (m > 1 && out.strides()[0] < rows) {
        return refuse("rows of x and out must be contiguous and apart");
    }
    if rows == 0 || m == 0 {
        return Ok(());
    }
    if k == 0 {
        return super::fill::fill(session, 0.0, &out);
    }
    let limit = span_limit(session.device());
    let row_bytes = weights.span_bytes() / rows as u64;
    let rows_at_once = (limit / row_bytes).min(rows as u64) as usize;
    if rows_at_once == 0 {
        return refuse("one row of weights does not fit in a binding");
    }
    let cpu = session.device().info().limits.threads > 0;
    // Parts of several output rows at once would interleave: where the weights are cut, or the
    // output has gaps that CPU units cannot share out, each vector goes alone. Its bits are the same.
    let together = rows_at_once == rows && (out.is_contiguous() || !cpu);
    let widest = x.span_bytes().max(out.span_bytes()).div_ceil(m as u64);
    let most = ((limit / widest.max(1)) as usize).clamp(1, 65_535 * TILE[1] as usize);
    let mut vector = 0;
    while vector < m {
        let left = m - vector;
        let (count, form) = match together {
            true if cpu => (left, Form::Many),
            true if !few => (left.min(most), Form::Many),
            _ => {
                let fitting = COUNTS.into_iter().find(|&count| together && count <= left);
                let many = fitting.unwrap_or(1);
                let kind = session.device().info().kind;
                (many, Form::Few { many, threads: threads_per_row(kind, k as u32, rows) })
            }
        };
        for first in (0..rows).step_by(rows_at_once) {
            let last = (first + rows_at_once).min(rows);
            record(
                session,
                form,
                [tx, tout],
                &weights.slice(0, first..last)?,
                &x.slice(0, vector..vector + count)?,
                &out.slice(0, vector..vector + count)?.slice(1, first..last)?,
            )?;
        }
        vector += count;
    }
    Ok(())
}

/// One dispatch.
fn record(
    session: &mut Session<'_>,
    form: Form,
    types: [Number; 2],
    weights: &Tensor,
    x: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let operands = [weights, x, out];
    let (rows, k, m) = (weights.shape()[0], weights.shape()[1], x.shape()[0]);
    let (w, x_span, out_span) = (weights.read()?, x.read()?, out.write()?);
    let row_bytes = w.len() / rows as u64;
    let start_w = w.start_in(2);
    // A binding that ends inside a word: what is read of that word is up to the driver.
    let halves = !(u64::from(start_w) * 2 + w.len()).is_multiple_of(4);
    let Some(variant) = variant(weights.dtype(), form, types, halves) else {
        return Err(dtype("quant_matmul", &operands, "the type is not decoded"));
    };
    let kernel = variant.compile(session)?;
    let size = |tensor: &Tensor| tensor.dtype().block_bytes();
    let [tile_rows, tile_vectors] = cpu::tile(rows, m, k, row_bytes as usize);
    let params = Params {
        rows: rows as u32,
        blocks: (k as u64 / weights.dtype().block_elements()) as u32,
        vectors: m as u32,
        start_w,
        start_x: x_span.start_in(size(x)),
        start_out: out_span.start_in(size(out)),
        stride_x: x.strides()[0] as u32,
        stride_out: out.strides()[0] as u32,
        codes: types[0] as u32 | (types[1] as u32) << 4,
        tile_rows: tile_rows as u32,
        tile_vectors: tile_vectors as u32,
    };
    let columns = rows.div_ceil(tile_rows) as u32;
    let tile = Split::Tiles {
        row_bytes: rows as u64 * size(out),
        tile_rows: tile_vectors as u64,
        tile_bytes: tile_rows as u64 * size(out),
        columns,
    };
    let units = columns * m.div_ceil(tile_vectors) as u32;
    let groups = match form {
        Form::Few { threads, .. } => {
            groups(session, (rows as u64).div_ceil(u64::from(GROUP / threads)))
        }
        Form::Many => [params.rows.div_ceil(TILE[0]), params.vectors.div_ceil(TILE[1]), 1],
    };
    let dispatch = Dispatch::new(&kernel)
        .label("quant_matmul")
        .bind(w)
        .bind(x_span)
        .bind(out_span)
        .immediates(&params)
        .groups(groups)
        .cpu(units, [tile]);
    session.dispatch(dispatch)?;
    Ok(())
}
