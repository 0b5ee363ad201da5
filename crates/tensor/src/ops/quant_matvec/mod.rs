//! Quantized matrix times a few vectors: weights as GGML blocks, Q8_0 and Q6_K, decoded into f32;
//! exact to f32 rounding. Every row and every vector is summed in an order of its own, so a batch
//! gives bit for bit what its vectors give alone.

mod cases;
mod cpu;
mod reference;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, DeviceKind, Dispatch, Session, Split};

use super::Operation;
use super::case::Variant;
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "quant_matvec",
    summary: "quantized matrix times a few vectors",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Immediates (WGSL: `prelude.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    rows: u32,
    blocks: u32,
    start_w: u32,
    start_x: u32,
    start_out: u32,
    stride_x: u32,
    stride_out: u32,
}

macro_rules! source {
    ($name:literal, $file:literal, $cpu:path) => {
        KernelSource {
            name: $name,
            wgsl: concat!(
                include_str!("../prelude/numbers.wgsl"),
                include_str!("prelude.wgsl"),
                include_str!($file)
            ),
            entry: "main",
            aliases: &[],
            cpu: $cpu,
        }
    };
}

const Q8_0: KernelSource = source!("matvec_q8_0", "q8_0.wgsl", cpu::q8_0);
const Q6_K: KernelSource = source!("matvec_q6_k", "q6_k.wgsl", cpu::q6_k);

/// Vectors that one dispatch may take.
const COUNTS: [usize; 4] = [8, 4, 2, 1];

/// Threads of a GPU workgroup (`GROUP` in the WGSL).
const GROUP: u32 = 128;

/// Threads that share a row.
const THREADS_PER_ROW: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Weight bytes a CPU unit reads: some fifty microseconds.
const UNIT_BYTES: u64 = 512 << 10;

/// Kernel, and weights of a thread's slice, for a block type.
fn block(dtype: DType) -> Option<(KernelSource, u32)> {
    match dtype {
        DType::Q8_0 => Some((Q8_0, 8)),
        DType::Q6K => Some((Q6_K, 16)),
        _ => None,
    }
}

fn variant(source: KernelSource, many: usize, threads: u32, halves: bool) -> Variant {
    let aliases = if halves { &[("W", "u16")][..] } else { &[] };
    let overrides = vec![
        ("MANY", many as f64),
        ("TPR", threads.into()),
        ("HALVES", f64::from(u8::from(halves))),
    ];
    Variant { source: KernelSource { aliases, ..source }, overrides }
}

fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    for source in [Q8_0, Q6_K] {
        for many in COUNTS {
            for threads in THREADS_PER_ROW {
                all.extend([false, true].map(|halves| variant(source, many, threads, halves)));
            }
        }
    }
    all
}

/// Threads for a row: as many as have a slice, fewer where there are rows enough to fill a GPU; one
/// for many rows on a software device, where a barrier costs more than what it shares out. It may not depend on
/// the number of vectors: the order of a sum depends on it.
fn threads_per_row(kind: DeviceKind, k: u32, rows: usize, slice: u32) -> u32 {
    let most = match kind {
        DeviceKind::Software if rows >= 65_536 => 1,
        _ if rows >= 8192 => 32,
        _ => 64,
    };
    (k / slice).clamp(1, most).next_power_of_two().min(most)
}

/// `out[.., row] = Σ weights[row, i]·x[.., i]`: weights `[rows, k]` quantized, x `[k]` or `[m, k]`
/// in F32 with contiguous rows, out `[rows]` or `[m, rows]` in F32.
pub fn quant_matvec(
    session: &mut Session<'_>,
    weights: &Tensor,
    x: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let operands = [weights, x, out];
    let op = "quant_matvec";
    if block(weights.dtype()).is_none() || x.dtype() != DType::F32 || out.dtype() != DType::F32 {
        return Err(dtype(op, &operands, "weights are Q8_0 or Q6_K, x and out F32"));
    }
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    if weights.rank() != 2 || !weights.is_contiguous() {
        return refuse("weights must be a contiguous matrix");
    }
    let (x, out) = match (x.rank(), out.rank()) {
        (1, 1) => (x.insert_axis(0)?, out.insert_axis(0)?),
        (2, 2) => (x.clone(), out.clone()),
        _ => return refuse("x and out must both be vectors or both be matrices"),
    };
    let (rows, k, m) = (weights.shape()[0], weights.shape()[1], x.shape()[0]);
    if x.shape()[1] != k || out.shape() != [m, rows] {
        return refuse("weights [rows, k] take x [.., k] and give out [.., rows]");
    }
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
    let row_bytes = weights.span_bytes() / rows as u64;
    let rows_at_once = (span_limit(session.device()) / row_bytes).min(rows as u64) as usize;
    if rows_at_once == 0 {
        return refuse("one row of weights does not fit in a binding");
    }
    // Parts of several output rows at once would interleave: where the weights are cut, or the
    // output has gaps, each vector goes alone. Its bits are the same.
    let together = rows_at_once == rows && out.is_contiguous();
    let mut vector = 0;
    while vector < m {
        let fitting = COUNTS.into_iter().find(|&count| together && count <= m - vector);
        let count = fitting.unwrap_or(1);
        for first in (0..rows).step_by(rows_at_once) {
            let last = (first + rows_at_once).min(rows);
            record(
                session,
                &weights.slice(0, first..last)?,
                &x.slice(0, vector..vector + count)?,
                &out.slice(0, vector..vector + count)?.slice(1, first..last)?,
                rows,
            )?;
        }
        vector += count;
    }
    Ok(())
}

/// One dispatch. `all_rows` are those of the whole matrix: cutting it changes no bits.
fn record(
    session: &mut Session<'_>,
    weights: &Tensor,
    x: &Tensor,
    out: &Tensor,
    all_rows: usize,
) -> Result<()> {
    let operands = [weights, x, out];
    let Some((source, slice)) = block(weights.dtype()) else {
        return Err(dtype("quant_matvec", &operands, "the type is not decoded"));
    };
    let (rows, k, m) = (weights.shape()[0] as u32, weights.shape()[1] as u32, x.shape()[0]);
    let (w, x_span, out_span) = (weights.read()?, x.read()?, out.write()?);
    let row_bytes = w.len() / u64::from(rows);
    let start_w = w.start_in(2);
    // A binding that ends inside a word: what is read of that word is up to the driver.
    let halves = !(u64::from(start_w) * 2 + w.len()).is_multiple_of(4);
    let threads = threads_per_row(session.device().info().kind, k, all_rows, slice);
    let kernel = variant(source, m, threads, halves).compile(session)?;
    let params = Params {
        rows,
        blocks: k / weights.dtype().block_elements() as u32,
        start_w,
        start_x: x_span.start_in(4),
        start_out: out_span.start_in(4),
        stride_x: x.strides()[0] as u32,
        stride_out: out.strides()[0] as u32,
    };
    let unit_rows =
        (UNIT_BYTES / row_bytes / m as u64).clamp(1, u64::from(rows).div_ceil(16).max(1));
    let units = u64::from(rows).div_ceil(unit_rows) as u32;
    let tile = Split::Tiles {
        row_bytes: u64::from(rows) * 4,
        tile_rows: m as u64,
        tile_bytes: unit_rows * 4,
        columns: units,
    };
    let dispatch = Dispatch::new(&kernel)
        .label("quant_matvec")
        .bind(w)
        .bind(x_span)
        .bind(out_span)
        .immediates(&params)
        .groups(groups(session, u64::from(rows.div_ceil(GROUP / threads))))
        .cpu(units, [tile]);
    session.dispatch(dispatch)?;
    Ok(())
}
