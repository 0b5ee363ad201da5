//! Rows into a cache of keys or values: the row of a token goes to place `position mod capacity`, so
//! that a cache may be a ring. Positions are an operand, so that a recorded pass serves every step.
//! The cache is of numbers or of Q8_0 blocks.

mod cases;
mod cpu;
mod node;
mod reference;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session, Split};

pub use node::KvCopyOp;

use super::Operation;
use super::case::Variant;
use super::walked::Start;
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::{NUMBERS, Number, THROUGH, WGSL};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "kv_copy",
    summary: "rows into a cache at their positions modulo its capacity, converted or quantized",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Immediates (WGSL: `params.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    tokens: u32,
    heads: u32,
    batch: u32,
    n: u32,
    capacity: u32,
    batched: u32,
    /// For the CPU kernel: types of rows and cache in 2 bits each, then who owns what.
    codes: u32,
    rows: [u32; 3],
    cache: [u32; 3],
    start_rows: u32,
    start_positions: u32,
    start_cache: u32,
}

/// A CPU unit owns a head of a sequence; else a whole sequence.
const OWN_HEADS: u32 = 1 << 4;

const INTO_NUMBERS: KernelSource = KernelSource {
    name: "kv_copy",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("params.wgsl"),
        include_str!("numbers.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::numbers,
};

const INTO_BLOCKS: KernelSource = KernelSource {
    name: "kv_copy_q8_0",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("params.wgsl"),
        include_str!("q8_0.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::q8_0,
};

/// By the types of rows and cache.
static TYPES: [[(&str, &str); 3]; 9] = {
    let mut table = [[("", ""); 3]; 9];
    let mut at = 0;
    while at < 9 {
        table[at] = [("X", WGSL[at / 3]), ("CACHE", WGSL[at % 3]), ("THROUGH", THROUGH[at % 3])];
        at += 1;
    }
    table
};

/// Into halves of blocks, by the type of rows.
static BLOCK_TYPES: [[(&str, &str); 2]; 3] = {
    let mut table = [[("", ""); 2]; 3];
    let mut at = 0;
    while at < 3 {
        table[at] = [("X", WGSL[at]), ("CACHE", "u16")];
        at += 1;
    }
    table
};

fn variant(rows: Number, cache: Option<Number>) -> Variant {
    match cache {
        Some(cache) => Variant {
            source: KernelSource {
                aliases: &TYPES[rows as usize * 3 + cache as usize],
                ..INTO_NUMBERS
            },
            overrides: vec![("X_BF16", rows.is_bf16()), ("CACHE_BF16", cache.is_bf16())],
        },
        None => Variant {
            source: KernelSource { aliases: &BLOCK_TYPES[rows as usize], ..INTO_BLOCKS },
            overrides: vec![("X_BF16", rows.is_bf16())],
        },
    }
}

fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    for rows in NUMBERS {
        all.push(variant(rows, None));
        all.extend(NUMBERS.map(|cache| variant(rows, Some(cache))));
    }
    all
}

/// Why these shapes are refused, if they are: rows, positions, cache.
fn misfit(rows: &[usize], positions: &[usize], cache: &[usize]) -> Option<&'static str> {
    let (&[batch, heads, tokens, n], &[b, h, capacity, cn]) = (rows, cache) else {
        return Some("rows are [batch, heads, tokens, numbers], the cache has their axes");
    };
    if [b, h, cn] != [batch, heads, n] {
        return Some("rows and cache must have one batch, heads and numbers");
    }
    if positions != [batch, tokens] && positions != [tokens] {
        return Some("positions are [tokens] or [batch, tokens]");
    }
    if tokens > capacity {
        return Some("more tokens than the cache has room for: they would overwrite one another");
    }
    (batch > 65_535 || heads > 65_535 || tokens > 65_535).then_some("at most 65535 of each")
}

const TYPES_TAKEN: &str = "rows are F32, F16 or BF16, the cache too or Q8_0, positions I32";

/// `cache[b, h, positions[b, t] mod capacity, :] = rows[b, h, t, :]`: rows `[batch, heads, tokens, n]`
/// and cache `[batch, heads, capacity, n]`, the last axis of each dense; positions I32, `[tokens]` or
/// `[batch, tokens]`, contiguous. A negative position is not written. The positions of a sequence
/// must differ modulo the capacity.
pub fn kv_copy(
    session: &mut Session<'_>,
    rows: &Tensor,
    positions: &Tensor,
    cache: &Tensor,
) -> Result<()> {
    let op = "kv_copy";
    let operands = [rows, positions, cache];
    let target = Number::of(cache.dtype());
    let (Some(of_rows), true, DType::I32) = (
        Number::of(rows.dtype()),
        target.is_some() || cache.dtype() == DType::Q8_0,
        positions.dtype(),
    ) else {
        return Err(dtype(op, &operands, TYPES_TAKEN));
    };
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    if let Some(reason) = misfit(rows.shape(), positions.shape(), cache.shape()) {
        return refuse(reason);
    }
    let dense = |tensor: &Tensor| tensor.shape()[3] <= 1 || tensor.strides()[3] == 1;
    if !dense(rows) || !dense(cache) || !positions.is_contiguous() {
        return refuse("the last axis of each must be dense; copy it first");
    }
    let &[batch, heads, tokens, n] = rows.shape() else { return Ok(()) };
    if rows.elements() == 0 {
        return Ok(());
    }
    let limit = span_limit(session.device());
    if operands.iter().any(|tensor| tensor.span_bytes() > limit) {
        return refuse("an operand is larger than a binding; copy batch by batch");
    }
    let capacity = cache.shape()[2];
    let [sb, sh, st] = [cache.strides()[0], cache.strides()[1], cache.strides()[2]];
    // Elements from the first to past the last of a head and of a sequence.
    let of_head = (capacity - 1) * st + n;
    let of_sequence = of_head + (heads - 1) * sh;
    if st < n && capacity > 1 || batch > 1 && sb < of_sequence {
        return refuse("rows and sequences of the cache must lie apart");
    }
    let own_heads = heads == 1 || sh >= of_head && (batch == 1 || sb == heads * sh);
    let block = cache.dtype().block_elements() as usize;
    let bytes = |elements: usize| elements.div_ceil(block) as u64 * cache.dtype().block_bytes();
    let (units, part) = match own_heads {
        true if heads > 1 => (batch * heads, bytes(sh)),
        _ => (batch, if batch > 1 { bytes(sb) } else { cache.span_bytes() }),
    };
    let three = |tensor: &Tensor| [0, 1, 2].map(|axis| tensor.strides()[axis] as u32);
    let (from, from_positions, to) = (rows.read()?, positions.read()?, cache.write()?);
    let size = if target.is_some() { cache.dtype().block_bytes() } else { 2 };
    let flag = if own_heads && heads > 1 { OWN_HEADS } else { 0 };
    let params = Params {
        tokens: tokens as u32,
        heads: heads as u32,
        batch: batch as u32,
        n: n as u32,
        capacity: capacity as u32,
        batched: u32::from(positions.rank() == 2),
        codes: of_rows as u32 | target.map_or(3, |number| number as u32) << 2 | flag,
        rows: three(rows),
        cache: three(cache),
        start_rows: from.start_in(rows.dtype().block_bytes()),
        start_positions: from_positions.start_in(4),
        start_cache: to.start_in(size),
    };
    let dispatch = Dispatch::new(&variant(of_rows, target).compile(session)?)
        .label(op)
        .bind(from)
        .bind(from_positions)
        .bind(to)
        .immediates(&params)
        .groups([tokens as u32, heads as u32, batch as u32])
        .cpu(units as u32, [Split::Chunks(part)]);
    session.dispatch(dispatch)?;
    Ok(())
}
