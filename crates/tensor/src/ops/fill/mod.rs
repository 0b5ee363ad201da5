//! Fills a view with one value; any strides. Numbers are rounded to nearest even.

mod cases;
mod cpu;

use half::{bf16, f16};
use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Session};

use super::Operation;
use super::case::Variant;
use super::walked::{RANKS, Walked};
use crate::Tensor;
use crate::error::{Result, dtype};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "fill",
    summary: "one value into a view",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

const FILL: KernelSource = KernelSource {
    name: "fill",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/walk.wgsl"),
        include_str!("fill.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::fill,
};

fn variant(wide: bool, rank: u32) -> Variant {
    let aliases = if wide { &[][..] } else { &[("OUT", "u16")] };
    Variant { source: KernelSource { aliases, ..FILL }, overrides: vec![("RANK", rank.into())] }
}

fn kernels() -> Vec<Variant> {
    [true, false].into_iter().flat_map(|wide| RANKS.map(|rank| variant(wide, rank))).collect()
}

/// Every element of `out` becomes `value`, in its type: F32, F16, BF16, U32 or I32. Integers take
/// the value's integral part.
pub fn fill(session: &mut Session<'_>, value: f64, out: &Tensor) -> Result<()> {
    let bits = match out.dtype() {
        DType::F32 => (value as f32).to_bits(),
        DType::F16 => f16::from_f64(value).to_bits().into(),
        DType::Bf16 => bf16::from_f64(value).to_bits().into(),
        DType::U32 => value as u32,
        DType::I32 => value as i32 as u32,
        other => return Err(dtype("fill", &[out], format!("{other} cannot be filled"))),
    };
    let wide = out.dtype().block_bytes() == 4;
    // The width rides along for the CPU kernel.
    let x = if wide { 4.0 } else { 2.0 };
    let walked = Walked { op: "fill", label: "fill", codes: bits, x, y: 0.0 };
    walked.record(session, [out], |rank| variant(wide, rank))
}
