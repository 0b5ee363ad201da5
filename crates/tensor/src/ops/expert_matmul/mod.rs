//! Products with the experts that a router chose (mixture of experts; ggml's `mul_mat_id`): each token
//! meets the matrices of its own experts, dense or of GGML blocks. Ids are an operand, so a recorded pass
//! serves every routing. An id outside gives NaN, so that the mistake shows. A token's sums have one
//! order, whatever other tokens there are.

mod cases;
mod cpu;
mod kernels;
mod node;
mod reference;

use std::ops::Range;

use tintype_gpu::{DType, Dispatch, Session, Split};

pub use node::ExpertMatmulOp;

use super::Operation;
use super::walked::Start;
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::Number;
use crate::quant::TYPES;
use kernels::GROUP;

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "expert_matmul",
    summary: "products with the experts that ids choose for each token, dense or quantized",
    cases: cases::cases,
    benches: cases::benches,
    kernels: kernels::kernels,
};

/// Immediates (WGSL: `params.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    n: u32,
    k: u32,
    experts: u32,
    /// Experts of this part.
    first: u32,
    end: u32,
    /// In halves where quantized, else in elements.
    start_w: u32,
    start_x: u32,
    start_ids: u32,
    start_out: u32,
    x_token: u32,
    /// 0 where a token's experts share its x.
    x_used: u32,
    used: u32,
    /// For the CPU kernel: types of weights, where they are dense, x and out in 2 bits each.
    codes: u32,
}

/// Weight bytes that a CPU unit reads: some fifty microseconds.
const UNIT_BYTES: usize = 256 << 10;

/// Tokens that one dispatch takes.
const TOKENS: usize = 65_535;

/// Whether experts may be of this type.
fn is_known(weights: DType) -> bool {
    Number::of(weights).is_some() || TYPES.contains(&weights)
}

const TYPES_TAKEN: &str = "weights are F32, F16, BF16 or of a block type that is decoded, x and the \
                           output F32, F16 or BF16, ids I32";

/// `out[t, u, :] = weights[ids[t, u], :, :]·x[t, u, :]`: weights `[experts, n, k]`, contiguous; x
/// `[tokens, used, k]`, or `[tokens, 1, k]` for all of a token's experts, rows dense; ids I32 `[tokens,
/// used]`, contiguous; out `[tokens, used, n]`, contiguous.
pub fn expert_matmul(
    session: &mut Session<'_>,
    weights: &Tensor,
    x: &Tensor,
    ids: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let op = "expert_matmul";
    let operands = [weights, x, ids, out];
    let (true, Some(_), Some(_), DType::I32) =
        (is_known(weights.dtype()), Number::of(x.dtype()), Number::of(out.dtype()), ids.dtype())
    else {
        return Err(dtype(op, &operands, TYPES_TAKEN));
    };
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    let (&[experts, n, k], &[tokens, used]) = (weights.shape(), ids.shape()) else {
        return refuse("weights are [experts, n, k], ids [tokens, used]");
    };
    let one = x.shape() == [tokens, 1, k];
    if !(one || x.shape() == [tokens, used, k]) || out.shape() != [tokens, used, n] {
        return refuse("x [tokens, used or 1, k] gives out [tokens, used, n]");
    }
    let dense = [weights, ids, out].iter().all(|tensor| tensor.is_contiguous());
    if !dense || k > 1 && x.strides()[2] != 1 {
        return refuse("weights, ids and the output are contiguous, rows of x dense");
    }
    if experts == 0 || used > TOKENS || [experts, n, k].iter().any(|&n| n > i32::MAX as usize) {
        return refuse("there are experts, and extents fit in 31 bits");
    }
    if out.elements() == 0 {
        return Ok(());
    }
    if k == 0 {
        return super::fill::fill(session, 0.0, out);
    }
    let limit = span_limit(session.device());
    let each = weights.span_bytes().div_ceil(experts as u64).max(1);
    let at_once = (limit / each).min(experts as u64) as usize;
    let widest = x.span_bytes().max(out.span_bytes()).div_ceil(tokens as u64).max(1);
    let tokens_at_once = TOKENS.min((limit / widest) as usize);
    if at_once == 0 || tokens_at_once == 0 {
        return refuse("one expert, or one token, does not fit in a binding");
    }
    for token in (0..tokens).step_by(tokens_at_once) {
        let some = token..(token + tokens_at_once).min(tokens);
        let [x, ids, out] = [x, ids, out].map(|tensor| tensor.slice(0, some.clone()));
        let (x, ids, out) = (x?, ids?, out?);
        for first in (0..experts).step_by(at_once) {
            if first > 0 {
                // Parts write different rows, which ids tell apart: nobody can know before.
                session.barrier_between(&[], &[out.write()?])?;
            }
            let part = first..(first + at_once).min(experts);
            part_of(session, weights, &x, &ids, &out, part)?;
        }
    }
    Ok(())
}

/// Writes the rows whose experts lie in `part`.
fn part_of(
    session: &mut Session<'_>,
    weights: &Tensor,
    x: &Tensor,
    ids: &Tensor,
    out: &Tensor,
    part: Range<usize>,
) -> Result<()> {
    let op = "expert_matmul";
    let (experts, n, k) = (weights.shape()[0], weights.shape()[1], weights.shape()[2]);
    let (tokens, used) = (ids.shape()[0], ids.shape()[1]);
    let own = weights.slice(0, part.clone())?;
    let (from, from_x, from_ids, to) = (own.read()?, x.read()?, ids.read()?, out.write()?);
    let quantized = weights.dtype().is_quantized();
    let size = |tensor: &Tensor| tensor.dtype().block_bytes();
    let start_w = from.start_in(if quantized { 2 } else { size(weights) });
    // A binding that ends inside a word: what is read of that word is up to the driver.
    let halves = quantized && !(u64::from(start_w) * 2 + from.len()).is_multiple_of(4);
    let number = |tensor: &Tensor| Number::of(tensor.dtype()).unwrap_or(Number::F32);
    let (tx, tout) = (number(x), number(out));
    let kind = session.device().info().kind;
    let threads = kernels::threads_per_row(kind, k, n);
    let Some(variant) = kernels::variant(weights.dtype(), [tx, tout], threads, halves) else {
        return Err(dtype(op, &[weights, x, ids, out], TYPES_TAKEN));
    };
    let shared = x.shape()[1] == 1;
    let params = Params {
        n: n as u32,
        k: k as u32,
        experts: experts as u32,
        first: part.start as u32,
        end: part.end as u32,
        start_w,
        start_x: from_x.start_in(size(x)),
        start_ids: from_ids.start_in(4),
        start_out: to.start_in(size(out)),
        x_token: x.strides()[0] as u32,
        x_used: if shared { 0 } else { x.strides()[1] as u32 },
        used: used as u32,
        codes: number(weights) as u32 | (tx as u32) << 2 | (tout as u32) << 4,
    };
    let row_bytes = (weights.span_bytes() as usize / (experts * n)).max(1);
    let tile = (UNIT_BYTES / row_bytes).clamp(1, n.div_ceil(4)).next_multiple_of(4).min(n);
    let columns = n.div_ceil(tile) as u32;
    let split = Split::Tiles {
        row_bytes: n as u64 * size(out),
        tile_rows: 1,
        tile_bytes: tile as u64 * size(out),
        columns,
    };
    let dispatch = Dispatch::new(&variant.compile(session)?)
        .label(op)
        .bind(from)
        .bind(from_x)
        .bind(from_ids)
        .bind(to)
        .immediates(&params)
        .groups([params.n.div_ceil(GROUP / threads), used as u32, tokens as u32])
        .cpu(columns * (tokens * used) as u32, [split]);
    session.dispatch(dispatch)?;
    Ok(())
}
