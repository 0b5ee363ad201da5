//! Dispatching kernels that visit each output element once, in the output's memory order: the
//! parameters they share (WGSL: `prelude/walk.wgsl`) and how work is cut for GPU and CPU.

use tintype_gpu::kernel::{Unit, UnitError};
use tintype_gpu::{ReadSpan, Session, Split, WriteSpan};

use super::case::Variant;
use crate::error::Result;
use crate::layout::{Walk, pieces, span_limit};
use crate::{MAX_RANK, Tensor};

/// Immediates of every walking kernel.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Params {
    extents: [u32; MAX_RANK],
    out: [u32; MAX_RANK],
    a: [u32; MAX_RANK],
    b: [u32; MAX_RANK],
    starts: [u32; 3],
    count: u32,
    /// What the CPU kernel is to do; GPU kernels have it compiled in, but for `fill`'s value.
    pub(crate) codes: u32,
    pub(crate) x: f32,
    pub(crate) y: f32,
}

impl Params {
    /// The walk over the output and `N - 1` inputs.
    pub(crate) fn walk<const N: usize>(&self) -> Walk<N> {
        let all = [self.out, self.a, self.b];
        let strides = std::array::from_fn(|n| all.get(n).copied().unwrap_or_default());
        let used = self.extents.iter().position(|&extent| extent != 1);
        let rank = (MAX_RANK - used.unwrap_or(MAX_RANK - 1)).max(1);
        Walk { extents: self.extents, strides, rank }
    }
}

/// Numbers of axes that walking kernels are compiled for.
pub(crate) const RANKS: [u32; 4] = [1, 2, 4, 6];

/// Elements a GPU workgroup handles (`GROUP * EACH` in the WGSL).
const GROUP_ELEMENTS: u64 = 1024;

/// Output bytes a CPU unit owns: some ten microseconds of copying, some hundred of `exp`.
const UNIT_BYTES: u64 = 128 << 10;

/// Workgroups for `count` of them: along x, then y, where x alone does not reach.
pub(crate) fn groups(session: &Session<'_>, count: u64) -> [u32; 3] {
    let most = session.device().info().limits.max_groups;
    let x = count.clamp(1, u64::from(most[0].min(65_535)));
    [x as u32, count.div_ceil(x).max(1) as u32, 1]
}

/// First element of a span as its GPU binding sees it.
pub(crate) trait Start {
    /// In elements of `bytes` bytes.
    fn start_in(&self, bytes: u64) -> u32;
}

impl Start for ReadSpan {
    fn start_in(&self, bytes: u64) -> u32 {
        (self.binding_remainder() / bytes) as u32
    }
}

impl Start for WriteSpan {
    fn start_in(&self, bytes: u64) -> u32 {
        (self.binding_remainder() / bytes) as u32
    }
}

/// A walking operation: what to run, and its parameters beside the walk.
pub(crate) struct Walked<'a> {
    pub(crate) op: &'static str,
    pub(crate) label: &'a str,
    /// For the CPU kernel, or `fill`'s value.
    pub(crate) codes: u32,
    pub(crate) x: f32,
    pub(crate) y: f32,
}

impl Walked<'_> {
    /// Records the operation over the output (operand 0) and its inputs, in as many dispatches as
    /// the device's binding size asks for. Slots are the inputs in order, then the output.
    pub(crate) fn record<const N: usize>(
        &self,
        session: &mut Session<'_>,
        operands: [&Tensor; N],
        variant: impl Fn(u32) -> Variant,
    ) -> Result<()> {
        if operands[0].elements() == 0 {
            return Ok(());
        }
        for piece in pieces(self.op, operands, span_limit(session.device()))? {
            let walk = Walk::new(self.op, piece.each_ref())?;
            let kernel = variant(walk.rank_class()).compile(session)?;
            let out = piece[0].write()?;
            let size = |tensor: &Tensor| tensor.dtype().block_bytes();
            let mut starts = [out.start_in(size(&piece[0])), 0, 0];
            let mut dispatch = tintype_gpu::Dispatch::new(&kernel).label(self.label);
            for (input, start) in piece[1..].iter().zip(&mut starts[1..]) {
                let span = input.read()?;
                *start = span.start_in(size(input));
                dispatch = dispatch.bind(span);
            }
            let strides = |n: usize| walk.strides.get(n).copied().unwrap_or_default();
            let params = Params {
                extents: walk.extents,
                out: strides(0),
                a: strides(1),
                b: strides(2),
                starts,
                count: walk.count(),
                codes: self.codes,
                x: self.x,
                y: self.y,
            };
            let count = u64::from(walk.count()).div_ceil(GROUP_ELEMENTS);
            let units = out.len().div_ceil(UNIT_BYTES) as u32;
            let dispatch = dispatch
                .bind(out)
                .immediates(&params)
                .groups(groups(session, count))
                .cpu(units, [Split::Chunks(UNIT_BYTES)]);
            session.dispatch(dispatch)?;
        }
        Ok(())
    }
}

/// Calls `run` for each innermost stretch of the output elements that this unit owns. Offset 0 is
/// counted from the start of the unit's own part, the others from the start of their spans.
pub(crate) fn unit_runs<const N: usize>(
    unit: &Unit<'_>,
    params: &Params,
    element_bytes: u64,
    mut run: impl FnMut([usize; N], usize),
) -> Result<(), UnitError> {
    let walk = params.walk::<N>();
    let start = u64::from(unit.index()) * UNIT_BYTES / element_bytes;
    let end = start + UNIT_BYTES / element_bytes;
    walk.runs(walk.first_at(start)..walk.first_at(end), |mut offsets, len| {
        offsets[0] -= start as usize;
        run(offsets, len);
    });
    Ok(())
}
