//! Attention, softmax(q·kᵀ·scale + bias, masked)·v, without the scores in memory: memory grows with
//! the tokens, not with their square. Grouped heads, causal and sliding masks by position, additive
//! bias, soft-cap. A row's sums have one order, whatever other batches there are.

mod cases;
mod cpu;
mod kernels;
mod node;
mod reference;
mod rows;

use tintype_gpu::{DType, Device, Dispatch, Session};

pub use node::AttentionOp;

use super::Operation;
use super::walked::Start;
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::Number;
use kernels::{Stored, Types};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "attention",
    summary: "softmax(q·kᵀ·scale + bias, masked)·v for prefill and decode, memory linear in tokens",
    cases: cases::cases,
    benches: cases::benches,
    kernels: kernels::kernels,
};

/// Numbers of a head, at most.
pub const MAX_HEAD: usize = 512;

/// What is seen, and how scores are made. Positions count tokens; a key at a negative position is not
/// there (padding, an empty slot of a cache). Queries that see nothing give 0.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Factor of q·k, often 1/√(numbers of a head).
    pub scale: f32,
    /// Bounds scaled scores to ±cap by cap·tanh(score/cap); 0 for none.
    pub softcap: f32,
    /// Queries do not see keys behind them.
    pub causal: bool,
    /// Queries see keys fewer than this many positions away; 0 for all.
    pub window: usize,
    /// Position of the first query where `q_positions` is not given; the others follow.
    pub offset: usize,
    /// Added to scaled scores; repeats to `[batch, heads, tokens, keys]`; its last axis is dense.
    pub bias: Option<&'a Tensor>,
    /// I32, `[tokens]` or `[batch, tokens]`, contiguous.
    pub q_positions: Option<&'a Tensor>,
    /// I32, `[keys]` or `[batch, keys]`, contiguous; keys stand at 0, 1, … where it is not given.
    pub k_positions: Option<&'a Tensor>,
    /// I32, `[batch]`, contiguous, instead of positions of keys: keys and values are rings that
    /// [`super::kv_copy`] filled, and each sequence has this many tokens, those of this call included.
    /// Row `r` holds the latest position that is `r` modulo the number of keys; rows that no token
    /// has reached are not there. Queries are the last tokens where `q_positions` is not given.
    pub lengths: Option<&'a Tensor>,
}

impl Attention<'_> {
    /// Everything sees everything.
    pub fn new(scale: f32) -> Self {
        Attention {
            scale,
            softcap: 0.0,
            causal: false,
            window: 0,
            offset: 0,
            bias: None,
            q_positions: None,
            k_positions: None,
            lengths: None,
        }
    }
}

/// Immediates of every kernel here (WGSL: `params.wgsl`, which says what they are).
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    shared_by: u32,
    t: u32,
    s: u32,
    /// Heads of keys; for the CPU kernel in the upper half: tokens of a unit.
    heads: u32,
    q: [u32; 3],
    k: [u32; 3],
    v: [u32; 3],
    out: [u32; 3],
    bias: [u32; 3],
    start_q: u32,
    start_k: u32,
    start_v: u32,
    start_bias: u32,
    start_qp: u32,
    start_kp: u32,
    start_out: u32,
    scale: f32,
    softcap: f32,
    window: u32,
    offset: u32,
    /// Types of q, k and v, bias, out in 2 bits each, then flags; for the CPU kernel in the upper
    /// half: numbers of a head.
    codes: u32,
    /// Keys of a part; for the CPU kernel: how units own the output.
    part: u32,
}

const CAUSAL: u32 = 1 << 8;
const BIAS: u32 = 1 << 9;
const Q_POSITIONS: u32 = 1 << 10;
const K_POSITIONS: u32 = 1 << 11;
const Q_POSITIONS_BATCHED: u32 = 1 << 12;
const K_POSITIONS_BATCHED: u32 = 1 << 13;
const LENGTHS: u32 = 1 << 14;

/// Keys of a part, where a GPU shares out the keys of few queries.
const PART: usize = 256;

/// Rows (tokens, times query heads for each head of keys) up to which it does.
const FEW_ROWS: usize = 16;

/// Shape of the F32 scratch tensor that [`attention`] needs on `device` for q `[batch, heads, tokens,
/// numbers]` and k `[batch, heads, keys, numbers]`; `None` for none.
pub fn attention_scratch_shape(device: &Device, q: &[usize], k: &[usize]) -> Option<[usize; 5]> {
    let (&[batch, heads, t, d], &[_, kv_heads, s, _]) = (q, k) else { return None };
    let rows = heads / kv_heads.max(1) * t;
    let few = rows <= FEW_ROWS && s > PART && device.info().limits.threads == 0;
    few.then(|| [batch, kv_heads, rows, s.div_ceil(PART), d + 2])
}

/// `out = attention of q over k and v`: q and out `[batch, heads, tokens, numbers]`, k and v `[batch,
/// heads of keys, keys, numbers]`, of numbers or Q8_0; heads are a multiple of heads of keys and share them in order. The
/// last axis of each is dense, others lie anyhow. `scratch`, F32 and contiguous, is needed where
/// [`attention_scratch_shape`] says so.
pub fn attention(
    session: &mut Session<'_>,
    spec: &Attention<'_>,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    scratch: Option<&Tensor>,
    out: &Tensor,
) -> Result<()> {
    let checked = Checked::new(session.device(), spec, [q, k, v, out])?;
    if out.elements() == 0 {
        return Ok(());
    }
    if k.shape()[2] == 0 {
        return super::fill::fill(session, 0.0, out);
    }
    if session.device().info().limits.threads > 0 {
        return rows::record(session, spec, &checked, [q, k, v, out]);
    }
    let Some(wanted) = attention_scratch_shape(session.device(), q.shape(), k.shape()) else {
        return on_gpu(session, spec, &checked, [q, k, v, out], None);
    };
    match scratch {
        Some(scratch)
            if scratch.dtype() == DType::F32
                && scratch.is_contiguous()
                && scratch.shape() == wanted =>
        {
            on_gpu(session, spec, &checked, [q, k, v, out], Some(scratch))
        }
        _ => {
            let reason = format!("a contiguous F32 scratch tensor {wanted:?} is needed");
            Err(shape("attention", &[q, k, v, out], reason))
        }
    }
}

/// What operands may be.
const TYPES_TAKEN: &str =
    "q, k, v, bias and out are F32, F16 or BF16, k and v of one type, Q8_0 too";

/// Operands found to fit one another.
struct Checked {
    types: Types,
    codes: u32,
    bias: Option<Tensor>,
}

impl Checked {
    fn new(device: &Device, spec: &Attention<'_>, operands: [&Tensor; 4]) -> Result<Checked> {
        let op = "attention";
        let [q, k, v, out] = operands;
        let refuse = |reason: String| Err(shape(op, &operands, reason));
        let number = |tensor: &Tensor| {
            Number::of(tensor.dtype()).ok_or_else(|| dtype(op, &operands, TYPES_TAKEN))
        };
        let (&[batch, heads, t, d], &[b, kv_heads, s, dk]) = (q.shape(), k.shape()) else {
            return refuse("q and k have four axes: batch, heads, tokens, numbers".into());
        };
        if v.shape() != k.shape() || out.shape() != q.shape() || b != batch || dk != d {
            return refuse(
                "q and out, and k and v, must have one shape each, and one batch and head size"
                    .into(),
            );
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return refuse(format!("{heads} heads do not share {kv_heads} heads of keys evenly"));
        }
        if d > MAX_HEAD || heads > 0xffff || batch > 0xffff {
            return refuse(format!(
                "a head has at most {MAX_HEAD} numbers; 65535 heads and batches"
            ));
        }
        if operands.iter().any(|tensor| d > 1 && tensor.strides()[3] != 1) {
            return refuse("the last axis of each must be dense; copy it first".into());
        }
        let near = |number: f32| number.is_finite() && number >= 0.0;
        if !spec.scale.is_finite() || !near(spec.softcap) {
            return refuse(format!("scale {} and cap {}", spec.scale, spec.softcap));
        }
        if [spec.window, spec.offset, spec.offset.saturating_add(t), s]
            .iter()
            .any(|&n| n > i32::MAX as usize)
        {
            return refuse("positions and window must fit in 31 bits".into());
        }
        let bias = match spec.bias {
            Some(bias) => Some(bias.broadcast_to(&[batch, heads, t, s]).map_err(|_| {
                let reason = format!("bias {bias} does not repeat to {:?}", [batch, heads, t, s]);
                shape(op, &operands, reason)
            })?),
            None => None,
        };
        if bias.as_ref().is_some_and(|bias| s > 1 && bias.strides()[3] != 1) {
            return refuse("the bias is dense along the keys; copy it first".into());
        }
        let positions = |tensor: Option<&Tensor>, n: usize, name: &str| {
            let Some(tensor) = tensor else { return Ok(None) };
            let batched = tensor.shape() == [batch, n];
            if tensor.dtype() != DType::I32 || !tensor.is_contiguous() {
                let reason = format!("positions of {name} are I32 and contiguous, not {tensor}");
                return Err(dtype(op, &operands, reason));
            }
            match batched || tensor.shape() == [n] {
                true => Ok(Some(batched)),
                false => Err(shape(
                    op,
                    &operands,
                    format!("positions of {name} are [{n}] or [{batch}, {n}], not {tensor}"),
                )),
            }
        };
        let of_q = positions(spec.q_positions, t, "queries")?;
        let of_k = positions(spec.k_positions, s, "keys")?;
        let of_lengths = positions(spec.lengths, batch, "sequences (lengths)")?;
        if of_lengths.is_some() && of_k.is_some() {
            return refuse("lengths and positions of keys exclude one another".into());
        }
        let Some(kv) = Stored::of(k.dtype()).filter(|_| k.dtype() == v.dtype()) else {
            return Err(dtype(op, &operands, TYPES_TAKEN));
        };
        let limit = span_limit(device);
        let all = operands.into_iter().chain(bias.as_ref());
        if all.into_iter().any(|tensor| tensor.span_bytes() > limit) {
            return refuse("an operand is larger than a binding; attend batch by batch".into());
        }
        let of_bias = number(bias.as_ref().unwrap_or(q))?;
        let types = Types { q: number(q)?, kv, bias: of_bias, out: number(out)? };
        let codes = [types.q as u32, kv.code(), of_bias as u32, types.out as u32];
        let mut codes = (0..4).map(|at| codes[at] << (2 * at)).sum::<u32>();
        for (bit, on) in [
            (CAUSAL, spec.causal),
            (BIAS, bias.is_some()),
            (Q_POSITIONS, of_q.is_some()),
            (K_POSITIONS, of_k.is_some()),
            (Q_POSITIONS_BATCHED, of_q == Some(true)),
            (K_POSITIONS_BATCHED, of_k == Some(true)),
            (LENGTHS, of_lengths.is_some()),
        ] {
            codes |= if on { bit } else { 0 };
        }
        Ok(Checked { types, codes, bias })
    }
}

/// What kernels are told, and the spans they read: q, k, v, bias, positions of queries and keys.
/// What is not there is bound to q and not read.
fn bound(
    spec: &Attention<'_>,
    checked: &Checked,
    [q, k, v, out]: [&Tensor; 4],
) -> Result<(Params, [tintype_gpu::ReadSpan; 6])> {
    let (heads, t, d) = (q.shape()[1], q.shape()[2], q.shape()[3]);
    let (kv_heads, s) = (k.shape()[1], k.shape()[2]);
    let three = |tensor: &Tensor| [0, 1, 2].map(|axis| tensor.strides()[axis] as u32);
    let bias = checked.bias.as_ref();
    let of_keys = spec.k_positions.or(spec.lengths);
    let reads = [q, k, v, bias.unwrap_or(q), spec.q_positions.unwrap_or(q), of_keys.unwrap_or(q)];
    let spans = [
        reads[0].read()?,
        reads[1].read()?,
        reads[2].read()?,
        reads[3].read()?,
        reads[4].read()?,
        reads[5].read()?,
    ];
    let start = |at: usize| match reads[at].dtype() {
        // Blocks are read by halves.
        DType::Q8_0 => spans[at].start_in(2),
        number => spans[at].start_in(number.block_bytes()),
    };
    let params = Params {
        shared_by: (heads / kv_heads) as u32,
        t: t as u32,
        s: s as u32,
        heads: kv_heads as u32,
        q: three(q),
        k: three(k),
        v: three(v),
        out: three(out),
        bias: bias.map_or([0; 3], three),
        start_q: start(0),
        start_k: start(1),
        start_v: start(2),
        start_bias: start(3),
        start_qp: start(4),
        start_kp: start(5),
        start_out: 0,
        scale: spec.scale,
        softcap: spec.softcap,
        window: spec.window as u32,
        offset: spec.offset as u32,
        codes: checked.codes | (d as u32) << 16,
        part: s as u32,
    };
    Ok((params, spans))
}

fn on_gpu(
    session: &mut Session<'_>,
    spec: &Attention<'_>,
    checked: &Checked,
    operands: [&Tensor; 4],
    scratch: Option<&Tensor>,
) -> Result<()> {
    let [q, k, _, out] = operands;
    let (batch, kv_heads, d) = (q.shape()[0] as u32, k.shape()[1] as u32, q.shape()[3] as u32);
    let (mut params, spans) = bound(spec, checked, operands)?;
    let rows = params.shared_by * params.t;
    let to = out.write()?;
    let start_out = to.start_in(out.dtype().block_bytes());
    let (target, parts) = match scratch {
        Some(scratch) => {
            params.part = PART as u32;
            (scratch.write()?, params.s.div_ceil(PART as u32))
        }
        None => (out.write()?, 1),
    };
    params.start_out = match scratch {
        Some(_) => target.start_in(4),
        None => start_out,
    };
    let tile = kernels::rows_of_tile(rows, d);
    let mut types = checked.types;
    if let Stored::Blocks { halves } = &mut types.kv {
        let whole = |span: &tintype_gpu::ReadSpan, start: u32| {
            (u64::from(start) * 2 + span.len()).is_multiple_of(4)
        };
        *halves = !whole(&spans[1], params.start_k) || !whole(&spans[2], params.start_v);
    }
    if scratch.is_some() {
        types.out = Number::F32;
    }
    let kernel = kernels::tiled(types, d, tile, scratch.is_some()).compile(session)?;
    let mut dispatch = Dispatch::new(&kernel).label("attention");
    for span in spans {
        dispatch = dispatch.bind(span);
    }
    session.dispatch(dispatch.bind(target).immediates(&params).groups([
        rows.div_ceil(tile) * parts,
        kv_heads,
        batch,
    ]))?;
    let Some(scratch) = scratch else { return Ok(()) };
    session.barrier_between(&[scratch.read()?], &[])?;
    let from = scratch.read()?;
    params.start_q = from.start_in(4);
    params.start_out = start_out;
    let kernel = kernels::join(checked.types.out, d).compile(session)?;
    let join = Dispatch::new(&kernel)
        .label("attention")
        .bind(from)
        .bind(to)
        .immediates(&params)
        .groups([rows, kv_heads, batch]);
    session.dispatch(join)?;
    Ok(())
}
