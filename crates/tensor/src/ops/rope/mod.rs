//! Rotary positions (Su et al. 2021): pairs of a head's numbers are turned by position·frequency.
//! Positions and frequencies are operands, so that a recorded pass serves every step, and base,
//! scaling and YaRN are the table's business. Several axes share out the pairs.

mod cases;
mod cpu;
mod node;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session};

pub use node::RopeOp;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, input_and_out};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "rope",
    summary: "rotary positions: neighbours or halves, part of a head, up to four axes",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Which pairs are turned, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Neighbours are pairs (GPT-J, "normal"); else numbers half the rotated part apart (NeoX).
    pub interleaved: bool,
    /// Factor of cosines and sines (YaRN's attention factor), else 1.
    pub scale: f32,
    /// Pairs of each axis of positions, in order; 0 for none. They add up to the frequencies.
    pub sections: [usize; 4],
}

/// Immediates (WGSL: `rope.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: types of x and out in 2 bits each.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    pairs: u32,
    interleaved: u32,
    axis_stride: u32,
    start_frequencies: u32,
    scale: f32,
    ends: [u32; 4],
    x: Place,
    positions: Place,
    out: Place,
}

const ROPE: KernelSource = KernelSource {
    name: "rope",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("../prelude/turn.wgsl"),
        include_str!("rope.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::rope,
};

static TYPES: [[(&str, &str); 3]; 9] = input_and_out("X");

fn variant(x: Number, out: Number) -> Variant {
    let aliases = &TYPES[x as usize * 3 + out as usize];
    let overrides = vec![("X_BF16", x.is_bf16()), ("OUT_BF16", out.is_bf16())];
    Variant { source: KernelSource { aliases, ..ROPE }, overrides }
}

fn kernels() -> Vec<Variant> {
    NUMBERS.into_iter().flat_map(|x| NUMBERS.map(|out| variant(x, out))).collect()
}

/// `out` = the rows of `x` turned. x and out `[.., tokens, n]`; positions I32 `[axes, tokens]`, or
/// with all of x's axes but the last behind the first, as far as they do not repeat; frequencies
/// `[pairs]`, F32 and dense, radians a position.
pub fn rope(
    session: &mut Session<'_>,
    spec: &Rope,
    x: &Tensor,
    positions: &Tensor,
    frequencies: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let op = "rope";
    let operands = [x, positions, frequencies, out];
    let (Some(tx), Some(tout)) = (Number::of(x.dtype()), Number::of(out.dtype())) else {
        return Err(dtype(op, &operands, "x and out are F32, F16 or BF16"));
    };
    if positions.dtype() != DType::I32 || frequencies.dtype() != DType::F32 {
        return Err(dtype(op, &operands, "positions are I32, frequencies F32"));
    }
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    if x.rank() < 2 || out.shape() != x.shape() || positions.rank() < 2 {
        return refuse("x and out are [.., tokens, n], positions [axes, .., tokens]");
    }
    let (n, pairs) = (x.shape()[x.rank() - 1], frequencies.elements());
    if frequencies.rank() != 1 || !frequencies.is_contiguous() || pairs == 0 || 2 * pairs > n {
        return refuse("frequencies are a dense row of at most half of x's last axis");
    }
    let used = spec.sections.iter().rposition(|&section| section > 0).map_or(0, |at| at + 1);
    if spec.sections.iter().sum::<usize>() != pairs || used > positions.shape()[0] {
        return refuse("sections must add up to the frequencies and have positions each");
    }
    if !spec.scale.is_finite() {
        return refuse("the factor must be finite");
    }
    let mut rows = x.shape().to_vec();
    rows[x.rank() - 1] = 1;
    let first = Tensor::strided(
        positions.buffer(),
        &[&positions.shape()[1..], &[1]].concat(),
        &[&positions.strides()[1..], &[1]].concat(),
        positions.start(),
    )?;
    let Ok(first) = first.broadcast_to(&rows) else {
        return refuse("positions do not repeat to the rows of x");
    };
    let mut ends = [0; 4];
    let mut end = 0;
    for (to, section) in ends.iter_mut().zip(spec.sections) {
        end += section;
        *to = end as u32;
    }
    let kernel = variant(tx, tout).compile(session)?;
    let unit_rows = unit_rows(8 * n);
    for space in spaces(session.device(), op, [x, &first, out], &[2])? {
        let [x, first, out] = &space.operands;
        // All axes' positions: the span of the first, prolonged.
        let axis_stride = positions.strides()[0];
        let all = Tensor::strided(
            first.buffer(),
            &[&[used], first.shape()].concat(),
            &[&[axis_stride], first.strides()].concat(),
            first.start(),
        )?;
        let (from, from_positions) = (x.read()?, all.read()?);
        let (table, to) = (frequencies.read()?, out.write()?);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            codes: tx as u32 | (tout as u32) << 2,
            unit_rows,
            pairs: pairs as u32,
            interleaved: spec.interleaved.into(),
            axis_stride: axis_stride as u32,
            start_frequencies: table.start_in(4),
            scale: spec.scale,
            ends,
            x: space.place(0, from.start_in(x.dtype().block_bytes())),
            positions: space.place(1, from_positions.start_in(4)),
            out: space.place(2, to.start_in(out.dtype().block_bytes())),
        };
        let dispatch = Dispatch::new(&kernel)
            .label(op)
            .bind(from)
            .bind(from_positions)
            .bind(table)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, space.rows().into()))
            .cpu(space.rows().div_ceil(unit_rows), [space.split(2, unit_rows)]);
        session.dispatch(dispatch)?;
    }
    Ok(())
}
