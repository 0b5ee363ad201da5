//! Reductions on the CPU: 64 running values in lanes, block after block, then a tree; or, where
//! outputs lie side by side and their elements do not, a stretch of outputs at once.

use tintype_gpu::kernel::{Unit, UnitError};

use super::{Fold, Params, stream};
use crate::layout::Walk;
use crate::number::{Number, Numbers, NumbersMut};
use crate::simd::vectorize;
use crate::{MAX_RANK, Tensor};

/// Running values of a fold along a row.
const LANES: usize = 64;

/// Elements loaded, and outputs held, at a time.
const BLOCK: usize = 1024;

/// Elements a unit reduces: some ten microseconds to a hundred.
const UNIT_ELEMENTS: u64 = 256 << 10;

/// Rows summed before they join the total: bounds rounding in long columns.
const COLUMN_ROWS: u32 = 256;

/// The walk over outputs and parts, in the output's memory order.
fn walk(params: &Params) -> Walk<1> {
    let [x, y, z] = params.kept;
    let [sx, sy, sz] = params.out;
    let rank = MAX_RANK;
    Walk { extents: [1, 1, x, y, z, params.parts], strides: [[0, 0, sx, sy, sz, 1]], rank }
}

/// Output bytes a unit owns.
pub(super) fn unit_bytes(params: &Params, out: &Tensor) -> u64 {
    let results = (UNIT_ELEMENTS / u64::from(params.part.max(1))).max(1);
    let apart = if params.parts > 1 { 1 } else { params.out[2].max(1) };
    results * u64::from(apart) * out.dtype().block_bytes()
}

/// One step of a fold, chosen once a loop.
#[derive(Clone, Copy)]
enum Step {
    Add,
    Max,
    Min,
    AddSquare,
}

impl Step {
    fn from_code(code: u32) -> Step {
        match code {
            code if code == Fold::Max as u32 => Step::Max,
            code if code == Fold::Min as u32 => Step::Min,
            code if code == Fold::SumSquares as u32 => Step::AddSquare,
            _ => Step::Add,
        }
    }

    fn initial(self, first: f32) -> f32 {
        match self {
            Step::Max | Step::Min => first,
            Step::Add | Step::AddSquare => 0.0,
        }
    }

    /// How running values join.
    #[inline(always)]
    fn join(self, a: f32, b: f32) -> f32 {
        match self {
            Step::Max => a.max(b),
            Step::Min => a.min(b),
            Step::Add | Step::AddSquare => a + b,
        }
    }

    /// `into[i] = step(into[i], values[i])` over the shorter of both.
    fn take(self, into: &mut [f32], values: &[f32]) {
        #[inline(always)]
        fn each(into: &mut [f32], values: &[f32], f: impl Fn(f32, f32) -> f32) {
            for (into, value) in into.iter_mut().zip(values) {
                *into = f(*into, *value);
            }
        }
        match self {
            Step::Add => each(into, values, |s, v| s + v),
            Step::Max => each(into, values, f32::max),
            Step::Min => each(into, values, f32::min),
            Step::AddSquare => each(into, values, |s, v| v.mul_add(v, s)),
        }
    }

    /// Takes a stretch of a row into the lanes.
    fn lanes(self, lanes: &mut [f32; LANES], values: &[f32]) {
        #[inline(always)]
        fn each(lanes: &mut [f32; LANES], values: &[f32], f: impl Fn(f32, f32) -> f32) {
            let mut chunks = values.chunks_exact(LANES);
            for chunk in &mut chunks {
                for lane in 0..LANES {
                    lanes[lane] = f(lanes[lane], chunk[lane]);
                }
            }
            for (lane, value) in lanes.iter_mut().zip(chunks.remainder()) {
                *lane = f(*lane, *value);
            }
        }
        vectorize(
            #[inline(always)]
            || match self {
                Step::Add => each(lanes, values, |s, v| s + v),
                Step::Max => each(lanes, values, f32::max),
                Step::Min => each(lanes, values, f32::min),
                Step::AddSquare => each(lanes, values, |s, v| v.mul_add(v, s)),
            },
        );
    }

    /// Joins the lanes, halves on halves.
    fn tree(self, lanes: &[f32; LANES]) -> f32 {
        let mut lanes = *lanes;
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] = self.join(lanes[lane], lanes[lane + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

/// Offset of position `at` of a walk over three axes.
fn place(extents: &[u32; 3], strides: &[u32; 3], at: u32) -> usize {
    let (q, z) = (at / extents[2], at % extents[2]);
    let (x, y) = (q / extents[1], q % extents[1]);
    [x, y, z].iter().zip(strides).map(|(&n, &stride)| n as usize * stride as usize).sum()
}

pub(super) fn reduce(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let step = Step::from_code(params.codes & 0xff);
    let a = Numbers::read(unit, 0, Number::from_code(params.codes >> 8 & 0xff))?;
    let number = Number::from_code(params.codes >> 16 & 0xff);
    let (index, bytes) = (u64::from(unit.index()), u64::from(params.unit_bytes));
    let mut out = NumbersMut::write(unit, 1, number)?;
    let size = number.dtype().block_bytes();
    let (start, end) = (index * bytes / size, (index + 1) * bytes / size);
    let walk = walk(&params);
    let (first, last) = (walk.first_at(start), walk.first_at(end));
    let side_by_side = params.parts == 1
        && params.a_kept[2] == 1
        && params.kept[2] >= 16
        && params.a_reduced[2] != 1;
    let mut block = [0.0f32; BLOCK];
    let mut at = first;
    while at < last {
        let output = (at / u64::from(params.parts)) as u32;
        let from = place(&params.kept, &params.a_kept, output);
        let to = place(&params.kept, &params.out, output);
        if side_by_side {
            let row_left = u64::from(params.kept[2] - output % params.kept[2]);
            let n = (last - at).min(row_left).min(BLOCK as u64) as usize;
            let mut total = [0.0f32; BLOCK];
            columns(&params, step, a, from, &mut total[..n], &mut block);
            out.store(to - start as usize, params.out[2] as usize, &total[..n]);
            at += n as u64;
        } else {
            let part = (at % u64::from(params.parts)) as u32;
            let value = row(&params, step, a, from, part, &mut block) * params.scale;
            out.store(to + part as usize - start as usize, 1, &[value]);
            at += 1;
        }
    }
    Ok(())
}

/// One output's part: its elements `part·params.part ..`.
fn row(
    params: &Params,
    step: Step,
    a: Numbers<'_>,
    from: usize,
    part: u32,
    block: &mut [f32; BLOCK],
) -> f32 {
    let mut at = part * params.part;
    let last = at.saturating_add(params.part).min(params.elements);
    let inner = params.reduced[2];
    let mut lanes = None;
    while at < last {
        let begin = from + place(&params.reduced, &params.a_reduced, at);
        let n = (inner - at % inner).min(last - at).min(BLOCK as u32);
        let values = a.stretch(begin, params.a_reduced[2] as usize, n as usize, block);
        let lanes = lanes.get_or_insert([step.initial(values[0]); LANES]);
        step.lanes(lanes, values);
        at += n;
    }
    lanes.map_or(0.0, |lanes| step.tree(&lanes))
}

/// Neighbouring outputs at once, row after row of the input.
fn columns(
    params: &Params,
    step: Step,
    a: Numbers<'_>,
    from: usize,
    total: &mut [f32],
    block: &mut [f32; BLOCK],
) {
    let n = total.len();
    let mut some = [0.0f32; BLOCK];
    let mut at = 0;
    while at < params.elements {
        let rows = COLUMN_ROWS.min(params.elements - at);
        for row in at..at + rows {
            let begin = from + place(&params.reduced, &params.a_reduced, row);
            let values = a.stretch(begin, 1, n, block);
            vectorize(
                #[inline(always)]
                || {
                    if row == at {
                        some[..n].iter_mut().zip(values).for_each(|(s, v)| *s = step.initial(*v));
                    }
                    step.take(&mut some[..n], values);
                },
            );
        }
        vectorize(
            #[inline(always)]
            || {
                for (total, some) in total.iter_mut().zip(&some) {
                    *total = if at == 0 { *some } else { step.join(*total, *some) };
                }
            },
        );
        at += rows;
    }
    total.iter_mut().for_each(|value| *value *= params.scale);
}

/// The first pass of a long sum.
pub(super) fn stream(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: stream::Params = unit.immediates()?;
    let a: &[f32] = unit.read(0)?;
    let first = u64::from(unit.index()) * stream::UNIT_PARTS;
    for (at, out) in (first..).zip(unit.write::<f32>(1)?) {
        let end = u64::from(params.vectors);
        let from = (at * u64::from(params.part)).min(end) as usize * 4;
        let to = ((at + 1) * u64::from(params.part)).min(end) as usize * 4;
        let mut lanes = [0.0; LANES];
        Step::Add.lanes(&mut lanes, &a[from..to]);
        *out = Step::Add.tree(&lanes);
    }
    Ok(())
}
