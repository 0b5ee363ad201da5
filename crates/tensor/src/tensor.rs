//! Strided views of buffers: a type, a shape, strides and a start, checked to lie inside the buffer.
//! It must not know operations.

use std::ops::Range;

use tintype_gpu::{Buffer, DType, Device, ReadSpan, WriteSpan};

use crate::error::{Error, Result};

/// Most axes a tensor may have.
pub const MAX_RANK: usize = 6;

/// A view of a buffer. Strides are in elements and never negative; 0 repeats an axis. Quantized
/// types keep their blocks whole: their last axis is contiguous and is only cut at block borders.
#[derive(Clone)]
pub struct Tensor {
    buffer: Buffer,
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<usize>,
    /// First element, counted from the start of the buffer.
    start: usize,
}

/// Row-major strides of a shape.
fn contiguous(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}

impl Tensor {
    /// A row-major tensor in new memory of `device`; contents are unspecified.
    pub fn empty(device: &Device, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        Tensor::of(&device.buffer(dtype, shape)?)
    }

    /// All of a buffer, row-major in the buffer's own shape.
    pub fn of(buffer: &Buffer) -> Result<Tensor> {
        let shape = buffer.shape().to_vec();
        Tensor::strided(buffer, &shape, &contiguous(&shape), 0)
    }

    /// A view with any strides, in elements, from element `start` of the buffer.
    pub fn strided(
        buffer: &Buffer,
        shape: &[usize],
        strides: &[usize],
        start: usize,
    ) -> Result<Tensor> {
        let tensor = Tensor {
            buffer: buffer.clone(),
            dtype: buffer.dtype(),
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            start,
        };
        tensor.check()?;
        Ok(tensor)
    }

    fn refuse(&self, view: &'static str, reason: impl Into<String>) -> Error {
        Error::View { view, tensor: self.to_string(), reason: reason.into() }
    }

    fn check(&self) -> Result<()> {
        let refuse = |reason: String| Err(self.refuse("a view", reason));
        if self.shape.len() != self.strides.len() || self.shape.len() > MAX_RANK {
            return refuse(format!(
                "{} extents and {} strides; at most {MAX_RANK} axes",
                self.shape.len(),
                self.strides.len()
            ));
        }
        let count = self.shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        if !self.shape.contains(&0) && count.is_none_or(|count| count > isize::MAX as usize) {
            return refuse("it has more elements than can be counted".into());
        }
        let block = self.dtype.block_elements() as usize;
        // Kernels index whole elements (16-bit halves of a quantized block).
        let unit = if block > 1 { 2 } else { self.dtype.block_bytes() };
        if !self.buffer.offset().is_multiple_of(unit) {
            return refuse(format!("the buffer starts at byte {}", self.buffer.offset()));
        }
        if block > 1 {
            let inner = self.strides.last() == Some(&1)
                && self.shape.last().is_some_and(|extent| extent.is_multiple_of(block));
            let outer = self.strides.iter().rev().skip(1).all(|s| s.is_multiple_of(block));
            if !inner || !outer || !self.start.is_multiple_of(block) {
                return refuse(format!("{} keeps blocks of {block} whole", self.dtype));
            }
        }
        match self.end().and_then(|end| self.dtype.bytes_for(end.next_multiple_of(block) as u64)) {
            Some(bytes) if bytes <= self.buffer.bytes() => Ok(()),
            _ => refuse(format!(
                "it does not fit in buffer {} of {} bytes",
                self.buffer.name(),
                self.buffer.bytes()
            )),
        }
    }

    /// One past the last element, counted from the start of the buffer.
    fn end(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(self.start);
        }
        let mut last = self.start;
        for (extent, stride) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add((extent - 1).checked_mul(*stride)?)?;
        }
        last.checked_add(1)
    }

    /// Type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Distance between neighbours along each axis, in elements.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        // A refused view counts too, in its message, and its extents may be of any size.
        self.shape.iter().fold(1, |count, &extent| count.saturating_mul(extent))
    }

    /// The buffer it views.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// First element, counted from the start of the buffer.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Whether elements lie row-major without gaps.
    pub fn is_contiguous(&self) -> bool {
        let dense = contiguous(&self.shape);
        let axes = self.shape.iter().zip(&self.strides).zip(&dense);
        self.elements() == 0
            || axes.into_iter().all(|((extent, stride), dense)| *extent == 1 || stride == dense)
    }

    /// Whether both show the same elements of the same memory: an output that is to be written over
    /// its input.
    pub fn is_same_view(&self, other: &Tensor) -> bool {
        let place = |tensor: &Tensor| {
            (tensor.buffer.memory_id(), tensor.buffer.offset(), tensor.start, tensor.dtype)
        };
        // The stride of an axis of one position says nothing.
        let strides = |tensor: &Tensor| {
            let axes = tensor.shape.iter().zip(&tensor.strides);
            axes.filter(|(extent, _)| **extent != 1).map(|(_, stride)| *stride).collect::<Vec<_>>()
        };
        place(self) == place(other) && self.shape == other.shape && strides(self) == strides(other)
    }

    /// Bytes from its first to past its last element, in the buffer.
    fn bytes(&self) -> Range<u64> {
        let block = self.dtype.block_elements();
        let at = |elements: u64| elements.div_ceil(block) * self.dtype.block_bytes();
        let end = self.end().unwrap_or(self.start) as u64;
        at(self.start as u64)..at(end)
    }

    /// Length of the span that a kernel is given.
    pub fn span_bytes(&self) -> u64 {
        let bytes = self.bytes();
        bytes.end - bytes.start
    }

    /// The bytes it covers, for reading.
    pub fn read(&self) -> Result<ReadSpan> {
        let Range { start, end } = self.bytes();
        Ok(self.buffer.read_bytes(start, end)?)
    }

    /// The bytes it covers, for writing.
    pub fn write(&self) -> Result<WriteSpan> {
        let Range { start, end } = self.bytes();
        Ok(self.buffer.write_bytes(start, end)?)
    }

    /// Axes in another order.
    pub fn permute(&self, axes: &[usize]) -> Result<Tensor> {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        if sorted != (0..self.rank()).collect::<Vec<_>>() {
            return Err(
                self.refuse("a permutation", format!("{axes:?} does not name each axis once"))
            );
        }
        let shape: Vec<_> = axes.iter().map(|&axis| self.shape[axis]).collect();
        let strides: Vec<_> = axes.iter().map(|&axis| self.strides[axis]).collect();
        self.with(shape, strides, self.start)
    }

    /// The last two axes exchanged.
    pub fn transpose(&self) -> Result<Tensor> {
        let rank = self.rank();
        if rank < 2 {
            return Err(self.refuse("a transpose", "it has fewer than two axes"));
        }
        let mut axes: Vec<_> = (0..rank).collect();
        axes.swap(rank - 2, rank - 1);
        self.permute(&axes)
    }

    /// Positions `range` along an axis.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Tensor> {
        let extent = self.extent("a slice", axis)?;
        if range.start > range.end || range.end > extent {
            return Err(self.refuse("a slice", format!("{range:?} of {extent} along axis {axis}")));
        }
        let mut shape = self.shape.clone();
        shape[axis] = range.len();
        let start = match range.is_empty() {
            true => self.start,
            false => self.start + range.start * self.strides[axis],
        };
        self.with(shape, self.strides.clone(), start)
    }

    /// Every `step`-th position along an axis.
    pub fn step(&self, axis: usize, step: usize) -> Result<Tensor> {
        let extent = self.extent("a step", axis)?;
        let (mut shape, mut strides) = (self.shape.clone(), self.strides.clone());
        shape[axis] = extent.div_ceil(step.max(1));
        strides[axis] = strides[axis].saturating_mul(step);
        if step == 0 {
            return Err(self.refuse("a step", "0 is no step"));
        }
        self.with(shape, strides, self.start)
    }

    /// A new axis of extent 1 before `axis`.
    pub fn insert_axis(&self, axis: usize) -> Result<Tensor> {
        if axis > self.rank() || self.rank() == MAX_RANK {
            return Err(self.refuse("a new axis", format!("at {axis}; at most {MAX_RANK} axes")));
        }
        let (mut shape, mut strides) = (self.shape.clone(), self.strides.clone());
        shape.insert(axis, 1);
        strides.insert(axis, 0);
        self.with(shape, strides, self.start)
    }

    /// The same elements in another shape; only where no element has to move.
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor> {
        let elements =
            shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
        if elements != Some(self.elements()) {
            return Err(
                self.refuse("a reshape", format!("{shape:?} has another number of elements"))
            );
        }
        if !self.is_contiguous() {
            return Err(self.refuse("a reshape", "it is not contiguous; copy it first"));
        }
        self.with(shape.to_vec(), contiguous(shape), self.start)
    }

    /// Repeated along axes of extent 1 and along new outer axes, as NumPy broadcasts.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Tensor> {
        let refuse = || self.refuse("a broadcast", format!("it does not repeat to {shape:?}"));
        let new = shape.len().checked_sub(self.rank()).ok_or_else(refuse)?;
        let mut strides = vec![0; shape.len()];
        for axis in new..shape.len() {
            let (own, stride) = (self.shape[axis - new], self.strides[axis - new]);
            strides[axis] = match own {
                _ if own == shape[axis] => stride,
                1 => 0,
                _ => return Err(refuse()),
            };
        }
        self.with(shape.to_vec(), strides, self.start)
    }

    fn extent(&self, view: &'static str, axis: usize) -> Result<usize> {
        let missing = || self.refuse(view, format!("it has no axis {axis}"));
        self.shape.get(axis).copied().ok_or_else(missing)
    }

    fn with(&self, shape: Vec<usize>, strides: Vec<usize>, start: usize) -> Result<Tensor> {
        let view = Tensor { shape, strides, start, ..self.clone() };
        view.check()?;
        Ok(view)
    }
}

impl std::fmt::Display for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)?;
        if self.is_contiguous() { Ok(()) } else { write!(f, " strides {:?}", self.strides) }
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({self} at {} of {})", self.start, self.buffer.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tintype_gpu::DeviceOptions;

    fn buffer(dtype: DType, shape: &[usize]) -> Buffer {
        Device::cpu(DeviceOptions { threads: 1, ..Default::default() })
            .unwrap()
            .buffer(dtype, shape)
            .unwrap()
    }

    #[test]
    fn views_cover_what_they_name() {
        let whole = Tensor::of(&buffer(DType::F32, &[4, 6])).unwrap();
        let column = whole.slice(1, 2..3).unwrap();
        assert_eq!((column.shape(), column.start(), column.span_bytes()), (&[4, 1][..], 2, 76));
        let turned = whole.transpose().unwrap().step(0, 2).unwrap();
        assert_eq!((turned.shape(), turned.strides()), (&[3, 4][..], &[2, 6][..]));
        assert!(!turned.is_contiguous());
        assert_eq!(whole.slice(0, 1..1).unwrap().span_bytes(), 0);
    }

    #[test]
    fn views_outside_their_buffer_are_refused() {
        let buffer = buffer(DType::F16, &[10]);
        assert!(Tensor::strided(&buffer, &[2, 5], &[5, 1], 0).is_ok());
        assert!(Tensor::strided(&buffer, &[2, 5], &[5, 1], 1).is_err());
        assert!(Tensor::strided(&buffer, &[usize::MAX, 2], &[usize::MAX, 1], 0).is_err());
        assert!(Tensor::strided(&buffer, &[1; 7], &[1; 7], 0).is_err());
        let whole = Tensor::of(&buffer).unwrap();
        for bad in
            [whole.slice(0, 5..11), whole.slice(1, 0..1), whole.reshape(&[3, 3]), whole.step(0, 0)]
        {
            assert!(bad.unwrap_err().to_string().contains("F16 [10]"));
        }
    }

    #[test]
    fn quantized_views_keep_blocks_whole() {
        let whole = Tensor::of(&buffer(DType::Q8_0, &[3, 64])).unwrap();
        assert_eq!(whole.slice(0, 1..3).unwrap().span_bytes(), 2 * 2 * 34);
        assert_eq!(whole.slice(1, 32..64).unwrap().start(), 32);
        assert!(whole.slice(1, 16..48).is_err());
        assert!(whole.transpose().is_err());
    }
}
