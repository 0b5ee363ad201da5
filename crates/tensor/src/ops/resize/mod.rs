//! Resizing of NCHW images to any extents: nearest and bilinear, at the places that PyTorch's
//! `interpolate` takes, reckoned in whole numbers.

mod cases;
mod cpu;
mod node;
mod reference;

pub use node::ResizeTo;
use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{Dispatch, Session, Split};

use super::Operation;
use super::case::Variant;
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::{NUMBERS, Number, input_and_out};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "resize",
    summary: "images resized: nearest, and bilinear with corners aligned or not",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// How values between pixels are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resize {
    /// The pixel at ⌊at·in/out⌋ (PyTorch's `nearest`).
    Nearest,
    /// The pixel at ⌊(at + ½)·in/out⌋ (`nearest-exact`).
    NearestExact,
    /// Between the four pixels around (at + ½)·in/out − ½ (`bilinear`).
    Bilinear,
    /// Between the four pixels around at·(in − 1)/(out − 1) (`bilinear`, corners aligned).
    BilinearCorners,
}

/// The place that output `at` reads: `(a·at + b) / d`, at least 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    a: i32,
    b: i32,
    d: i32,
}

impl Resize {
    /// Every way.
    pub const ALL: [Resize; 4] =
        [Resize::Nearest, Resize::NearestExact, Resize::Bilinear, Resize::BilinearCorners];

    fn is_linear(self) -> bool {
        matches!(self, Resize::Bilinear | Resize::BilinearCorners)
    }

    /// Places along an axis, or `None` where they do not fit 31 bits.
    fn line(self, from: usize, to: usize) -> Option<Line> {
        let (from, to) = (i32::try_from(from).ok()?, i32::try_from(to).ok()?);
        let (a, b, d) = match self {
            Resize::Nearest => (from, 0, to),
            Resize::NearestExact => (from.checked_mul(2)?, from, to.checked_mul(2)?),
            Resize::Bilinear => (from.checked_mul(2)?, from.checked_sub(to)?, to.checked_mul(2)?),
            Resize::BilinearCorners => (from - 1, 0, (to - 1).max(1)),
        };
        a.checked_mul(to)?.checked_add(b.abs())?;
        Some(Line { a, b, d })
    }
}

/// Immediates (WGSL: `resize.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    channels: u32,
    input: [u32; 2],
    output: [u32; 2],
    x_n: u32,
    x_c: u32,
    x_h: u32,
    x_w: u32,
    out_n: u32,
    out_c: u32,
    lines: [[i32; 3]; 2],
    start_x: u32,
    start_out: u32,
    count: u32,
    /// For the CPU kernel: types of x and out, 4 bits each; bit 8: bilinear; from bit 16: rows of a
    /// unit.
    codes: u32,
}

const RESIZE: KernelSource = KernelSource {
    name: "resize",
    wgsl: concat!(include_str!("../prelude/numbers.wgsl"), include_str!("resize.wgsl")),
    entry: "main",
    aliases: &[],
    cpu: cpu::resize,
};

/// Threads of a GPU workgroup (`GROUP` in the WGSL).
const GROUP: u64 = 256;

/// Output elements of a CPU unit.
const UNIT_ELEMENTS: usize = 32 << 10;

static TYPES: [[(&str, &str); 3]; 9] = input_and_out("T");

fn variant(x: Number, out: Number, linear: bool) -> Variant {
    Variant {
        source: KernelSource { aliases: &TYPES[x as usize * 3 + out as usize], ..RESIZE },
        overrides: vec![
            ("X_BF16", x.is_bf16()),
            ("OUT_BF16", out.is_bf16()),
            ("LINEAR", f64::from(u8::from(linear))),
        ],
    }
}

fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    for x in NUMBERS {
        for out in NUMBERS {
            all.extend([false, true].map(|linear| variant(x, out, linear)));
        }
    }
    all
}

/// `out[n, c, oh, ow]` from x `[n, c, h, w]`; planes of the output are dense.
pub fn resize(session: &mut Session<'_>, how: Resize, x: &Tensor, out: &Tensor) -> Result<()> {
    let (op, operands) = ("resize", [x, out]);
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    let (Some(tx), Some(tout)) = (Number::of(x.dtype()), Number::of(out.dtype())) else {
        return Err(dtype(op, &operands, "types are F32, F16 and BF16"));
    };
    let (&[n, c, h, w], &[on, oc, oh, ow]) = (x.shape(), out.shape()) else {
        return refuse("x and out have four axes");
    };
    if [on, oc] != [n, c] {
        return refuse("x and out have the same images and channels");
    }
    if out.elements() == 0 {
        return Ok(());
    }
    if x.elements() == 0 {
        return refuse("nothing cannot be made larger");
    }
    let (Some(down), Some(across)) = (how.line(h, oh), how.line(w, ow)) else {
        return refuse("extents are past what 31-bit places reach");
    };
    let s = out.strides();
    let dense = (ow == 1 || s[3] == 1) && (oh == 1 || s[2] == ow);
    let apart = (c == 1 || s[1] >= oh * ow) && (n == 1 || s[0] >= (c - 1) * s[1] + oh * ow);
    if !dense || !apart {
        return refuse("planes of the output must be dense and apart");
    }
    let limit = span_limit(session.device());
    let fits = x.span_bytes() <= limit && out.span_bytes() <= limit;
    let cpu = session.device().info().limits.threads > 0;
    if !fits || cpu && !out.is_contiguous() {
        // Half of the images, then half of the channels.
        let Some((axis, extent)) = [(0, n), (1, c)].into_iter().find(|(_, extent)| *extent > 1)
        else {
            return match fits {
                true => dispatch(session, how, [tx, tout], [down, across], x, out),
                false => refuse("one plane does not fit in a binding"),
            };
        };
        for half in [0..extent / 2, extent / 2..extent] {
            resize(session, how, &x.slice(axis, half.clone())?, &out.slice(axis, half)?)?;
        }
        return Ok(());
    }
    dispatch(session, how, [tx, tout], [down, across], x, out)
}

fn dispatch(
    session: &mut Session<'_>,
    how: Resize,
    [tx, tout]: [Number; 2],
    lines: [Line; 2],
    x: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let (from, to) = (x.read()?, out.write()?);
    let size = |tensor: &Tensor| tensor.dtype().block_bytes();
    let extents = |tensor: &Tensor| [tensor.shape()[2] as u32, tensor.shape()[3] as u32];
    let width = out.shape()[3];
    let rows = (UNIT_ELEMENTS / width).clamp(1, 0xffff);
    let strides = |tensor: &Tensor, axis: usize| tensor.strides()[axis] as u32;
    let params = Params {
        channels: x.shape()[1] as u32,
        input: extents(x),
        output: extents(out),
        x_n: strides(x, 0),
        x_c: strides(x, 1),
        x_h: strides(x, 2),
        x_w: strides(x, 3),
        out_n: strides(out, 0),
        out_c: strides(out, 1),
        lines: lines.map(|line| [line.a, line.b, line.d]),
        start_x: from.start_in(size(x)),
        start_out: to.start_in(size(out)),
        count: out.elements() as u32,
        codes: tx as u32
            | (tout as u32) << 4
            | u32::from(how.is_linear()) << 8
            | (rows as u32) << 16,
    };
    let unit_bytes = (rows * width) as u64 * size(out);
    let units = to.len().div_ceil(unit_bytes) as u32;
    let count = u64::from(params.count).div_ceil(GROUP);
    let dispatch = Dispatch::new(&variant(tx, tout, how.is_linear()).compile(session)?)
        .label("resize")
        .bind(from)
        .bind(to)
        .immediates(&params)
        .groups(groups(session, count))
        .cpu(units, [Split::Chunks(unit_bytes)]);
    session.dispatch(dispatch)?;
    Ok(())
}
