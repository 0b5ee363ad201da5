//! Copies between views: any strides, and conversion between F32, F16 and BF16. With one type on both
//! sides the bits are kept, whatever they are; quantized blocks and 32-bit integers move that way too.

mod cases;
mod cpu;
pub mod node;
mod reference;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Session};

use super::Operation;
use super::case::Variant;
use super::pointwise::{Unary, unary};
use super::walked::{RANKS, Walked};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::Number;

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "copy",
    summary: "copies between views, with conversion of numbers",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

const COPY: KernelSource = KernelSource {
    name: "copy",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/walk.wgsl"),
        include_str!("copy.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::copy,
};

/// WGSL type that carries elements of 4 or 2 bytes; f16 where 16-bit integers are missing.
fn variant(carrier: Carrier, rank: u32) -> Variant {
    let aliases = match carrier {
        Carrier::U32 => &[],
        Carrier::U16 => &[("OUT", "u16")][..],
        Carrier::F16 => &[("OUT", "f16")],
    };
    Variant { source: KernelSource { aliases, ..COPY }, overrides: vec![("RANK", rank.into())] }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    U32,
    U16,
    F16,
}

fn kernels() -> Vec<Variant> {
    let carriers = [Carrier::U32, Carrier::U16, Carrier::F16];
    carriers.into_iter().flat_map(|carrier| RANKS.map(|rank| variant(carrier, rank))).collect()
}

/// `out = a`; `a` repeats to the shape of `out`.
pub fn copy(session: &mut Session<'_>, a: &Tensor, out: &Tensor) -> Result<()> {
    let operands = [a, out];
    if a.dtype() != out.dtype() {
        if Number::of(a.dtype()).is_none() || Number::of(out.dtype()).is_none() {
            let reason = "only F32, F16 and BF16 convert into one another";
            return Err(dtype("copy", &operands, reason));
        }
        return unary(session, Unary::Identity, [0.0; 2], a, out);
    }
    let a = a.broadcast_to(out.shape()).map_err(|_: crate::Error| {
        shape("copy", &operands, format!("the input does not repeat to {:?}", out.shape()))
    })?;
    if a.dtype().is_quantized() {
        return copy_blocks(session, &a, out);
    }
    let features = &session.device().info().features;
    let carrier = match a.dtype().block_bytes() {
        4 => Carrier::U32,
        2 if !features.i16 && a.dtype() == DType::F16 => Carrier::F16,
        2 => Carrier::U16,
        _ => return Err(dtype("copy", &operands, "elements of one byte are not copied yet")),
    };
    let walked =
        Walked { op: "copy", label: "copy", codes: a.dtype().block_bytes() as u32, x: 0.0, y: 0.0 };
    walked.record(session, [out, &a], |rank| variant(carrier, rank))
}

/// Whole blocks as 16-bit halves; both sides contiguous.
fn copy_blocks(session: &mut Session<'_>, a: &Tensor, out: &Tensor) -> Result<()> {
    if !a.is_contiguous() || !out.is_contiguous() {
        return Err(shape("copy", &[a, out], "quantized tensors are copied only when contiguous"));
    }
    let halves = |tensor: &Tensor| {
        let block = tensor.dtype().block_elements();
        let start = tensor.start() as u64 / block * tensor.dtype().block_bytes();
        let count = tensor.span_bytes() as usize / 2;
        Tensor::of(&tensor.buffer().view(start, DType::F16, &[count])?)
    };
    copy(session, &halves(a)?, &halves(out)?)
}
