//! One tensor of a file: a view that costs nothing until its values are asked for.
//! It must not know formats.

use std::borrow::Cow;
use std::sync::Arc;

use tintype_gpu::HostMemory;

use super::error::{Reason, Result, WeightError};
use super::map::Source;
use super::scale::Scale;
use crate::DType;
use crate::quant;

/// Most dimensions that any format here gives a tensor; PyTorch allows no more than 64.
pub(crate) const DIMENSION_LIMIT: usize = 64;
/// Longest name: real ones stay below 200 bytes.
pub(crate) const NAME_LIMIT: u64 = 4096;
/// Most tensors a model may have; the largest known have some 100 000.
pub(crate) const TENSOR_LIMIT: u64 = 4 << 20;

/// A named tensor in a file: where it is, and how to turn it into numbers.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    pub(crate) source: Source,
    pub(crate) offset: u64,
    /// Elements between neighbours along each axis, where that is not plain row-major order.
    pub(crate) strides: Option<Vec<u64>>,
    pub(crate) scale: Option<Box<Scale>>,
}

/// Product of the dimensions.
pub(crate) fn elements(shape: &[u64]) -> Option<u64> {
    // Dimensions are multiplied even past a zero, so that [0, 2^63, 4] is refused everywhere.
    let product = shape.iter().try_fold(1u64, |all, d| all.checked_mul((*d).max(1)))?;
    // Bytes of the largest element must be addressable too.
    product.checked_mul(8).filter(|bytes| *bytes <= i64::MAX as u64)?;
    Some(if shape.contains(&0) { 0 } else { product })
}

/// Adds up; what no machine holds stays at the largest number.
pub(crate) fn sum(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, u64::saturating_add)
}

/// Whether values of a type stand for real numbers, and may be stored in another such type.
pub(crate) fn is_float(dtype: DType) -> bool {
    let floats = [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2];
    dtype.is_quantized() || floats.contains(&dtype)
}

/// Bytes `start..end` of a file, claimed by the thing of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) owner: usize,
}

/// Sorts spans by their place; the first two neighbours that share bytes, if any do.
pub(crate) fn sort_and_find_overlap(spans: &mut [Span]) -> Option<(Span, Span)> {
    spans.sort_unstable();
    let neighbours = spans.windows(2).map(|pair| (pair[0], pair[1]));
    neighbours.into_iter().find(|(first, second)| second.start < first.end)
}

/// Bytes that a shape of a type takes, or why it cannot be.
pub(crate) fn bytes_of(dtype: DType, shape: &[u64]) -> Result<u64, Reason> {
    if shape.len() > DIMENSION_LIMIT {
        let (count, limit) = (shape.len() as u64, DIMENSION_LIMIT as u64);
        return Err(Reason::TooMany { what: "dimensions", count, limit });
    }
    let overflow = || Reason::ShapeOverflow(shape.to_vec());
    let count = elements(shape).ok_or_else(overflow)?;
    let row = shape.last().copied().unwrap_or(1);
    if dtype.is_quantized() && !row.is_multiple_of(dtype.block_elements()) {
        return Err(Reason::PartialBlocks { row, dtype });
    }
    dtype.bytes_for(count).ok_or_else(overflow)
}

impl Tensor {
    /// Its name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of its elements as stored.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its dimensions, slowest first; GGUF files store them the other way round.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The file it is in.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Its first byte in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many values it has.
    pub fn elements(&self) -> u64 {
        // Checked when the file was read.
        elements(&self.shape).unwrap_or(0)
    }

    /// How many bytes it takes, packed.
    pub fn byte_len(&self) -> u64 {
        self.dtype.bytes_for(self.elements()).unwrap_or(0)
    }

    /// The scale that an 8-bit float tensor is multiplied by.
    pub fn scale(&self) -> Option<&Scale> {
        self.scale.as_deref()
    }

    /// Whether [`Tensor::bytes`] is a window into the file rather than a copy.
    pub fn is_contiguous(&self) -> bool {
        self.strides.is_none()
    }

    pub(crate) fn fail(&self, reason: impl Into<Reason>) -> WeightError {
        WeightError::tensor(self.source.path(), &self.name, reason)
    }

    /// Its bytes in row-major order: borrowed from the file, or gathered if it is a strided view.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        self.source.check()?;
        match &self.strides {
            None => Ok(Cow::Borrowed(self.window(self.byte_len())?)),
            Some(strides) => Ok(Cow::Owned(self.gather(strides, 0, self.elements())?)),
        }
    }

    /// Its bytes as memory that devices may read in place, if they lie in one piece.
    pub(crate) fn host(&self) -> Option<Arc<dyn HostMemory>> {
        let end = self.offset.checked_add(self.byte_len())?;
        self.is_contiguous().then(|| self.source.host(self.offset..end))?
    }

    fn window(&self, bytes: u64) -> Result<&[u8]> {
        let all = self.source.bytes();
        let end = self.offset.checked_add(bytes).filter(|end| *end <= all.len() as u64);
        let range = end.map(|end| self.offset as usize..end as usize);
        range.and_then(|range| all.get(range)).ok_or_else(|| {
            self.fail(Reason::OutOfRange { start: self.offset, bytes, end: all.len() as u64 })
        })
    }

    /// The bytes of `count` elements from number `first` on, collected from where they lie.
    fn gather(&self, strides: &[u64], first: u64, count: u64) -> Result<Vec<u8>> {
        let each = self.dtype.block_bytes();
        if count == 0 {
            return Ok(Vec::new());
        }
        // The last element, which the reader has checked to lie within the storage.
        let reach: u64 = self.shape.iter().zip(strides).map(|(d, s)| (d - 1) * s).sum();
        let window = self.window((reach + 1) * each)?;
        let each = each as usize;
        let mut out = Vec::with_capacity(count as usize * each);
        let mut index = vec![0u64; self.shape.len()];
        let mut rest = first;
        for (place, dimension) in index.iter_mut().zip(&self.shape).rev() {
            (*place, rest) = (rest % dimension, rest / dimension);
        }
        for _ in 0..count {
            let at: u64 = index.iter().zip(strides).map(|(i, s)| i * s).sum();
            out.extend_from_slice(&window[at as usize * each..][..each]);
            // Count up, the last axis fastest; after the last element there is nowhere to go.
            if let Some(axis) = (0..index.len()).rev().find(|a| index[*a] + 1 < self.shape[*a]) {
                index[axis] += 1;
                index[axis + 1..].fill(0);
            }
        }
        Ok(out)
    }

    /// Hands out its bytes in row-major order, whole blocks and at most `blocks` of them at a time.
    pub(crate) fn for_each_part(
        &self,
        blocks: usize,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.source.check()?;
        let Some(strides) = &self.strides else {
            let each = blocks * self.dtype.block_bytes() as usize;
            return self.window(self.byte_len())?.chunks(each).try_for_each(take);
        };
        let (mut first, all) = (0, self.elements());
        while first < all {
            let count = (all - first).min(blocks as u64);
            take(&self.gather(strides, first, count)?)?;
            first += count;
        }
        Ok(())
    }

    /// Every value in single precision, scales applied.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let mut all = Vec::with_capacity(self.elements() as usize);
        self.for_each_chunk(usize::MAX, |_, values| {
            all.extend_from_slice(values);
            Ok(())
        })?;
        Ok(all)
    }

    /// Hands out every value in order, at most `limit` at a time (rounded up to whole blocks), as
    /// (index of the first, values), in single precision with scales applied.
    pub fn for_each_chunk(
        &self,
        limit: usize,
        mut take: impl FnMut(u64, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let block = self.dtype.block_elements() as usize;
        let blocks = (limit / block).clamp(1, CHUNK / block);
        let mut values = Vec::new();
        let mut first = 0;
        self.for_each_part(blocks, |part| {
            values.resize(part.len() / self.dtype.block_bytes() as usize * block, 0.0);
            quant::decode(self.dtype, part, &mut values).map_err(|e| self.fail(e))?;
            if let Some(scale) = &self.scale {
                scale.apply(first, &mut values);
            }
            take(first, &values)?;
            first += values.len() as u64;
            Ok(())
        })
    }
}

/// Values decoded at a time: 4 MiB of them.
pub(crate) const CHUNK: usize = 1 << 20;
