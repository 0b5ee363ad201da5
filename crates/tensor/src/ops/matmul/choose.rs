//! Which kernel takes a product, by shape, types, strides and device. What shapes a sum's order
//! must not depend on the batch.

use std::ops::Range;

use tintype_gpu::{Backend, DType, Device, DeviceKind};

use super::Params;
use super::kernels::{self, COUNTS, GROUP, MOST_ROWS};
use crate::Tensor;
use crate::number::Number;
use crate::ops::case::Variant;

/// A kernel and its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Few rows: `threads` share an output.
    Matvec { threads: u32 },
    /// Cooperative matrices in fragments of `side`, any strides.
    Coop { side: u32 },
    /// Cooperative matrices in fragments of 16 from 16-byte cells.
    CoopWide,
    /// Tiles of this many rows and columns.
    Tiled { rows: u32, columns: u32 },
}

/// Stretches of rows, each with the kernel that takes it; `None` if batches must go one by one.
/// `few`: a member's rows are.
pub(super) fn rows(
    device: &Device,
    few: bool,
    a: &Tensor,
    b: &Tensor,
    out: &Tensor,
) -> Option<Vec<(Range<usize>, Choice)>> {
    let [batch, m, n] = [out.shape()[0], out.shape()[1], out.shape()[2]];
    let along_k = (a.strides()[2] == 1 && b.strides()[1] == 1) || a.shape()[2] == 1;
    // The CPU's one kernel takes any number of rows.
    if !few || !along_k || device.info().limits.threads > 0 {
        return Some(vec![(0..m, whole(device, a, b, out))]);
    }
    let choice = Choice::Matvec { threads: threads(device, a.shape()[2], n) };
    if batch > 1 {
        // Rows interleave between batches: one dispatch takes them all.
        return (m <= MOST_ROWS).then(|| vec![(0..m, choice)]);
    }
    let mut all = Vec::new();
    let mut first = 0;
    while let Some(count) = COUNTS.into_iter().find(|&count| count <= m - first) {
        all.push((first..first + count, choice));
        first += count;
    }
    Some(all)
}

/// Threads that share an output.
fn threads(device: &Device, k: usize, n: usize) -> u32 {
    let most = match device.info().kind {
        DeviceKind::Software if n * k > 1 << 22 => 1,
        _ if n >= 8192 => 32,
        _ => 64,
    };
    (k as u32 / 4).clamp(1, most).next_power_of_two().min(most)
}

/// The kernel for many rows.
fn whole(device: &Device, a: &Tensor, b: &Tensor, out: &Tensor) -> Choice {
    let info = device.info();
    let [m, n, k] = [out.shape()[1], out.shape()[2], a.shape()[2]];
    let halves = a.dtype() == DType::F16 && b.dtype() == DType::F16 && out.dtype() != DType::Bf16;
    let side = [16, 8].into_iter().find(|&side| {
        info.features.coop_f16.iter().any(|shape| [shape.m, shape.n, shape.k] == [side; 3])
    });
    let b_along = b.strides()[1] == 1 || b.strides()[2] == 1;
    let threads = info.limits.max_group_threads >= 128 && info.limits.subgroup_size == (32, 32);
    if let (true, Some(side)) = (halves && b_along && a.strides()[2] == 1 && threads, side) {
        // Whole cells of eight everywhere, from the buffer's start. (Only SPIR-V loads a matrix of
        // halves through wider words; Metal has no fragments of 16.)
        let cells = |tensor: &Tensor| {
            let start = tensor.buffer().offset() as usize / 2 + tensor.start();
            let strides = tensor.shape().iter().zip(tensor.strides());
            start.is_multiple_of(8)
                && strides.into_iter().all(|(n, s)| *n == 1 || *s == 1 || s.is_multiple_of(8))
        };
        let inner = if b.strides()[1] == 1 { k } else { n };
        let whole = k.is_multiple_of(8) && inner.is_multiple_of(8) && cells(a) && cells(b);
        if whole && side == 16 && info.backend == Backend::Vulkan {
            return Choice::CoopWide;
        }
        return Choice::Coop { side };
    }
    let large = m > 64 && n > 64 && m * n >= 1 << 20;
    let side = if large { 128 } else { 64 };
    Choice::Tiled { rows: side, columns: side }
}

impl Choice {
    /// The kernel, and its workgroups along n and m.
    pub(super) fn kernel(
        self,
        types: [Number; 3],
        params: &Params,
        device: &Device,
    ) -> (Variant, [u32; 2]) {
        match self {
            Choice::Matvec { threads } => {
                let starts = [params.start_a, params.start_b, params.k];
                let steps = [params.a_batch, params.a_m, params.b_batch, params.b_n];
                let fours = starts.iter().chain(&steps).all(|n| n.is_multiple_of(4));
                // A vector of four f32 must lie on 16 bytes from the binding's own start.
                let vectors = fours && device.info().limits.binding_alignment >= 16;
                let kernel = kernels::matvec(types, params.m, threads, vectors);
                (kernel, [params.n.div_ceil(GROUP / threads), 1])
            }
            Choice::CoopWide => {
                let tile = kernels::coop_tile(16);
                let sides = [params.m, params.n].iter().all(|side| side.is_multiple_of(tile));
                let whole = sides && params.k.is_multiple_of(kernels::COOP_DEPTH);
                let kernel = kernels::coop_wide(types[2], whole, params.b_k == 1);
                (kernel, [params.n.div_ceil(tile), params.m.div_ceil(tile)])
            }
            Choice::Coop { side } => {
                let tile = kernels::coop_tile(side);
                let kernel = kernels::coop(types[2], side, params.b_k == 1);
                (kernel, [params.n.div_ceil(tile), params.m.div_ceil(tile)])
            }
            Choice::Tiled { rows, columns } => {
                let along = [params.a_k == 1, params.b_k == 1];
                let kernel = kernels::tiled(types, [rows, columns], along);
                (kernel, [params.n.div_ceil(columns), params.m.div_ceil(rows)])
            }
        }
    }
}
