//! Normalizations: layer, RMS and L2 norms of rows, with gain and shift of any shape that repeats (so
//! that AdaLN's per-batch modulation is the same kernel), fused with a residual sum; group norm with
//! SiLU. Sums have one order for a row, whatever other rows there are.

mod cases;
mod cpu;
mod group;
mod node;
mod reference;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{Dispatch, Session};

pub use group::{GroupNorm, group_norm, group_scratch_shape};
pub use node::{GroupNormOp, RowNormOp};

use super::Operation;
use super::case::Variant;
use super::rows::{Place, RowSpace, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, THROUGH, WGSL};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "norm",
    summary: "layer, RMS, L2 and group norms, with residual sum, gain, shift, modulation, SiLU",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// What a row is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Norm {
    /// (v − mean) / √(variance + ε)
    Layer = 0,
    /// v / √(mean of v² + ε)
    Rms = 1,
    /// v / max(√Σv², ε)
    L2 = 2,
}

impl Norm {
    /// Every kind.
    pub const ALL: [Norm; 3] = [Norm::Layer, Norm::Rms, Norm::L2];

    /// Name, as labels show it.
    pub const fn name(self) -> &'static str {
        match self {
            Norm::Layer => "layer_norm",
            Norm::Rms => "rms_norm",
            Norm::L2 => "l2_norm",
        }
    }
}

/// A norm over the last axis: `norm(x)·(gain + gain_offset) + shift`.
#[derive(Debug, Clone, Copy)]
pub struct RowNorm<'a> {
    /// Kind.
    pub kind: Norm,
    /// ε
    pub eps: f32,
    /// Factors; repeat to the shape of the input. Weights `[n]`, or AdaLN's scale `[batch, 1, n]`.
    pub gain: Option<&'a Tensor>,
    /// 1 for weights that are stored as differences from 1 (Gemma, AdaLN), else 0.
    pub gain_offset: f32,
    /// Summands; repeat to the shape of the input. Same type as `gain`.
    pub shift: Option<&'a Tensor>,
}

impl RowNorm<'_> {
    /// A norm without gain and shift.
    pub fn new(kind: Norm, eps: f32) -> Self {
        RowNorm { kind, eps, gain: None, gain_offset: 0.0, shift: None }
    }
}

/// Immediates of the row norms (WGSL: `prelude.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: types of x, r, gain and shift, out in 2 bits each, kind in 2, then flags.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    eps: f32,
    offset: f32,
    x: Place,
    r: Place,
    gain: Place,
    shift: Place,
    sum: Place,
    out: Place,
}

const HAS_GAIN: u32 = 1 << 10;
const HAS_SHIFT: u32 = 1 << 11;

macro_rules! source {
    ($name:literal, $file:literal, $cpu:path) => {
        KernelSource {
            name: $name,
            wgsl: concat!(
                include_str!("../prelude/numbers.wgsl"),
                include_str!("../prelude/rows.wgsl"),
                include_str!("prelude.wgsl"),
                include_str!($file)
            ),
            entry: "main",
            aliases: &[],
            cpu: $cpu,
        }
    };
}

const ROW: KernelSource = source!("norm", "row.wgsl", cpu::row);
const ROW_ADD: KernelSource = source!("norm_add", "row_add.wgsl", cpu::row_add);

/// Threads of a GPU workgroup (`GROUP` in the WGSL), and how many may share a row.
const GROUP: u32 = 128;
const THREADS: [u32; 3] = [GROUP, 32, 8];

/// By the types of x, weights and out, base 3.
static TYPES: [[(&str, &str); 4]; 27] = {
    let mut table = [[("X", ""), ("W", ""), ("OUT", ""), ("THROUGH", "")]; 27];
    let mut at = 0;
    while at < 27 {
        table[at][0].1 = WGSL[at / 9];
        table[at][1].1 = WGSL[at / 3 % 3];
        table[at][2].1 = WGSL[at % 3];
        table[at][3].1 = THROUGH[at % 3];
        at += 1;
    }
    table
};

/// By the types of r, x, weights and out, base 3.
static ADD_TYPES: [[(&str, &str); 6]; 81] = {
    let none = ("", "");
    let mut table = [[("R", ""), ("R_THROUGH", ""), none, none, none, none]; 81];
    let mut at = 0;
    while at < 81 {
        table[at][0].1 = WGSL[at / 27];
        table[at][1].1 = THROUGH[at / 27];
        let mut rest = 0;
        while rest < 4 {
            table[at][2 + rest] = TYPES[at % 27][rest];
            rest += 1;
        }
        at += 1;
    }
    table
};

/// Types of x, weights and out, and of the residual where there is one.
#[derive(Debug, Clone, Copy)]
struct Types {
    x: Number,
    r: Option<Number>,
    w: Number,
    out: Number,
}

fn variant(types: Types, kind: Norm, affine: [bool; 2], threads: u32) -> Variant {
    let Types { x, r, w, out } = types;
    let three = x as usize * 9 + w as usize * 3 + out as usize;
    let source = match r {
        Some(r) => KernelSource { aliases: &ADD_TYPES[r as usize * 27 + three], ..ROW_ADD },
        None => KernelSource { aliases: &TYPES[three], ..ROW },
    };
    let flag = |on: bool| f64::from(u8::from(on));
    let mut overrides = vec![
        ("X_BF16", x.is_bf16()),
        ("W_BF16", w.is_bf16()),
        ("OUT_BF16", out.is_bf16()),
        ("KIND", f64::from(kind as u32)),
        ("HAS_GAIN", flag(affine[0])),
        ("HAS_SHIFT", flag(affine[1])),
        ("TPR", threads.into()),
    ];
    if let Some(r) = r {
        overrides.push(("R_BF16", r.is_bf16()));
    }
    Variant { source, overrides }
}

fn kernels() -> Vec<Variant> {
    let mut all = group::kernels();
    let f = Number::F32;
    for x in NUMBERS {
        for w in NUMBERS {
            for out in NUMBERS {
                for r in [None, Some(Number::F32), Some(Number::F16), Some(Number::Bf16)] {
                    all.push(variant(Types { x, r, w, out }, Norm::Layer, [true; 2], GROUP));
                }
            }
        }
    }
    for kind in Norm::ALL {
        for affine in [[false, false], [true, false], [false, true], [true, true]] {
            for threads in THREADS {
                for r in [None, Some(f)] {
                    all.push(variant(Types { x: f, r, w: f, out: f }, kind, affine, threads));
                }
            }
        }
    }
    all
}

/// Threads for a row. It may not depend on the number of rows: the order of a sum depends on it.
fn threads_per_row(n: usize) -> u32 {
    match n {
        0..=64 => 8,
        65..=512 => 32,
        _ => GROUP,
    }
}

/// `out = norm(x)`, over the last axis.
pub fn norm(session: &mut Session<'_>, norm: &RowNorm<'_>, x: &Tensor, out: &Tensor) -> Result<()> {
    record(session, norm, x, None, out)
}

/// `sum = x + residual; out = norm(x + residual)`, over the last axis. `sum` has the residual's type.
pub fn add_norm(
    session: &mut Session<'_>,
    norm: &RowNorm<'_>,
    x: &Tensor,
    residual: &Tensor,
    sum: &Tensor,
    out: &Tensor,
) -> Result<()> {
    record(session, norm, x, Some([residual, sum]), out)
}

fn record(
    session: &mut Session<'_>,
    norm: &RowNorm<'_>,
    x: &Tensor,
    add: Option<[&Tensor; 2]>,
    out: &Tensor,
) -> Result<()> {
    let op = norm.kind.name();
    let [r, sum] = add.unwrap_or([x, x]);
    let (gain, shift) = (norm.gain.unwrap_or(x), norm.shift.unwrap_or(x));
    let operands = [x, r, gain, shift, sum, out];
    let refuse = |reason: String| Err(shape(op, &operands, reason));
    if x.rank() == 0 || [r, sum, out].iter().any(|tensor| tensor.shape() != x.shape()) {
        return refuse(
            "input, residual, sum and output must have one shape, of an axis or more".into(),
        );
    }
    let numbers = operands.map(|tensor| Number::of(tensor.dtype()));
    let [Some(tx), Some(tr), Some(tg), Some(ts), Some(tsum), Some(tout)] = numbers else {
        return Err(dtype(op, &operands, "types are F32, F16 and BF16"));
    };
    let tw = if norm.gain.is_some() { tg } else { ts };
    if tr != tsum || norm.gain.is_some() && norm.shift.is_some() && tg != ts {
        let reason = "residual and sum, and gain and shift, must have one type each";
        return Err(dtype(op, &operands, reason));
    }
    if !(norm.eps.is_finite() && norm.eps >= 0.0 && norm.gain_offset.is_finite()) {
        return refuse(format!("epsilon is {}; it must not be negative", norm.eps));
    }
    let repeat = |tensor: &Tensor| {
        tensor.broadcast_to(x.shape()).map_err(|_: crate::Error| {
            shape(op, &operands, format!("{tensor} does not repeat to {:?}", x.shape()))
        })
    };
    let (gain, shift) = (repeat(gain)?, repeat(shift)?);
    let n = x.shape()[x.rank() - 1];
    let written: &[usize] = if add.is_some() { &[5, 4] } else { &[5] };
    let types = Types { x: tx, r: add.map(|_| tr), w: tw, out: tout };
    let affine = [norm.gain.is_some(), norm.shift.is_some()];
    let kernel = variant(types, norm.kind, affine, threads_per_row(n)).compile(session)?;
    let flags = if affine[0] { HAS_GAIN } else { 0 } | if affine[1] { HAS_SHIFT } else { 0 };
    let codes = tx as u32
        | (tr as u32) << 2
        | (tw as u32) << 4
        | (tout as u32) << 6
        | (norm.kind as u32) << 8
        | flags;
    for space in spaces(session.device(), op, [x, r, &gain, &shift, sum, out], written)? {
        dispatch(session, norm, &kernel, &space, add.is_some(), codes)?;
    }
    Ok(())
}

fn dispatch(
    session: &mut Session<'_>,
    norm: &RowNorm<'_>,
    kernel: &tintype_gpu::Kernel,
    space: &RowSpace<6>,
    add: bool,
    codes: u32,
) -> Result<()> {
    let [x, r, gain, shift, sum, out] = &space.operands;
    let n = x.shape()[x.rank() - 1];
    let size = |tensor: &Tensor| tensor.dtype().block_bytes();
    let reads = [x.read()?, r.read()?, gain.read()?, shift.read()?];
    let (to_sum, to) = (sum.write()?, out.write()?);
    let unit_rows = unit_rows(n);
    let start = |at: usize| reads[at].start_in(size(&space.operands[at]));
    let params = Params {
        width: space.outer[1],
        rows: space.rows(),
        n: n as u32,
        codes,
        unit_rows,
        eps: norm.eps,
        offset: norm.gain_offset,
        x: space.place(0, start(0)),
        r: space.place(1, start(1)),
        gain: space.place(2, start(2)),
        shift: space.place(3, start(3)),
        sum: space.place(4, to_sum.start_in(size(sum))),
        out: space.place(5, to.start_in(size(out))),
    };
    let [x, r, gain, shift] = reads;
    let mut dispatch = Dispatch::new(kernel).label(norm.kind.name()).bind(x);
    let mut splits = vec![space.split(5, unit_rows)];
    if add {
        dispatch = dispatch.bind(r).bind(gain).bind(shift).bind(to_sum);
        splits.insert(0, space.split(4, unit_rows));
    } else {
        dispatch = dispatch.bind(gain).bind(shift);
    }
    let count = u64::from(space.rows()).div_ceil((GROUP / threads_per_row(n)).into());
    let dispatch = dispatch
        .bind(to)
        .immediates(&params)
        .groups(groups(session, count))
        .cpu(space.rows().div_ceil(unit_rows), splits);
    session.dispatch(dispatch)?;
    Ok(())
}
