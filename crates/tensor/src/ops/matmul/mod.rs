//! Dense products: `out[.., m, n] = Σ a[.., m, k]·b[.., k, n]`, sums in f32, any mix of F32, F16 and
//! BF16. Weights `[n, k]` are given transposed (or through [`linear`]). Few rows against weights
//! take the mat-vec kernels, whose sums do not depend on the number of rows; F16 operands take
//! cooperative matrices where the device has them; everything else goes in tiles. Which of them is
//! decided by the rows of one member of a batch, so that a batch changes no bit.

mod cases;
mod choose;
mod cpu;
mod kernels;
pub mod node;
mod reference;

use tintype_gpu::{Dispatch, Session, Split};

use super::Operation;
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::Number;
use choose::Choice;

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "matmul",
    summary: "dense matrix products, batched, and matrix times few vectors",
    cases: cases::cases,
    benches: cases::benches,
    kernels: kernels::kernels,
};

/// Immediates of every kernel here (WGSL: `params.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    a_batch: u32,
    a_m: u32,
    a_k: u32,
    b_batch: u32,
    b_k: u32,
    b_n: u32,
    out_batch: u32,
    out_m: u32,
    start_a: u32,
    start_b: u32,
    start_out: u32,
    /// For the CPU kernel: types of a, b and out, 8 bits each; bit 24: row by row; bit 25: units own whole rows, with
    /// gaps.
    codes: u32,
    /// For the CPU kernel: outputs of a unit.
    tile_m: u32,
    tile_n: u32,
}

/// `out = x·wᵀ`: x `[.., m, k]`, weights `[n, k]`, out `[.., m, n]`.
pub fn linear(session: &mut Session<'_>, x: &Tensor, weights: &Tensor, out: &Tensor) -> Result<()> {
    matmul(session, x, &weights.transpose()?, out)
}

/// `out[.., m, n] = Σ a[.., m, k]·b[.., k, n]`; leading axes of `a` and `b` repeat to those of `out`.
/// Leading axes are the batch: each of its members gets the bits that it gets alone.
pub fn matmul(session: &mut Session<'_>, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<()> {
    let operands = [a, b, out];
    let refuse = |reason: String| Err(shape("matmul", &operands, reason));
    if operands.iter().any(|tensor| tensor.rank() < 2) {
        return refuse("operands have at least two axes".into());
    }
    if operands.iter().any(|tensor| Number::of(tensor.dtype()).is_none()) {
        return Err(dtype("matmul", &operands, "types are F32, F16 and BF16"));
    }
    let last = |tensor: &Tensor| {
        let rank = tensor.rank();
        [tensor.shape()[rank - 2], tensor.shape()[rank - 1]]
    };
    let ([m, k], [kb, n]) = (last(a), last(b));
    if k != kb || last(out) != [m, n] {
        return refuse(format!("a [.., {m}, {k}] takes b [.., {k}, n] and gives out [.., {m}, n]"));
    }
    let lead = out.shape()[..out.rank() - 2].to_vec();
    let repeat = |tensor: &Tensor| {
        let mut shape = lead.clone();
        shape.extend(last(tensor));
        tensor.broadcast_to(&shape)
    };
    let (Ok(a), Ok(b)) = (repeat(a), repeat(b)) else {
        return refuse(format!("leading axes do not repeat to {lead:?}"));
    };
    let out_rank = out.rank();
    if n > 1 && out.strides()[out_rank - 1] != 1 || m > 1 && out.strides()[out_rank - 2] < n {
        return refuse("rows of the output must be contiguous and apart".into());
    }
    if out.elements() == 0 {
        return Ok(());
    }
    if k == 0 {
        return super::fill::fill(session, 0.0, out);
    }
    // Decided by a member's rows, before batches are joined or anything is cut.
    let few = m <= FEW_ROWS;
    // All rows meet the same columns: one product.
    let shared =
        b.shape().iter().zip(b.strides()).take(lead.len()).all(|(n, s)| *n == 1 || *s == 0);
    let rows = lead.iter().product::<usize>() * m;
    if shared && let (Ok(a), Ok(out)) = (a.reshape(&[1, rows, k]), out.reshape(&[1, rows, n])) {
        let strides = [&[0], &b.strides()[lead.len()..]].concat();
        let b = Tensor::strided(b.buffer(), &[1, k, n], &strides, b.start())?;
        return fitting(session, few, &a, &b, &out);
    }
    batched(session, few, &a, &b, out)
}

/// Rows of a member of a batch up to this many go through the mat-vec kernels, where weights run along k.
const FEW_ROWS: usize = 16;

/// Leading axes one after another until one or none is left.
fn batched(
    session: &mut Session<'_>,
    few: bool,
    a: &Tensor,
    b: &Tensor,
    out: &Tensor,
) -> Result<()> {
    if out.rank() > 3 {
        for at in 0..out.shape()[0] {
            let [a, b, out] = [first_axis(a, at)?, first_axis(b, at)?, first_axis(out, at)?];
            batched(session, few, &a, &b, &out)?;
        }
        return Ok(());
    }
    let with_batch = |tensor: &Tensor| match tensor.rank() {
        2 => tensor.insert_axis(0),
        _ => Ok(tensor.clone()),
    };
    fitting(session, few, &with_batch(a)?, &with_batch(b)?, &with_batch(out)?)
}

/// Position `at` of the first axis, without that axis.
fn first_axis(tensor: &Tensor, at: usize) -> Result<Tensor> {
    let slice = tensor.slice(0, at..at + 1)?;
    Tensor::strided(slice.buffer(), &slice.shape()[1..], &slice.strides()[1..], slice.start())
}

/// Cuts batches, then columns, then rows, until every span fits in a binding.
fn fitting(
    session: &mut Session<'_>,
    few: bool,
    a: &Tensor,
    b: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let limit = span_limit(session.device());
    let fits = |tensor: &Tensor| tensor.span_bytes() <= limit;
    let [batch, m, n] = [out.shape()[0], out.shape()[1], out.shape()[2]];
    if fits(a)
        && fits(b)
        && fits(out)
        && batch <= 65_535
        && let Some(all) = choose::rows(session.device(), few, a, b, out)
    {
        return all.into_iter().try_for_each(|(rows, choice)| {
            let [a, out] = [a.slice(1, rows.clone())?, out.slice(1, rows)?];
            record(session, choice, few, &a, b, &out)
        });
    }
    if batch > 1 {
        for range in [0..batch / 2, batch / 2..batch] {
            let [a, b, out] = [a, b, out].map(|tensor| tensor.slice(0, range.clone()));
            fitting(session, few, &a?, &b?, &out?)?;
        }
        return Ok(());
    }
    // Halves of columns interleave in the output's rows, so rows go first where there are several.
    if m > 1 {
        for range in [0..m / 2, m / 2..m] {
            let [a, out] = [a, out].map(|tensor| tensor.slice(1, range.clone()));
            fitting(session, few, &a?, b, &out?)?;
        }
        return Ok(());
    }
    if n > 1 {
        for range in [0..n / 2, n / 2..n] {
            let [b, out] = [b, out].map(|tensor| tensor.slice(2, range.clone()));
            fitting(session, few, a, &b?, &out?)?;
        }
        return Ok(());
    }
    Err(shape("matmul", &[a, b, out], "one row does not fit in a binding"))
}

/// One dispatch (on the CPU one a batch, where its units cannot share them out).
fn record(
    session: &mut Session<'_>,
    choice: Choice,
    few: bool,
    a: &Tensor,
    b: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let [batch, m, n] = [out.shape()[0], out.shape()[1], out.shape()[2]];
    let k = a.shape()[2];
    let types = [a, b, out].map(|tensor| Number::of(tensor.dtype()).unwrap_or(Number::F32));
    let along_k = k == 1 || a.strides()[2] == 1 && b.strides()[1] == 1;
    let by_rows = along_k && cpu::by_rows([types[0], types[1]], few, k);
    let (tile_m, tile_n) = cpu::tile(batch, m, n, k, by_rows);
    let dense = out.is_contiguous();
    let cpu = session.device().info().limits.threads > 0;
    if cpu && batch > 1 && !(dense && m.is_multiple_of(tile_m)) {
        for at in 0..batch {
            let [a, b, out] = [a, b, out].map(|tensor| tensor.slice(0, at..at + 1));
            record(session, choice, few, &a?, &b?, &out?)?;
        }
        return Ok(());
    }
    let size = |tensor: &Tensor| tensor.dtype().block_bytes();
    let (from_a, from_b, to) = (a.read()?, b.read()?, out.write()?);
    let stride = |tensor: &Tensor, axis: usize| tensor.strides()[axis] as u32;
    let mut codes = types[0] as u32 | (types[1] as u32) << 8 | (types[2] as u32) << 16;
    codes |= u32::from(by_rows) << 24 | u32::from(!dense) << 25;
    let row = if m == 1 { n as u32 } else { stride(out, 1) };
    let tile_n = if dense { tile_n } else { n };
    let params = Params {
        m: m as u32,
        n: n as u32,
        k: k as u32,
        batch: batch as u32,
        a_batch: stride(a, 0),
        a_m: stride(a, 1),
        a_k: stride(a, 2),
        b_batch: stride(b, 0),
        b_k: stride(b, 1),
        b_n: stride(b, 2),
        out_batch: stride(out, 0),
        out_m: row,
        start_a: from_a.start_in(size(a)),
        start_b: from_b.start_in(size(b)),
        start_out: to.start_in(size(out)),
        codes,
        tile_m: tile_m as u32,
        tile_n: tile_n as u32,
    };
    let columns = n.div_ceil(tile_n) as u32;
    let split = match dense {
        true => Split::Tiles {
            row_bytes: n as u64 * size(out),
            tile_rows: tile_m as u64,
            tile_bytes: tile_n as u64 * size(out),
            columns,
        },
        false => Split::Chunks(u64::from(row) * tile_m as u64 * size(out)),
    };
    let units = columns * (batch * m).div_ceil(tile_m) as u32;
    let (variant, tiles) = choice.kernel(types, &params, session.device());
    let [x, y] = match choice {
        Choice::Matvec { .. } => {
            let [x, y, _] = groups(session, u64::from(tiles[0]));
            [x, y]
        }
        _ => tiles,
    };
    let dispatch = Dispatch::new(&variant.compile(session)?)
        .label("matmul")
        .bind(from_a)
        .bind(from_b)
        .bind(to)
        .immediates(&params)
        .groups([x, y, batch as u32])
        .cpu(units, [split]);
    session.dispatch(dispatch)?;
    Ok(())
}
