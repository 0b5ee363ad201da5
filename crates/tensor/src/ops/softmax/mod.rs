//! Softmax of rows, scaled and masked: `out = softmax(x·scale + mask)` over the last axis. A row that
//! is masked everywhere gives 0. Sums have one order for a row, whatever other rows there are.

mod cases;
mod cpu;
mod node;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{Dispatch, Session};

pub use node::SoftmaxOp;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, inputs_and_out};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "softmax",
    summary: "softmax(x·scale + mask) over the last axis",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Immediates (WGSL: `softmax.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: types of x, mask and out in 2 bits each; bit 6: there is a mask.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    scale: f32,
    x: Place,
    mask: Place,
    out: Place,
}

const HAS_MASK: u32 = 1 << 6;

const SOFTMAX: KernelSource = KernelSource {
    name: "softmax",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("../prelude/functions.wgsl"),
        include_str!("softmax.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::softmax,
};

static TYPES: [[(&str, &str); 4]; 27] = inputs_and_out("X", "M");

/// Threads of a GPU workgroup (`GROUP` in the WGSL), and how many may share a row.
const GROUP: u32 = 128;
const THREADS: [u32; 3] = [GROUP, 32, 8];

fn variant([x, mask, out]: [Number; 3], masked: bool, threads: u32) -> Variant {
    let aliases = &TYPES[x as usize * 9 + mask as usize * 3 + out as usize];
    let overrides = vec![
        ("X_BF16", x.is_bf16()),
        ("M_BF16", mask.is_bf16()),
        ("OUT_BF16", out.is_bf16()),
        ("HAS_MASK", f64::from(u8::from(masked))),
        ("TPR", threads.into()),
    ];
    Variant { source: KernelSource { aliases, ..SOFTMAX }, overrides }
}

fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    for x in NUMBERS {
        for mask in NUMBERS {
            all.extend(NUMBERS.map(|out| variant([x, mask, out], true, GROUP)));
        }
    }
    for threads in THREADS {
        all.extend([false, true].map(|masked| variant([Number::F32; 3], masked, threads)));
    }
    all
}

/// Threads for a row. It may not depend on the number of rows: the order of a sum depends on it.
fn threads_per_row(n: usize) -> u32 {
    match n {
        0..=64 => 8,
        65..=512 => 32,
        _ => GROUP,
    }
}

/// `out = softmax(x·scale + mask)` over the last axis; the mask repeats to the shape of `x`.
pub fn softmax(
    session: &mut Session<'_>,
    scale: f32,
    x: &Tensor,
    mask: Option<&Tensor>,
    out: &Tensor,
) -> Result<()> {
    let op = "softmax";
    let operands = [x, mask.unwrap_or(x), out];
    let numbers = operands.map(|tensor| Number::of(tensor.dtype()));
    let [Some(tx), Some(tm), Some(tout)] = numbers else {
        return Err(dtype(op, &operands, "types are F32, F16 and BF16"));
    };
    if x.rank() == 0 || out.shape() != x.shape() {
        return Err(shape(
            op,
            &operands,
            "input and output must have one shape, of an axis or more",
        ));
    }
    if !scale.is_finite() {
        return Err(shape(op, &operands, format!("the scale is {scale}")));
    }
    let repeated = operands[1].broadcast_to(x.shape()).map_err(|_: crate::Error| {
        shape(op, &operands, format!("the mask does not repeat to {:?}", x.shape()))
    })?;
    let n = x.shape()[x.rank() - 1];
    let kernel = variant([tx, tm, tout], mask.is_some(), threads_per_row(n)).compile(session)?;
    let masked = if mask.is_some() { HAS_MASK } else { 0 };
    let codes = tx as u32 | (tm as u32) << 2 | (tout as u32) << 4 | masked;
    let unit_rows = unit_rows(4 * n);
    for space in spaces(session.device(), op, [x, &repeated, out], &[2])? {
        let [x, mask, out] = &space.operands;
        let size = |tensor: &Tensor| tensor.dtype().block_bytes();
        let (from, from_mask, to) = (x.read()?, mask.read()?, out.write()?);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            codes,
            unit_rows,
            scale,
            x: space.place(0, from.start_in(size(x))),
            mask: space.place(1, from_mask.start_in(size(mask))),
            out: space.place(2, to.start_in(size(out))),
        };
        let count = u64::from(space.rows()).div_ceil((GROUP / threads_per_row(n)).into());
        let dispatch = Dispatch::new(&kernel)
            .label(op)
            .bind(from)
            .bind(from_mask)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, count))
            .cpu(space.rows().div_ceil(unit_rows), [space.split(2, unit_rows)]);
        session.dispatch(dispatch)?;
    }
    Ok(())
}
