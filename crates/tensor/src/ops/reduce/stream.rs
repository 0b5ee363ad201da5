//! The first pass of a sum over much contiguous F32 memory, at the speed of memory: also the probe
//! that measures that speed.

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session, Split};

use super::cpu;
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::ops::case::Variant;
use crate::ops::walked::{Start, groups};

/// Immediates of `stream.wgsl`.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Params {
    pub(super) vectors: u32,
    pub(super) part: u32,
    parts: u32,
    start_out: u32,
}

const STREAM: KernelSource = KernelSource {
    name: "stream_sum",
    wgsl: include_str!("stream.wgsl"),
    entry: "main",
    aliases: &[],
    cpu: cpu::stream,
};

/// Vectors that a workgroup takes at a time: eight loads of each of its threads.
const ROUND: u64 = 8 * 256;

/// Parts that a CPU unit sums.
pub(super) const UNIT_PARTS: u64 = 8;

pub(super) fn variant() -> Variant {
    Variant { source: STREAM, overrides: Vec::new() }
}

/// Whether [`stream_sum`] takes `a`: contiguous F32 on whole vectors of 16 bytes.
pub fn can_stream(a: &Tensor) -> bool {
    let aligned = a.read().is_ok_and(|span| span.start().is_multiple_of(16));
    a.dtype() == DType::F32
        && a.is_contiguous()
        && aligned
        && a.elements() > 0
        && a.elements().is_multiple_of(4)
}

/// `partial[p] = Σ` of part `p` of `a`: as many parts as `partial`, F32 and contiguous, has elements.
/// Parts are equal but for the last ones, which may be short or empty.
pub fn stream_sum(session: &mut Session<'_>, a: &Tensor, partial: &Tensor) -> Result<()> {
    let operands = [a, partial];
    if partial.dtype() != DType::F32 {
        return Err(dtype("stream_sum", &operands, "the partial sums are F32"));
    }
    let refuse = |reason: &str| Err(shape("stream_sum", &operands, reason));
    if !can_stream(a) {
        return refuse("the input must be contiguous F32 on whole vectors of 16 bytes");
    }
    if !partial.is_contiguous() || partial.elements() == 0 {
        return refuse("the partial sums must be contiguous and at least one");
    }
    let (from, to) = (a.read()?, partial.write()?);
    let vectors = from.len() / 16;
    let parts = partial.elements() as u64;
    let part = vectors.div_ceil(parts).next_multiple_of(ROUND);
    // Also the last of the workgroups that fill up a row of them may count its vectors.
    if (2 * parts).saturating_mul(part) > u32::MAX.into() {
        return refuse("the input has more vectors than 32 bits count");
    }
    let (vectors, part) = (vectors as u32, part as u32);
    // The binding starts on a vector: alignments of devices are at least 16 or divide the start.
    if !from.binding_remainder().is_multiple_of(16) || from.binding_remainder() > 0 {
        return refuse("the input must start where the device can bind it");
    }
    let kernel = session.device().kernel(&STREAM, &[])?;
    let units = parts.div_ceil(UNIT_PARTS) as u32;
    let dispatch = Dispatch::new(&kernel)
        .label("stream_sum")
        .immediates(&Params { vectors, part, parts: parts as u32, start_out: to.start_in(4) })
        .groups(groups(session, parts))
        .cpu(units, [Split::Chunks(UNIT_PARTS * 4)])
        .bind(from)
        .bind(to);
    session.dispatch(dispatch)?;
    Ok(())
}
