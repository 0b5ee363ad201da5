//! How a kernel walks several views at once: axes in the order of the output's memory, neighbours
//! merged where every operand allows it. Pure; it must not know what is computed.

use crate::error::{Result, shape as shape_error};
use crate::{MAX_RANK, Tensor};

/// The common index space of an output (operand 0) and its inputs, all of one shape. Unused axes
/// stand in front, with extent 1 and stride 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walk<const N: usize> {
    pub(crate) extents: [u32; MAX_RANK],
    pub(crate) strides: [[u32; MAX_RANK]; N],
    /// Axes in use, at least 1.
    pub(crate) rank: usize,
}

impl<const N: usize> Walk<N> {
    /// The walk over `operands`, output first. Refuses an output whose elements share memory, and
    /// spans that 32-bit indices do not reach.
    pub(crate) fn new(op: &'static str, operands: [&Tensor; N]) -> Result<Self> {
        let refuse = |reason: &str| Err(shape_error(op, &operands, reason));
        let out = operands[0];
        if operands.iter().any(|tensor| tensor.shape() != out.shape()) {
            return refuse("operands must have the output's shape");
        }
        // (extent, strides), outermost in the output's memory first.
        let mut axes: Vec<(usize, [usize; N])> = (0..out.rank())
            .filter(|&axis| out.shape()[axis] != 1)
            .map(|axis| (out.shape()[axis], operands.map(|tensor| tensor.strides()[axis])))
            .collect();
        axes.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
        let mut inside = 1usize;
        for (extent, strides) in axes.iter().rev() {
            if strides[0] < inside {
                return refuse("output elements share memory");
            }
            inside = strides[0].saturating_mul(*extent);
        }
        let mut merged: Vec<(usize, [usize; N])> = Vec::with_capacity(axes.len());
        for (extent, strides) in axes {
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
        let fits = |n: usize| u32::try_from(n).ok();
        let mut walk = Walk { extents: [1; MAX_RANK], strides: [[0; MAX_RANK]; N], rank: 1 };
        walk.rank = merged.len().max(1);
        let reach = operands.iter().all(|tensor| fits(tensor.span_bytes() as usize).is_some());
        if !reach || fits(out.elements()).is_none() {
            return refuse("spans of 4 GiB and more are not reached; cut them");
        }
        for (at, (extent, strides)) in (MAX_RANK - merged.len()..).zip(&merged) {
            // Each fits: an extent divides the element count, a used stride lies inside its span.
            walk.extents[at] = fits(*extent).unwrap_or(u32::MAX);
            for (all, stride) in walk.strides.iter_mut().zip(strides) {
                all[at] = fits(*stride).unwrap_or(u32::MAX);
            }
        }
        Ok(walk)
    }

    /// Elements in all.
    pub(crate) fn count(&self) -> u32 {
        self.extents.iter().product()
    }

    /// Kernels are compiled for 1, 2, 4 or 6 axes.
    pub(crate) fn rank_class(&self) -> u32 {
        match self.rank {
            0 | 1 => 1,
            2 => 2,
            3 | 4 => 4,
            _ => MAX_RANK as u32,
        }
    }

    /// How many elements come before offset `offset` of the output's span: the walk visits the
    /// output in ascending memory order.
    pub(crate) fn first_at(&self, offset: u64) -> u64 {
        let mut rest = offset;
        let mut first = 0u64;
        let mut inside = u64::from(self.count());
        for axis in 0..MAX_RANK {
            let (extent, stride) =
                (u64::from(self.extents[axis]), u64::from(self.strides[0][axis]));
            inside /= extent;
            if extent == 1 {
                continue;
            }
            let position = rest / stride;
            if position >= extent {
                // In the gap behind this axis.
                return first + extent * inside;
            }
            first += position * inside;
            rest -= position * stride;
        }
        first + u64::from(rest > 0)
    }

    /// Calls `run` for each stretch of the innermost axis within `elements`: the offsets of its
    /// first element in each operand, and its length.
    pub(crate) fn runs(
        &self,
        elements: std::ops::Range<u64>,
        mut run: impl FnMut([usize; N], usize),
    ) {
        let inner = u64::from(self.extents[MAX_RANK - 1]);
        let mut at = elements.start;
        while at < elements.end {
            let mut rest = at;
            let mut offsets = [0usize; N];
            for axis in (0..MAX_RANK).rev() {
                let extent = u64::from(self.extents[axis]);
                let position = (rest % extent) as usize;
                rest /= extent;
                for (offset, strides) in offsets.iter_mut().zip(&self.strides) {
                    *offset += position * strides[axis] as usize;
                }
            }
            let len = (inner - at % inner).min(elements.end - at);
            run(offsets, len as usize);
            at += len;
        }
    }

    /// Stride of the innermost axis, of each operand.
    pub(crate) fn inner_strides(&self) -> [usize; N] {
        self.strides.map(|strides| strides[MAX_RANK - 1] as usize)
    }
}

/// Largest span a dispatch may be given on `device`: its limit less the slack of an unaligned
/// start, and what 32-bit element indices reach.
pub(crate) fn span_limit(device: &tintype_gpu::Device) -> u64 {
    let limits = &device.info().limits;
    limits.max_binding_bytes.saturating_sub(limits.binding_alignment).min(u32::MAX.into())
}

/// Cuts operands of one shape, output first, until every span is within `limit`.
pub(crate) fn pieces<const N: usize>(
    op: &'static str,
    operands: [&Tensor; N],
    limit: u64,
) -> Result<Vec<[Tensor; N]>> {
    let mut whole = vec![operands.map(Tensor::clone)];
    let mut done = Vec::new();
    while let Some(piece) = whole.pop() {
        if piece.iter().all(|tensor| tensor.span_bytes() <= limit) {
            done.push(piece);
            continue;
        }
        // The axis that reaches farthest in any operand: halving it shortens some span.
        let reach = |axis: usize| {
            let extent = piece[0].shape()[axis];
            let spans = piece.iter().filter(|tensor| tensor.span_bytes() > limit);
            spans.map(|tensor| (extent - 1) * tensor.strides()[axis]).max().unwrap_or(0)
        };
        let axis = (0..piece[0].rank()).max_by_key(|&axis| reach(axis));
        let Some(axis) = axis.filter(|&axis| reach(axis) > 0) else {
            return Err(shape_error(op, &operands, "one element does not fit in a binding"));
        };
        let extent = piece[0].shape()[axis];
        for range in [extent / 2..extent, 0..extent / 2] {
            let mut half = Vec::with_capacity(N);
            for tensor in &piece {
                half.push(tensor.slice(axis, range.clone())?);
            }
            if let Ok(half) = <[Tensor; N]>::try_from(half) {
                whole.push(half);
            }
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tintype_gpu::{DType, Device, DeviceOptions};

    fn tensor(shape: &[usize], strides: &[usize]) -> Tensor {
        let device = Device::cpu(DeviceOptions { threads: 1, ..Default::default() }).unwrap();
        let end: usize = shape.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum();
        Tensor::strided(&device.buffer(DType::F32, &[end + 1]).unwrap(), shape, strides, 0).unwrap()
    }

    #[test]
    fn neighbours_merge_where_all_operands_allow() {
        let out = tensor(&[2, 3, 4], &[12, 4, 1]);
        let same = Walk::new("t", [&out, &out]).unwrap();
        assert_eq!((same.rank, same.extents[5]), (1, 24));
        let repeated = tensor(&[3, 4], &[4, 1]).broadcast_to(&[2, 3, 4]).unwrap();
        let walk = Walk::new("t", [&out, &repeated]).unwrap();
        assert_eq!((walk.rank, walk.extents[4], walk.strides[1][4]), (2, 2, 0));
    }

    #[test]
    fn overlapping_outputs_are_refused() {
        assert!(Walk::new("t", [&tensor(&[2, 3], &[1, 1])]).is_err());
        assert!(Walk::new("t", [&tensor(&[2, 3], &[0, 1])]).is_err());
        assert!(Walk::new("t", [&tensor(&[2, 3], &[1, 2])]).is_ok());
    }

    #[test]
    fn every_offset_is_found_in_ascending_order() {
        for (shape, strides) in
            [(&[3, 2, 4][..], &[20, 9, 2][..]), (&[2, 3], &[1, 2]), (&[5], &[3])]
        {
            let walk = Walk::new("t", [&tensor(shape, strides)]).unwrap();
            let mut offsets = Vec::new();
            let stride = walk.inner_strides()[0];
            walk.runs(0..walk.count().into(), |[start], len| {
                offsets.extend((0..len).map(|n| start + n * stride));
            });
            assert!(offsets.is_sorted() && offsets.len() == shape.iter().product::<usize>());
            for end in 0..offsets[offsets.len() - 1] + 3 {
                let before = offsets.iter().filter(|&&offset| offset < end).count();
                assert_eq!(walk.first_at(end as u64), before as u64, "{shape:?} {strides:?} {end}");
            }
        }
    }

    #[test]
    fn pieces_cover_everything_once_and_fit() {
        let out = tensor(&[7, 11], &[1, 7]);
        let pieces = pieces("t", [&out], 40).unwrap();
        assert!(pieces.iter().all(|[piece]| piece.span_bytes() <= 40));
        assert_eq!(pieces.iter().map(|[piece]| piece.elements()).sum::<usize>(), 77);
    }
}
