//! Chains of pointwise functions in one dispatch: `r = a`, then step by step `r = f(r)` or
//! `r = f(r, side)` with up to three other operands, arithmetic in f32 throughout. The program is a
//! small tensor; GPU kernels have its functions compiled in and read only its parameters, the CPU
//! kernel reads all of it. What fusion makes of runs of pointwise nodes.

mod cases;
mod cpu;
pub mod node;
mod program;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{Dispatch, Session, Split};

use super::Operation;
use super::case::Variant;
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::{Walk, span_limit};
use crate::number::{Aliases, NUMBERS, Number, OUT, WGSL};
pub use program::{MAX_SIDES, MAX_STEPS, Program, Step};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "chain",
    summary: "runs of pointwise functions in one pass, as fusion makes them",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Axes that a dispatch walks; more are taken one position at a time.
const RANK: usize = 4;

/// Immediates (WGSL: `prelude.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    extents: [u32; RANK],
    out: [u32; RANK],
    sides: [[u32; RANK]; 4],
    starts: [u32; 5],
    count: u32,
    start_program: u32,
}

macro_rules! source {
    ($name:literal, $file:literal, $cpu:path) => {
        KernelSource {
            name: $name,
            wgsl: concat!(
                include_str!("../prelude/numbers.wgsl"),
                include_str!("../prelude/functions.wgsl"),
                include_str!("prelude.wgsl"),
                include_str!($file)
            ),
            entry: "main",
            aliases: &[],
            cpu: $cpu,
        }
    };
}

const CHAIN: KernelSource = source!("chain", "chain.wgsl", cpu::chain);
const CHAIN_IN_PLACE: KernelSource =
    source!("chain_in_place", "chain_in_place.wgsl", cpu::chain_in_place);

/// Aliases for every mix of types: a, b, c, d, out, the last varying fastest.
static TYPES: [[(&str, &str); 6]; 243] = {
    let mut table = [[("", ""); 6]; 243];
    let mut at = 0;
    while at < 243 {
        let [out, through] = OUT[at % 3];
        table[at] = [
            ("A", WGSL[at / 81]),
            ("B", WGSL[at / 27 % 3]),
            ("C", WGSL[at / 9 % 3]),
            ("D", WGSL[at / 3 % 3]),
            out,
            through,
        ];
        at += 1;
    }
    table
};

/// A kernel for a program over operands (a and the sides, filled up with F32) of such types.
fn variant(
    program: &Program,
    types: [Number; 4],
    out: Number,
    in_place: bool,
    rank: u32,
) -> Variant {
    let index = types.iter().fold(0, |index, number| index * 3 + *number as usize);
    let all: Aliases = &TYPES[index * 3 + out as usize];
    let (source, aliases) = match in_place {
        true => (CHAIN_IN_PLACE, &all[1..]),
        false => (CHAIN, all),
    };
    let mut overrides = vec![("OUT_BF16", out.is_bf16()), ("RANK", f64::from(rank))];
    let flags = ["A_BF16", "B_BF16", "C_BF16", "D_BF16"];
    let flags = flags.into_iter().zip(types).skip(usize::from(in_place));
    overrides.extend(flags.map(|(flag, number)| (flag, number.is_bf16())));
    let steps = ["S0", "S1", "S2", "S3", "S4", "S5", "S6", "S7"];
    overrides.extend(steps.into_iter().zip(program.codes().map(f64::from)));
    Variant { source: KernelSource { aliases, ..source }, overrides }
}

fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    let program = cases::every_kind_of_step();
    for in_place in [false, true] {
        for number in NUMBERS {
            for rank in 1..=RANK as u32 {
                all.push(variant(&program, [number; 4], number, in_place, rank));
            }
            for other in NUMBERS {
                let types = [number, other, number, other];
                all.push(variant(&program, types, other, in_place, 2));
            }
        }
    }
    all
}

/// `out = program(a, sides…)`; operands repeat to the shape of `out`. `out` may be `a` itself.
/// `steps` is [`Program::tensor`].
pub fn chain(
    session: &mut Session<'_>,
    program: &Program,
    a: &Tensor,
    sides: &[Tensor],
    steps: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let operands: Vec<&Tensor> = [a].into_iter().chain(sides).chain([out]).collect();
    if sides.len() != program.sides() || steps.shape() != [Program::WORDS] {
        let reason = format!("the program takes {} operands beside a", program.sides());
        return Err(shape("chain", &operands, reason));
    }
    if operands.iter().any(|tensor| Number::of(tensor.dtype()).is_none()) {
        return Err(dtype("chain", &operands, "types are F32, F16 and BF16"));
    }
    let in_place = a.is_same_view(out);
    // Operands in the kernel's order, those not used filled up with one that is.
    let mut all = Vec::with_capacity(5);
    for tensor in [a].into_iter().chain(sides) {
        all.push(tensor.broadcast_to(out.shape()).map_err(|_: crate::Error| {
            shape("chain", &operands, format!("{tensor} does not repeat to {:?}", out.shape()))
        })?);
    }
    let filler = if in_place { sides.len().min(1) } else { 0 };
    while all.len() < 4 {
        all.push(all[filler].clone());
    }
    if out.elements() == 0 {
        return Ok(());
    }
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| all[at].clone());
    pieces(
        session,
        &Run { program, steps, in_place, sides: sides.len() },
        [out.clone(), a, b, c, d],
    )
}

/// What stays the same from piece to piece.
struct Run<'a> {
    program: &'a Program,
    steps: &'a Tensor,
    in_place: bool,
    sides: usize,
}

/// Halves what does not fit in a binding, and takes axes beyond [`RANK`] one position at a time.
fn pieces(session: &mut Session<'_>, run: &Run<'_>, operands: [Tensor; 5]) -> Result<()> {
    let limit = span_limit(session.device());
    let fits = operands.iter().all(|tensor| tensor.span_bytes() <= limit);
    let walk = Walk::new("chain", operands.each_ref())?;
    if fits && walk.rank <= RANK {
        return record(session, run, &operands, &walk);
    }
    let out = &operands[0];
    // The axis of the widest stride: its halves do not interleave.
    let axes = (0..out.rank()).filter(|&axis| out.shape()[axis] > 1);
    let Some(axis) = axes.max_by_key(|&axis| out.strides()[axis]) else {
        return Err(shape("chain", &operands.each_ref(), "one element does not fit in a binding"));
    };
    let extent = out.shape()[axis];
    let part = if fits { 1 } else { extent.div_ceil(2) };
    for start in (0..extent).step_by(part) {
        let range = start..(start + part).min(extent);
        let cut = |at: usize| operands[at].slice(axis, range.clone());
        pieces(session, run, [cut(0)?, cut(1)?, cut(2)?, cut(3)?, cut(4)?])?;
    }
    Ok(())
}

/// Elements of a GPU workgroup (`GROUP * EACH` in the WGSL), and output bytes of a CPU unit.
const GROUP_ELEMENTS: u64 = 1024;
const UNIT_BYTES: u64 = 64 << 10;

fn record(
    session: &mut Session<'_>,
    run: &Run<'_>,
    operands: &[Tensor; 5],
    walk: &Walk<5>,
) -> Result<()> {
    let types =
        [1, 2, 3, 4].map(|at: usize| Number::of(operands[at].dtype()).unwrap_or(Number::F32));
    let own = Number::of(operands[0].dtype()).unwrap_or(Number::F32);
    let kernel =
        variant(run.program, types, own, run.in_place, walk.rank as u32).compile(session)?;
    let last = |axes: &[u32; crate::MAX_RANK]| -> [u32; RANK] {
        std::array::from_fn(|axis| axes[crate::MAX_RANK - RANK + axis])
    };
    let out = operands[0].write()?;
    let steps = run.steps.read()?;
    let mut params = Params {
        extents: last(&walk.extents),
        out: last(&walk.strides[0]),
        sides: [1, 2, 3, 4].map(|at| last(&walk.strides[at])),
        starts: [out.start_in(operands[0].dtype().block_bytes()), 0, 0, 0, 0],
        count: walk.count(),
        start_program: steps.start_in(4),
    };
    let mut dispatch = Dispatch::new(&kernel).label("chain");
    for (at, operand) in operands.iter().enumerate().skip(1 + usize::from(run.in_place)) {
        // In place and without sides, the slots of sides hold the program: never looked at.
        let filler = run.in_place && run.sides == 0;
        let span = if filler { run.steps.read()? } else { operand.read()? };
        if !filler {
            params.starts[at] = span.start_in(operand.dtype().block_bytes());
        }
        dispatch = dispatch.bind(span);
    }
    let count = u64::from(walk.count()).div_ceil(GROUP_ELEMENTS);
    let units = out.len().div_ceil(UNIT_BYTES) as u32;
    let dispatch = dispatch
        .bind(steps)
        .bind(out)
        .immediates(&params)
        .groups(groups(session, count))
        .cpu(units, [Split::Chunks(UNIT_BYTES)]);
    session.dispatch(dispatch)?;
    Ok(())
}
