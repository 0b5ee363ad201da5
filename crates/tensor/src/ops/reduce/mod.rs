//! Reductions over any axes: sum, mean, maximum, minimum, sum of squares. Orders are fixed by shape:
//! the same bytes on every run and for any number of CPU threads. Long reductions with few outputs
//! go in two passes through a scratch tensor.

mod cases;
mod cpu;
mod reference;
mod stream;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, DeviceKind, Dispatch, Session, Split};

use super::Operation;
use super::case::Variant;
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::{NUMBERS, Number, input_and_out};
pub use stream::{can_stream, stream_sum};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "reduce",
    summary: "sum, mean, max, min and sum of squares over any axes",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// What a reduction computes of the elements it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Fold {
    /// Σ v
    Sum = 0,
    /// The largest.
    Max = 1,
    /// The smallest.
    Min = 2,
    /// Σ v²
    SumSquares = 3,
    /// Σ v / n
    Mean = 4,
}

impl Fold {
    /// Every fold.
    pub const ALL: [Fold; 5] = [Fold::Sum, Fold::Max, Fold::Min, Fold::SumSquares, Fold::Mean];

    /// Name, as labels show it.
    pub const fn name(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Max => "max",
            Fold::Min => "min",
            Fold::SumSquares => "sum_squares",
            Fold::Mean => "mean",
        }
    }

    /// How the elements are taken in.
    fn first(self) -> u32 {
        if self == Fold::Mean { Fold::Sum as u32 } else { self as u32 }
    }

    /// How partial results are taken in.
    fn second(self) -> u32 {
        if self == Fold::SumSquares { Fold::Sum as u32 } else { self.first() }
    }
}

/// Immediates of `reduce.wgsl`.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    kept: [u32; 3],
    out: [u32; 3],
    a_kept: [u32; 3],
    reduced: [u32; 3],
    a_reduced: [u32; 3],
    start_out: u32,
    start_a: u32,
    outputs: u32,
    elements: u32,
    part: u32,
    parts: u32,
    /// For the CPU kernel: fold, input type, output type, 8 bits each.
    codes: u32,
    /// For the CPU kernel: output bytes a unit owns.
    unit_bytes: u32,
    scale: f32,
}

const REDUCE: KernelSource = KernelSource {
    name: "reduce",
    wgsl: concat!(include_str!("../prelude/numbers.wgsl"), include_str!("reduce.wgsl")),
    entry: "main",
    aliases: &[],
    cpu: cpu::reduce,
};

/// Threads of a GPU workgroup (`GROUP` in the WGSL).
const GROUP: u32 = 128;

static TYPES: [[(&str, &str); 3]; 9] = input_and_out("A");

fn variant(a: Number, out: Number, code: u32, threads: u32) -> Variant {
    let aliases = &TYPES[a as usize * 3 + out as usize];
    let overrides = vec![
        ("A_BF16", a.is_bf16()),
        ("OUT_BF16", out.is_bf16()),
        ("CODE", code.into()),
        ("TPO", threads.into()),
    ];
    Variant { source: KernelSource { aliases, ..REDUCE }, overrides }
}

/// Threads that share an output: all, some, none.
const THREADS: [u32; 3] = [GROUP, 16, 1];

fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    for a in NUMBERS {
        for out in NUMBERS {
            for threads in THREADS {
                all.extend((0..4).map(|code| variant(a, out, code, threads)));
            }
        }
    }
    all.push(stream::variant());
    all
}

/// Outputs fewer than this, of more elements than [`PART`], are reduced in parts.
const FEW_OUTPUTS: usize = 256;

/// Elements of a part.
const PART: usize = 16_384;

/// Shape of the F32 scratch tensor that [`reduce`] needs for these shapes; `None` for none.
pub fn scratch_shape(a: &[usize], axes: &[usize]) -> Option<[usize; 2]> {
    let reduced = |axis: &usize| axes.contains(axis);
    let elements: usize = (0..a.len()).filter(reduced).map(|axis| a[axis]).product();
    let outputs: usize = (0..a.len()).filter(|axis| !reduced(axis)).map(|axis| a[axis]).product();
    (outputs < FEW_OUTPUTS && elements > PART && outputs > 0)
        .then(|| [outputs, elements.div_ceil(PART)])
}

/// Axes of `tensor` merged where neighbours allow it, at most 3, for one or two sets of strides.
fn merge<const N: usize>(axes: &[(usize, [usize; N])]) -> Option<[(u32, [u32; N]); 3]> {
    let mut merged: Vec<(usize, [usize; N])> = Vec::new();
    for &(extent, strides) in axes.iter().filter(|(extent, _)| *extent != 1) {
        match merged.last_mut() {
            Some((outer, outer_strides))
                if (0..N).all(|n| outer_strides[n] == strides[n].saturating_mul(extent)) =>
            {
                *outer *= extent;
                *outer_strides = strides;
            }
            _ => merged.push((extent, strides)),
        }
    }
    let mut out = [(1, [0; N]); 3];
    let first = 3usize.checked_sub(merged.len())?;
    for (slot, (extent, strides)) in out[first..].iter_mut().zip(merged) {
        *slot = (u32::try_from(extent).ok()?, strides.map(|stride| stride as u32));
    }
    Some(out)
}

/// `out = fold of a over axes`. `out` has the shape of `a` without those axes, or with extent 1
/// there. `scratch`, F32 and contiguous, is needed where [`scratch_shape`] says so.
pub fn reduce(
    session: &mut Session<'_>,
    fold: Fold,
    a: &Tensor,
    axes: &[usize],
    scratch: Option<&Tensor>,
    out: &Tensor,
) -> Result<()> {
    let op = fold.name();
    let operands = [a, out];
    let refuse = |reason: String| Err(shape(op, &operands, reason));
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != axes.len() || sorted.last().is_some_and(|&axis| axis >= a.rank()) {
        return refuse(format!("axes {axes:?} must be axes of the input, each once"));
    }
    let kept: Vec<usize> = (0..a.rank()).filter(|axis| !axes.contains(axis)).collect();
    let kept_shape: Vec<usize> = kept.iter().map(|&axis| a.shape()[axis]).collect();
    let with_ones: Vec<usize> =
        (0..a.rank()).map(|axis| if axes.contains(&axis) { 1 } else { a.shape()[axis] }).collect();
    let out_strides: Vec<usize> = match out.shape() {
        shape if shape == kept_shape => out.strides().to_vec(),
        shape if shape == with_ones => kept.iter().map(|&axis| out.strides()[axis]).collect(),
        _ => {
            return refuse(format!(
                "over axes {axes:?} the output is {kept_shape:?} or {with_ones:?}"
            ));
        }
    };
    let (Some(ta), Some(tout)) = (Number::of(a.dtype()), Number::of(out.dtype())) else {
        return Err(dtype(op, &operands, "types are F32, F16 and BF16"));
    };
    let elements: usize = sorted.iter().map(|&axis| a.shape()[axis]).product();
    if out.elements() == 0 {
        return Ok(());
    }
    if elements == 0 {
        return match fold {
            Fold::Sum | Fold::SumSquares => super::fill::fill(session, 0.0, out),
            _ => refuse("nothing has no maximum, minimum or mean".into()),
        };
    }
    let scale = if fold == Fold::Mean { 1.0 / elements as f32 } else { 1.0 };
    let axis = |&axis: &usize| (a.shape()[axis], [a.strides()[axis]]);
    let inner: Vec<_> = sorted.iter().map(axis).collect();
    // In the output's memory order, so that CPU units own stretches of it.
    let mut outer: Vec<(usize, [usize; 2])> = kept
        .iter()
        .zip(&out_strides)
        .map(|(&axis, &stride)| (a.shape()[axis], [stride, a.strides()[axis]]))
        .collect();
    outer.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
    let mut inside = 1;
    for (extent, strides) in outer.iter().rev().filter(|(extent, _)| *extent != 1) {
        if strides[0] < inside {
            return refuse("output elements share memory".into());
        }
        inside = strides[0].saturating_mul(*extent);
    }
    if a.span_bytes() > span_limit(session.device()) {
        return refuse("the input is larger than a binding; reduce it in parts".into());
    }
    let Some([outputs, parts]) = scratch_shape(a.shape(), axes) else {
        let pass = Pass { fold: fold.first(), scale, part: elements, parts: 1, types: (ta, tout) };
        return pass.record(session, op, a, &outer, &inner, out);
    };
    let Some(scratch) = scratch.filter(|s| s.dtype() == DType::F32 && s.is_contiguous()) else {
        return refuse(format!("a contiguous F32 scratch tensor {:?} is needed", [outputs, parts]));
    };
    if scratch.elements() < outputs * parts {
        return refuse(format!("the scratch tensor holds fewer than {outputs} x {parts} elements"));
    }
    let scratch =
        Tensor::strided(scratch.buffer(), &[outputs, parts], &[parts, 1], scratch.start())?;
    // Outputs in the order of `outer`, so that the second pass may walk them the same way.
    let mut place = parts;
    let mut to_scratch = outer.clone();
    for (extent, strides) in to_scratch.iter_mut().rev() {
        strides[0] = place;
        place *= *extent;
    }
    let summed = matches!(fold, Fold::Sum | Fold::Mean);
    if summed && outputs == 1 && can_stream(a) && a.read()?.binding_remainder() == 0 {
        stream_sum(session, a, &scratch)?;
        session.barrier_between(&[scratch.read()?], &[])?;
        let second = Pass { fold: 0, scale, part: parts, parts: 1, types: (Number::F32, tout) };
        return second.record(session, op, &scratch, &[], &[(parts, [1])], out);
    }
    let first =
        Pass { fold: fold.first(), scale: 1.0, part: PART, parts, types: (ta, Number::F32) };
    first.record(session, op, a, &to_scratch, &inner, &scratch)?;
    session.barrier_between(&[scratch.read()?], &[])?;
    let mut from_scratch = outer;
    for ((_, strides), (_, scratch)) in from_scratch.iter_mut().zip(&to_scratch) {
        strides[1] = scratch[0];
    }
    let second =
        Pass { fold: fold.second(), scale, part: parts, parts: 1, types: (Number::F32, tout) };
    second.record(session, op, &scratch, &from_scratch, &[(parts, [1])], out)
}

/// One dispatch of a reduction.
struct Pass {
    fold: u32,
    scale: f32,
    part: usize,
    parts: usize,
    types: (Number, Number),
}

impl Pass {
    fn record(
        &self,
        session: &mut Session<'_>,
        op: &'static str,
        a: &Tensor,
        outer: &[(usize, [usize; 2])],
        inner: &[(usize, [usize; 1])],
        out: &Tensor,
    ) -> Result<()> {
        let (Some(kept), Some(reduced)) = (merge(outer), merge(inner)) else {
            let reason = "kept or reduced axes do not merge into three; copy the input first";
            return Err(shape(op, &[a, out], reason));
        };
        let (from, to) = (a.read()?, out.write()?);
        let count = |axes: &[u32; 3]| axes.iter().product::<u32>();
        let (kept_extents, reduced_extents) = (kept.map(|k| k.0), reduced.map(|r| r.0));
        let outputs = count(&kept_extents);
        let elements = count(&reduced_extents);
        let codes = self.fold | (self.types.0 as u32) << 8 | (self.types.1 as u32) << 16;
        let mut params = Params {
            kept: kept_extents,
            out: kept.map(|k| k.1[0]),
            a_kept: kept.map(|k| k.1[1]),
            reduced: reduced_extents,
            a_reduced: reduced.map(|r| r.1[0]),
            start_out: to.start_in(out.dtype().block_bytes()),
            start_a: from.start_in(a.dtype().block_bytes()),
            outputs,
            elements,
            part: self.part as u32,
            parts: self.parts as u32,
            codes,
            unit_bytes: 0,
            scale: self.scale,
        };
        let results = u64::from(outputs) * self.parts as u64;
        // On a software device a barrier costs more than what it shares out. Else: alone where neighbours of an output lie side by side; all together along a row.
        let software = session.device().info().kind == DeviceKind::Software;
        let threads = match self.part {
            _ if software && elements > 1 << 20 => 1,
            _ if params.a_kept[2] == 1 && outputs >= 4096 => 1,
            0..=15 => 1,
            16..=511 => 16,
            _ => GROUP,
        };
        let kernel = variant(self.types.0, self.types.1, self.fold, threads).compile(session)?;
        let unit_bytes = cpu::unit_bytes(&params, out);
        params.unit_bytes = unit_bytes as u32;
        let units = to.len().div_ceil(unit_bytes) as u32;
        let dispatch = Dispatch::new(&kernel)
            .label(op)
            .bind(from)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, results.div_ceil((GROUP / threads).into())))
            .cpu(units, [Split::Chunks(unit_bytes)]);
        session.dispatch(dispatch)?;
        Ok(())
    }
}
