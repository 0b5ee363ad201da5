//! Group norm in two dispatches: mean and squares of each part of a group into a scratch tensor, then
//! what comes out, channel by channel.

use tintype_gpu::kernel::{KernelSource, Unit, UnitError};
use tintype_gpu::{Dispatch, Session, Split};

use super::{HAS_GAIN, HAS_SHIFT, TYPES};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::{NUMBERS, Number, Numbers, NumbersMut, WGSL};
use crate::ops::case::Variant;
use crate::ops::rows::{Place, RowSpace, spaces, unit_rows};
use crate::ops::walked::{Start, groups};
use crate::simd::fold::{sum, sum_squares_about};
use crate::simd::{sigmoid, vectorize};

/// A norm over groups of channels of `[batch, channels, ..]`, then optionally SiLU.
#[derive(Debug, Clone, Copy)]
pub struct GroupNorm<'a> {
    /// Groups; divide the channels.
    pub groups: usize,
    /// ε
    pub eps: f32,
    /// Factors, `[channels]` or `[batch, channels]`.
    pub gain: Option<&'a Tensor>,
    /// Added to each factor.
    pub gain_offset: f32,
    /// Summands, shaped and typed as `gain`.
    pub shift: Option<&'a Tensor>,
    /// Whether v·sigmoid(v) follows.
    pub silu: bool,
}

/// Immediates of `group_stats.wgsl`.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct StatsParams {
    groups: u32,
    elements: u32,
    positions: u32,
    part: u32,
    parts: u32,
    jobs: u32,
    /// For the CPU kernel: type of x.
    codes: u32,
    start_x: u32,
    x_batch: u32,
    x_group: u32,
    x_channel: u32,
    x_position: u32,
    start_out: u32,
}

/// Immediates of `group_apply.wgsl`.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct ApplyParams {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: types of x, gain and shift, out, as row norms have them; bit 12: SiLU.
    codes: u32,
    unit_rows: u32,
    eps: f32,
    offset: f32,
    channels: u32,
    elements: u32,
    part: u32,
    parts: u32,
    start_stats: u32,
    x: Place,
    gain: Place,
    shift: Place,
    out: Place,
}

const SILU: u32 = 1 << 12;

const STATS: KernelSource = KernelSource {
    name: "group_norm_stats",
    wgsl: concat!(include_str!("../prelude/numbers.wgsl"), include_str!("group_stats.wgsl")),
    entry: "main",
    aliases: &[],
    cpu: stats_on_cpu,
};

const APPLY: KernelSource = KernelSource {
    name: "group_norm",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("../prelude/functions.wgsl"),
        include_str!("group_apply.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: apply_on_cpu,
};

static STATS_TYPES: [[(&str, &str); 1]; 3] = [[("X", WGSL[0])], [("X", WGSL[1])], [("X", WGSL[2])]];

fn stats_variant(x: Number) -> Variant {
    let source = KernelSource { aliases: &STATS_TYPES[x as usize], ..STATS };
    Variant { source, overrides: vec![("X_BF16", x.is_bf16())] }
}

fn apply_variant(types: [Number; 3], [gain, shift, silu]: [bool; 3]) -> Variant {
    let [x, w, out] = types;
    let aliases = &TYPES[x as usize * 9 + w as usize * 3 + out as usize];
    let flag = |on: bool| f64::from(u8::from(on));
    let overrides = vec![
        ("X_BF16", x.is_bf16()),
        ("W_BF16", w.is_bf16()),
        ("OUT_BF16", out.is_bf16()),
        ("HAS_GAIN", flag(gain)),
        ("HAS_SHIFT", flag(shift)),
        ("SILU", flag(silu)),
    ];
    Variant { source: KernelSource { aliases, ..APPLY }, overrides }
}

pub(super) fn kernels() -> Vec<Variant> {
    let mut all: Vec<Variant> = NUMBERS.map(stats_variant).into();
    for x in NUMBERS {
        for w in NUMBERS {
            all.extend(NUMBERS.map(|out| apply_variant([x, w, out], [true; 3])));
        }
    }
    for flags in 0..8 {
        let flags = [flags & 1 != 0, flags & 2 != 0, flags & 4 != 0];
        all.push(apply_variant([Number::F32; 3], flags));
    }
    all
}

/// Elements of a part, at least, and parts of a group, at most: each is summed by one workgroup, and
/// all are joined by every workgroup of the second dispatch.
const PART: usize = 16_384;
const PARTS: usize = 64;

/// Elements that a workgroup of `group_apply.wgsl` gives (`GROUP * EACH` there).
const STRETCH: u64 = 2048;

fn part(elements: usize) -> usize {
    PART.max(elements.div_ceil(PARTS))
}

/// Shape of the F32 scratch tensor that [`group_norm`] needs for an input of this shape.
pub fn group_scratch_shape(x: &[usize], groups: usize) -> [usize; 3] {
    let batch = x.first().copied().unwrap_or(1);
    let elements = x.iter().skip(1).product::<usize>() / groups.max(1);
    [batch * groups, elements.div_ceil(part(elements)).max(1), 2]
}

/// `out = group norm of x`, `[batch, channels, ..]`. `scratch` is F32, contiguous, and has the shape
/// that [`group_scratch_shape`] says.
pub fn group_norm(
    session: &mut Session<'_>,
    norm: &GroupNorm<'_>,
    x: &Tensor,
    scratch: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let op = "group_norm";
    let operands = [x, norm.gain.unwrap_or(x), norm.shift.unwrap_or(x), scratch, out];
    let refuse = |reason: String| Err(shape(op, &operands, reason));
    let numbers = operands.map(|tensor| Number::of(tensor.dtype()));
    let [Some(tx), Some(tg), Some(ts), Some(Number::F32), Some(tout)] = numbers else {
        return Err(dtype(op, &operands, "types are F32, F16 and BF16, of the scratch tensor F32"));
    };
    if norm.gain.is_some() && norm.shift.is_some() && tg != ts {
        return Err(dtype(op, &operands, "gain and shift must have one type"));
    }
    let tw = if norm.gain.is_some() { tg } else { ts };
    if x.rank() < 2 || out.shape() != x.shape() {
        return refuse("input and output must have one shape [batch, channels, ..]".into());
    }
    let (batch, channels) = (x.shape()[0], x.shape()[1]);
    if norm.groups == 0 || !channels.is_multiple_of(norm.groups) {
        return refuse(format!("{} groups do not divide {channels} channels", norm.groups));
    }
    if !(norm.eps.is_finite() && norm.eps >= 0.0 && norm.gain_offset.is_finite()) {
        return refuse(format!("epsilon is {}; it must not be negative", norm.eps));
    }
    if x.elements() == 0 {
        return Ok(());
    }
    let wanted = group_scratch_shape(x.shape(), norm.groups);
    if scratch.shape() != wanted || !scratch.is_contiguous() {
        return refuse(format!("a contiguous scratch tensor {wanted:?} is needed"));
    }
    let (Some(x), Some(out)) = (positions_merged(x)?, positions_merged(out)?) else {
        return refuse("axes after the channels do not merge into one; copy it first".into());
    };
    if batch > 1 && out.strides()[0] < out.strides()[1] {
        return refuse("the output's batches do not lie one after another; copy it after".into());
    }
    let weights = |tensor: Option<&Tensor>| {
        let Some(tensor) = tensor else { return Ok(x.clone()) };
        tensor
            .insert_axis(tensor.rank())
            .and_then(|tensor| tensor.broadcast_to(&[batch, channels, 1]))
            .map_err(|_| shape(op, &operands, format!("{tensor} is not [batch, channels]")))
    };
    let (gain, shift) = (weights(norm.gain)?, weights(norm.shift)?);
    let limit = span_limit(session.device());
    if x.span_bytes() > limit || scratch.span_bytes() > limit {
        return refuse("the input is larger than a binding; norm it batch by batch".into());
    }
    stats(session, norm.groups, tx, &x, scratch)?;
    session.barrier_between(&[scratch.read()?], &[])?;
    let flags = [norm.gain.is_some(), norm.shift.is_some(), norm.silu];
    let kernel = apply_variant([tx, tw, tout], flags).compile(session)?;
    let bits = [HAS_GAIN, HAS_SHIFT, SILU];
    let flags = bits.iter().zip(flags).map(|(bit, on)| if on { *bit } else { 0 }).sum::<u32>();
    let codes = tx as u32 | (tw as u32) << 4 | (tout as u32) << 6 | flags;
    // Statistics per channel, in a line for each of their rows' first numbers.
    let per_channel = channels / norm.groups;
    let all = spaces(session.device(), op, [&x, &gain, &shift, &out], &[3])?;
    let pieces = all.len();
    for (at, space) in all.into_iter().enumerate() {
        // Cut, if at all, along batches.
        if pieces != 1 && (space.outer != [1, channels as u32] || pieces != batch) {
            return refuse(
                "the output's channels do not lie one after another; copy it after".into(),
            );
        }
        let first = at * norm.groups;
        let rows = space.rows() as usize / per_channel;
        let stats = scratch.slice(0, first..first + rows)?;
        apply(session, norm, &kernel, &space, &stats, [per_channel, codes as usize])?;
    }
    Ok(())
}

/// As `[batch, channels, positions]`, if strides allow it.
fn positions_merged(tensor: &Tensor) -> Result<Option<Tensor>> {
    let mut positions = (1, 0);
    for axis in (2..tensor.rank()).rev() {
        let (extent, stride) = (tensor.shape()[axis], tensor.strides()[axis]);
        if extent == 1 {
            continue;
        }
        if positions.0 != 1 && stride != positions.0 * positions.1 {
            return Ok(None);
        }
        positions = (positions.0 * extent, if positions.0 == 1 { stride } else { positions.1 });
    }
    let shape = [tensor.shape()[0], tensor.shape()[1], positions.0];
    let strides = [tensor.strides()[0], tensor.strides()[1], positions.1.max(1)];
    Tensor::strided(tensor.buffer(), &shape, &strides, tensor.start()).map(Some)
}

fn stats(
    session: &mut Session<'_>,
    groups_of: usize,
    number: Number,
    x: &Tensor,
    scratch: &Tensor,
) -> Result<()> {
    let per_group = x.shape()[1] / groups_of;
    let elements = per_group * x.shape()[2];
    let (from, to) = (x.read()?, scratch.write()?);
    let jobs = (scratch.elements() / 2) as u32;
    let params = StatsParams {
        groups: groups_of as u32,
        elements: elements as u32,
        positions: x.shape()[2] as u32,
        part: part(elements) as u32,
        parts: scratch.shape()[1] as u32,
        jobs,
        codes: number as u32,
        start_x: from.start_in(x.dtype().block_bytes()),
        x_batch: x.strides()[0] as u32,
        x_group: (x.strides()[1] * per_group) as u32,
        x_channel: x.strides()[1] as u32,
        x_position: x.strides()[2] as u32,
        start_out: to.start_in(4),
    };
    let kernel = stats_variant(number).compile(session)?;
    let dispatch = Dispatch::new(&kernel)
        .label("group_norm")
        .bind(from)
        .bind(to)
        .immediates(&params)
        .groups(groups(session, jobs.into()))
        .cpu(jobs, [Split::Chunks(8)]);
    session.dispatch(dispatch)?;
    Ok(())
}

fn apply(
    session: &mut Session<'_>,
    norm: &GroupNorm<'_>,
    kernel: &tintype_gpu::Kernel,
    space: &RowSpace<4>,
    stats: &Tensor,
    [per_channel, codes]: [usize; 2],
) -> Result<()> {
    let [x, gain, shift, out] = &space.operands;
    let n = x.shape()[2];
    let elements = per_channel * n;
    let size = |tensor: &Tensor| tensor.dtype().block_bytes();
    let reads = [x.read()?, gain.read()?, shift.read()?];
    let start = |at: usize| reads[at].start_in(size(&space.operands[at]));
    let (from_stats, to) = (stats.read()?, out.write()?);
    let unit_rows = unit_rows(n);
    let params = ApplyParams {
        width: space.outer[1],
        rows: space.rows(),
        n: n as u32,
        codes: codes as u32,
        unit_rows,
        eps: norm.eps,
        offset: norm.gain_offset,
        channels: per_channel as u32,
        elements: elements as u32,
        part: part(elements) as u32,
        parts: stats.shape()[1] as u32,
        start_stats: from_stats.start_in(4),
        x: space.place(0, start(0)),
        gain: space.place(1, start(1)),
        shift: space.place(2, start(2)),
        out: space.place(3, to.start_in(size(out))),
    };
    let [x, gain, shift] = reads;
    let count = u64::from(space.rows()) * (n as u64).div_ceil(STRETCH);
    let dispatch = Dispatch::new(kernel)
        .label("group_norm")
        .bind(x)
        .bind(from_stats)
        .bind(gain)
        .bind(shift)
        .bind(to)
        .immediates(&params)
        .groups(groups(session, count))
        .cpu(space.rows().div_ceil(unit_rows), [space.split(3, unit_rows)]);
    session.dispatch(dispatch)?;
    Ok(())
}

fn stats_on_cpu(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: StatsParams = unit.immediates()?;
    let x = Numbers::read(unit, 0, Number::from_code(p.codes))?;
    let out: &mut [f32] = unit.write(1)?;
    let (row, part) = (unit.index() / p.parts, unit.index() % p.parts);
    let (batch, group) = (row / p.groups, row % p.groups);
    let from = [(batch, p.x_batch), (group, p.x_group)];
    let from: usize = from.iter().map(|&(at, stride)| at as usize * stride as usize).sum();
    let first = part * p.part;
    let last = (first + p.part).min(p.elements);
    let mut values = vec![0.0f32; (last - first) as usize];
    let mut at = first;
    while at < last {
        let (channel, position) = (at / p.positions, at % p.positions);
        let n = (p.positions - position).min(last - at);
        let begin = from
            + channel as usize * p.x_channel as usize
            + position as usize * p.x_position as usize;
        let to = (at - first) as usize;
        x.load(begin, p.x_position as usize, &mut values[to..to + n as usize]);
        at += n;
    }
    let mean = sum(&values) / values.len() as f32;
    out[0] = mean;
    out[1] = sum_squares_about(&values, mean);
    Ok(())
}

fn apply_on_cpu(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: ApplyParams = unit.immediates()?;
    let number = |bit: u32| Number::from_code(p.codes >> bit & 3);
    let x = Numbers::read(unit, 0, number(0))?;
    let stats: &[f32] = unit.read(1)?;
    let weight = |slot: usize, flag: u32| match p.codes & flag {
        0 => Ok(None),
        _ => Numbers::read(unit, slot, number(4)).map(Some),
    };
    let (gain, shift) = (weight(2, HAS_GAIN)?, weight(3, HAS_SHIFT)?);
    let mut out = NumbersMut::write(unit, 4, number(6))?;
    let first = unit.index() * p.unit_rows;
    let mut row = vec![0.0f32; p.n as usize];
    for at in first..(first + p.unit_rows).min(p.rows) {
        let parts = p.parts as usize * 2;
        let own = &stats[(at / p.channels) as usize * parts..][..parts];
        let (mean, scale) = joined(&p, own);
        let one = |from: Option<Numbers<'_>>, place: &Place| {
            let mut value = [0.0f32];
            from.map(|from| {
                from.load(place.row(at, p.width), 1, &mut value);
                value[0]
            })
        };
        let g = one(gain, &p.gain).map_or(1.0, |gain| gain + p.offset);
        let s = one(shift, &p.shift).unwrap_or(0.0);
        x.load(p.x.row(at, p.width), p.x.inner as usize, &mut row);
        let silu = p.codes & SILU != 0;
        vectorize(
            #[inline(always)]
            || {
                row.iter_mut().for_each(|v| *v = ((*v - mean) * scale).mul_add(g, s));
                if silu {
                    row.iter_mut().for_each(|v| *v *= sigmoid(*v));
                }
            },
        );
        let to = p.out.row(at, p.width) - p.out.row(first, p.width);
        out.store(to, p.out.inner as usize, &row);
    }
    Ok(())
}

/// Mean and scale of a group from its parts, one after another (Chan et al. 1979).
fn joined(p: &ApplyParams, parts: &[f32]) -> (f32, f32) {
    let (mut mean, mut squares) = (parts[0], parts[1]);
    for (at, part) in (1u32..).zip(parts[2..].chunks_exact(2)) {
        let before = (at * p.part) as f32;
        let own = p.part.min(p.elements - at * p.part) as f32;
        let delta = part[0] - mean;
        let share = own / (before + own);
        mean = delta.mul_add(share, mean);
        squares += (delta * delta).mul_add(before * share, part[1]);
    }
    (mean, 1.0 / (squares / p.elements as f32 + p.eps).sqrt())
}
