//! Tensors one after another along an axis: copies into slices of the output, with conversion of types
//! where they differ. It has no kernel of its own.

mod cases;
mod node;

pub use node::Concat;
use tintype_gpu::Session;

use super::Operation;
use super::copy::copy;
use crate::Tensor;
use crate::error::{Result, shape};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "concat",
    summary: "tensors one after another along an axis",
    cases: cases::cases,
    benches: cases::benches,
    kernels: Vec::new,
};

/// `out` is all of `parts` along `axis`. Parts that interleave in the output's memory are ordered by
/// barriers, since the core orders by byte ranges.
pub fn concat(
    session: &mut Session<'_>,
    parts: &[&Tensor],
    axis: usize,
    out: &Tensor,
) -> Result<()> {
    let refuse = |reason: String| {
        let operands: Vec<&Tensor> = parts.iter().copied().chain([out]).collect();
        Err(shape("concat", &operands, reason))
    };
    if axis >= out.rank() {
        return refuse(format!("there is no axis {axis}"));
    }
    let mut wanted = out.shape().to_vec();
    let mut total = 0;
    for part in parts {
        let Some(&extent) = part.shape().get(axis) else {
            return refuse(format!("each part has an axis {axis}"));
        };
        wanted[axis] = extent;
        if part.shape() != wanted {
            return refuse(format!("parts differ along axis {axis} only"));
        }
        total += extent;
    }
    if total != out.shape()[axis] {
        return refuse(format!("the parts' extents along axis {axis} sum up to {total}"));
    }
    let mut start = 0;
    let mut written: Vec<Tensor> = Vec::new();
    for part in parts.iter().filter(|part| part.elements() > 0) {
        let end = start + part.shape()[axis];
        let slice = out.slice(axis, start..end)?;
        start = end;
        if written.iter().any(|earlier| interleave(earlier, &slice)) {
            session.barrier_between(&[], &[slice.write()?])?;
        }
        copy(session, part, &slice)?;
        written.push(slice);
    }
    Ok(())
}

/// Whether two slices' spans share bytes.
fn interleave(earlier: &Tensor, later: &Tensor) -> bool {
    let end = |tensor: &Tensor| {
        let block = tensor.dtype().block_elements() as usize;
        let bytes = tensor.dtype().block_bytes() as usize;
        tensor.start() + tensor.span_bytes() as usize / bytes * block
    };
    earlier.start() < end(later) && later.start() < end(earlier)
}
