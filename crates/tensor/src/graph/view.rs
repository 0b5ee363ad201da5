//! Views: another shape or a part of a value's own elements. They move nothing where strides allow;
//! where not, planning puts a copy before them. It must not know buffers.

use std::ops::Range;

use super::meta::{Meta, refuse_shape};
use crate::error::Result;

/// A view of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum View {
    /// The same elements in another shape.
    Reshape(Vec<usize>),
    /// Axes in another order: axis `n` of the view is axis `axes[n]` of the value.
    Permute(Vec<usize>),
    /// Positions `start..end` along an axis.
    Slice {
        /// The axis.
        axis: usize,
        /// First position.
        start: usize,
        /// One past the last position.
        end: usize,
    },
    /// Repeated to a shape, as NumPy broadcasts.
    Broadcast(Vec<usize>),
}

/// Where a value's elements lie in the memory that holds them: strides and start in elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) start: usize,
}

impl Placed {
    /// Row-major, without gaps.
    pub(crate) fn dense(shape: &[usize]) -> Self {
        let mut strides = vec![1usize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
        }
        Placed { shape: shape.to_vec(), strides, start: 0 }
    }

    pub(crate) fn is_dense(&self) -> bool {
        let dense = Placed::dense(&self.shape);
        self.shape.contains(&0)
            || (0..self.shape.len())
                .all(|axis| self.shape[axis] == 1 || self.strides[axis] == dense.strides[axis])
    }

    /// Whether neighbours along the last axis are neighbours in memory.
    pub(crate) fn has_rows(&self) -> bool {
        match (self.shape.last(), self.strides.last()) {
            (Some(&extent), Some(&stride)) => extent <= 1 || stride == 1,
            _ => true,
        }
    }
}

impl View {
    /// Name, as errors and dumps show it.
    pub fn name(&self) -> &'static str {
        match self {
            View::Reshape(_) => "reshape",
            View::Permute(_) => "permute",
            View::Slice { .. } => "slice",
            View::Broadcast(_) => "broadcast",
        }
    }

    /// A slice.
    pub fn slice(axis: usize, range: Range<usize>) -> Self {
        View::Slice { axis, start: range.start, end: range.end }
    }

    /// Type and shape of the view.
    pub fn output(&self, input: &Meta) -> Result<Meta> {
        let refuse =
            |reason: String| Err(refuse_shape(self.name(), std::slice::from_ref(input), reason));
        let shape = match self {
            View::Reshape(shape) => {
                let count = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
                if count != Some(input.elements()) {
                    return refuse(format!("{shape:?} has another number of elements"));
                }
                if input.dtype.is_quantized() && shape.last() != input.shape.last() {
                    return refuse("quantized rows keep their length".into());
                }
                shape.clone()
            }
            View::Permute(axes) => {
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                if !sorted.iter().copied().eq(0..input.rank()) {
                    return refuse(format!("{axes:?} does not name each axis once"));
                }
                if input.dtype.is_quantized() && axes.last() != Some(&(input.rank() - 1)) {
                    return refuse("quantized rows keep their place".into());
                }
                axes.iter().map(|&axis| input.shape[axis]).collect()
            }
            View::Slice { axis, start, end } => {
                let Some(&extent) = input.shape.get(*axis) else {
                    return refuse(format!("there is no axis {axis}"));
                };
                if start > end || *end > extent {
                    return refuse(format!("{start}..{end} of {extent} along axis {axis}"));
                }
                let block = input.dtype.block_elements() as usize;
                if axis + 1 == input.rank() && !(start % block == 0 && end % block == 0) {
                    return refuse(format!("{} keeps blocks of {block} whole", input.dtype));
                }
                let mut shape = input.shape.clone();
                shape[*axis] = end - start;
                shape
            }
            View::Broadcast(shape) => {
                let new = shape.len().checked_sub(input.rank());
                let fits = new.is_some_and(|new| {
                    input.shape.iter().zip(&shape[new..]).all(|(own, out)| own == out || *own == 1)
                });
                if !fits || input.dtype.is_quantized() {
                    return refuse(format!("it does not repeat to {shape:?}"));
                }
                shape.clone()
            }
        };
        let meta = Meta { dtype: input.dtype, shape };
        meta.check(self.name())?;
        Ok(meta)
    }

    /// The view of elements placed so; `None` for a reshape that has to move elements. The view has
    /// passed [`View::output`].
    pub(crate) fn place(&self, placed: &Placed) -> Option<Placed> {
        let Placed { shape, strides, start } = placed;
        Some(match self {
            View::Reshape(to) => {
                Placed { strides: reshaped(shape, strides, to)?, shape: to.clone(), start: *start }
            }
            View::Permute(axes) => Placed {
                shape: axes.iter().map(|&axis| shape[axis]).collect(),
                strides: axes.iter().map(|&axis| strides[axis]).collect(),
                start: *start,
            },
            View::Slice { axis, start: from, end } => {
                let mut shape = shape.clone();
                shape[*axis] = end - from;
                let skip = if from == end { 0 } else { from * strides[*axis] };
                Placed { shape, strides: strides.clone(), start: start + skip }
            }
            View::Broadcast(to) => {
                let new = to.len() - shape.len();
                let stride = |axis: usize| match axis.checked_sub(new) {
                    Some(own) if shape[own] == to[axis] => strides[own],
                    _ => 0,
                };
                let strides = (0..to.len()).map(stride).collect();
                Placed { shape: to.clone(), strides, start: *start }
            }
        })
    }
}

/// Strides under which `to` shows the same elements in the same order, if there are any: both shapes
/// are cut into the shortest runs of equal product, and each run of old axes must lie evenly.
fn reshaped(from: &[usize], strides: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    if from.contains(&0) {
        return Some(Placed::dense(to).strides);
    }
    let old: Vec<(usize, usize)> = from
        .iter()
        .copied()
        .zip(strides.iter().copied())
        .filter(|(extent, _)| *extent != 1)
        .collect();
    let mut out = vec![0usize; to.len()];
    let (mut i, mut j) = (0, 0);
    while i < old.len() {
        let (first_old, first_new) = (i, j);
        let (mut have, mut want) = (old[i].0, 1usize);
        i += 1;
        loop {
            if want == have && j > first_new {
                break;
            }
            if want <= have && j < to.len() && (want < have || j == first_new) {
                want = want.checked_mul(to[j])?;
                j += 1;
            } else if have < want && i < old.len() {
                have = have.checked_mul(old[i].0)?;
                i += 1;
            } else {
                return None;
            }
        }
        for at in first_old..i - 1 {
            if old[at].1 != old[at + 1].1.checked_mul(old[at + 1].0)? {
                return None;
            }
        }
        let mut stride = old[i - 1].1;
        for axis in (first_new..j).rev() {
            out[axis] = stride;
            stride = stride.checked_mul(to[axis])?;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of a placed view, in logical order.
    fn offsets(placed: &Placed) -> Vec<usize> {
        let count = placed.shape.iter().product();
        (0..count)
            .map(|at: usize| {
                let mut rest = at;
                let mut offset = placed.start;
                for axis in (0..placed.shape.len()).rev() {
                    offset += rest % placed.shape[axis] * placed.strides[axis];
                    rest /= placed.shape[axis];
                }
                offset
            })
            .collect()
    }

    /// Every shape of `count` elements with up to four axes.
    fn shapes(count: usize, axes: usize) -> Vec<Vec<usize>> {
        let mut all = Vec::new();
        if count == 1 {
            all.push(Vec::new());
        }
        if axes == 0 {
            return all;
        }
        for first in (1..=count).filter(|&n: &usize| count.is_multiple_of(n)) {
            for mut rest in shapes(count / first, axes - 1) {
                rest.insert(0, first);
                all.push(rest);
            }
        }
        all
    }

    #[test]
    fn a_reshape_shows_the_same_elements_in_the_same_order() {
        let mut moved = 0;
        for shape in shapes(24, 3) {
            let rank = shape.len();
            let orders: Vec<Vec<usize>> = match rank {
                2 => vec![vec![0, 1], vec![1, 0]],
                3 => vec![vec![0, 1, 2], vec![2, 0, 1], vec![0, 2, 1], vec![2, 1, 0]],
                _ => vec![(0..rank).collect()],
            };
            for axes in orders {
                let placed = View::Permute(axes).place(&Placed::dense(&shape)).unwrap();
                for to in shapes(24, 4) {
                    match View::Reshape(to.clone()).place(&placed) {
                        Some(view) => {
                            assert_eq!(offsets(&view), offsets(&placed), "{placed:?} {to:?}")
                        }
                        None => {
                            moved += 1;
                            assert!(!placed.is_dense(), "{placed:?} {to:?}");
                        }
                    }
                }
            }
        }
        assert!(moved > 0);
    }

    #[test]
    fn heads_split_and_join_without_moving() {
        // [batch, tokens, heads·dim] → [batch, heads, tokens, dim], as attention asks for.
        let placed = Placed::dense(&[2, 7, 12]);
        let split = View::Reshape(vec![2, 7, 3, 4]).place(&placed).unwrap();
        let heads = View::Permute(vec![0, 2, 1, 3]).place(&split).unwrap();
        assert_eq!(heads.strides, [84, 4, 12, 1]);
        assert!(View::Reshape(vec![2, 3, 28]).place(&heads).is_none());
        // A repeated axis merges with nothing, but splits.
        let repeated = View::Broadcast(vec![6, 5]).place(&Placed::dense(&[5])).unwrap();
        assert!(View::Reshape(vec![2, 3, 5]).place(&repeated).is_some());
        assert!(View::Reshape(vec![30]).place(&repeated).is_none());
    }
}
