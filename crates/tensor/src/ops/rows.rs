//! Operations that treat the last axis as a row: outer axes of all operands merged into two, work cut
//! where a device's bindings or the CPU's units ask for it. It must not know what a row computes.

use tintype_gpu::{Device, Split};

use crate::Tensor;
use crate::error::{Result, shape as shape_error};
use crate::layout::span_limit;

/// Where an operand's rows lie, as kernels are told (WGSL: `prelude/rows.wgsl`).
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Place {
    /// First element.
    pub(crate) start: u32,
    /// Distance between rows along both outer axes.
    pub(crate) outer: [u32; 2],
    /// Distance between elements of a row.
    pub(crate) inner: u32,
}

impl Place {
    /// First element of row `row` of rows laid out `width` to a line.
    pub(crate) fn row(&self, row: u32, width: u32) -> usize {
        let (y, x) = (row / width, row % width);
        self.start as usize
            + y as usize * self.outer[0] as usize
            + x as usize * self.outer[1] as usize
    }
}

/// Operands of common outer extents, cut so that one dispatch takes them.
pub(crate) struct RowSpace<const N: usize> {
    pub(crate) operands: [Tensor; N],
    /// Extents of the two outer axes.
    pub(crate) outer: [u32; 2],
    strides: [[u32; 2]; N],
}

impl<const N: usize> RowSpace<N> {
    /// Rows in all.
    pub(crate) fn rows(&self) -> u32 {
        self.outer[0] * self.outer[1]
    }

    /// Operand `n` for the kernel; `start` is its binding's remainder, in elements.
    pub(crate) fn place(&self, n: usize, start: u32) -> Place {
        let inner = self.operands[n].strides().last().copied().unwrap_or(1) as u32;
        Place { start, outer: self.strides[n], inner }
    }

    /// How units of `unit_rows` rows share out written operand `n`.
    pub(crate) fn split(&self, n: usize, unit_rows: u32) -> Split {
        let tensor = &self.operands[n];
        if self.rows() <= unit_rows {
            return Split::Chunks(tensor.span_bytes().max(1));
        }
        let rows = u64::from(self.strides[n][1]) * u64::from(unit_rows);
        let (block, bytes) = (tensor.dtype().block_elements(), tensor.dtype().block_bytes());
        Split::Chunks(rows / block * bytes)
    }
}

/// Splits `operands`, whose axes but the last have common extents, into spaces of at most two outer
/// axes, ordered as operand `written[0]` lies in memory. Rows of written operands must lie apart, and
/// in that order.
pub(crate) fn spaces<const N: usize>(
    device: &Device,
    op: &'static str,
    operands: [&Tensor; N],
    written: &[usize],
) -> Result<Vec<RowSpace<N>>> {
    let mut done = Vec::new();
    if operands.iter().all(|tensor| tensor.elements() > 0) {
        cut(device, op, operands.map(Tensor::clone), written, &mut done)?;
    }
    Ok(done)
}

fn cut<const N: usize>(
    device: &Device,
    op: &'static str,
    operands: [Tensor; N],
    written: &[usize],
    done: &mut Vec<RowSpace<N>>,
) -> Result<()> {
    let refuse = |reason: &str| Err(shape_error(op, &operands.each_ref(), reason));
    let rank = operands[0].rank();
    let first = written.first().copied().unwrap_or(0);
    // (axis, extent, strides), outermost in memory first.
    let mut axes: Vec<(usize, usize, [usize; N])> = (0..rank.saturating_sub(1))
        .filter(|&axis| operands[0].shape()[axis] != 1)
        .map(|axis| {
            let strides = operands.each_ref().map(|tensor| tensor.strides()[axis]);
            (axis, operands[0].shape()[axis], strides)
        })
        .collect();
    axes.sort_by_key(|(_, _, strides)| std::cmp::Reverse(strides[first]));
    for &n in written {
        let (extent, stride) = (operands[n].shape()[rank - 1], operands[n].strides()[rank - 1]);
        let mut inside = if extent > 1 { (extent - 1) * stride + 1 } else { 1 };
        if extent > 1 && stride == 0 {
            return refuse("output elements share memory");
        }
        for (_, extent, strides) in axes.iter().rev() {
            if strides[n] < inside {
                return refuse(
                    "rows of an output must lie apart, one after another; copy it after",
                );
            }
            inside = strides[n].saturating_mul(*extent);
        }
    }
    let mut merged: Vec<(usize, [usize; N])> = Vec::new();
    for (_, extent, strides) in &axes {
        match merged.last_mut() {
            Some((outer, last))
                if (0..N).all(|n| last[n] == strides[n].saturating_mul(*extent)) =>
            {
                *outer *= extent;
                *last = *strides;
            }
            _ => merged.push((*extent, *strides)),
        }
    }
    let regular = |n: usize| match merged.as_slice() {
        [(_, outer), (extent, inner)] => outer[n] == inner[n].saturating_mul(*extent),
        _ => true,
    };
    let limit = span_limit(device);
    let fits = operands.iter().all(|tensor| tensor.span_bytes() <= limit);
    let cpu = device.info().limits.threads > 0;
    let evenly = !cpu || written.iter().all(|&n| regular(n));
    if merged.len() <= 2 && evenly && fits {
        let mut space = RowSpace { operands, outer: [1; 2], strides: [[0; 2]; N] };
        for (at, (extent, strides)) in (2 - merged.len()..).zip(&merged) {
            space.outer[at] = u32::try_from(*extent).unwrap_or(u32::MAX);
            for (all, stride) in space.strides.iter_mut().zip(strides) {
                all[at] = u32::try_from(*stride).unwrap_or(u32::MAX);
            }
        }
        done.push(space);
        return Ok(());
    }
    let Some(&(axis, extent, _)) = axes.first() else {
        return refuse("one row does not fit in a binding");
    };
    // Halves where only size asks for it, single positions where strides do.
    let step = if merged.len() <= 2 && evenly { extent.div_ceil(2) } else { 1 };
    for from in (0..extent).step_by(step) {
        let mut parts = Vec::with_capacity(N);
        for tensor in &operands {
            parts.push(tensor.slice(axis, from..(from + step).min(extent))?);
        }
        if let Ok(parts) = <[Tensor; N]>::try_from(parts) {
            cut(device, op, parts, written, done)?;
        }
    }
    Ok(())
}

/// Rows of a CPU unit: some ten microseconds to a hundred at `cost` elements of work a row.
pub(crate) fn unit_rows(cost: usize) -> u32 {
    ((64 << 10) / cost.max(1)).clamp(1, 1 << 20) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use tintype_gpu::{DType, DeviceOptions};

    #[test]
    fn spaces_cover_every_row_once() {
        let device = Device::cpu(DeviceOptions { threads: 1, ..Default::default() }).unwrap();
        let whole = Tensor::empty(&device, DType::F32, &[2, 3, 4, 5]).unwrap();
        let turned = Tensor::empty(&device, DType::F32, &[2, 4, 3, 5])
            .unwrap()
            .permute(&[0, 2, 1, 3])
            .unwrap();
        let same = spaces(&device, "t", [&whole, &whole], &[1]).unwrap();
        assert_eq!((same.len(), same[0].outer), (1, [1, 24]));
        // Outer axes that do not merge in the input: batches one by one.
        let mixed = spaces(&device, "t", [&turned, &whole], &[1]).unwrap();
        assert_eq!(mixed.iter().map(RowSpace::rows).sum::<u32>(), 24);
        let column = whole.transpose().unwrap();
        assert!(spaces(&device, "t", [&column], &[0]).is_err());
    }
}
