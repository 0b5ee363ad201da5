//! Convolution in one and two dimensions and its transpose: NCHW activations, any stride, padding,
//! dilation and number of groups, bias and activation applied on the way out. An implicit product:
//! inputs are fetched where taps point, in small tiles; there is no im2col buffer.

mod cases;
mod cpu;
mod kernels;
pub mod node;
mod plan;
mod reference;

use tintype_gpu::{Dispatch, Session, Split};

use super::Operation;
use super::pointwise::Unary;
use super::walked::Start;
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::Number;
use kernels::Form;

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "conv",
    summary: "convolution in one and two dimensions and its transpose, grouped, with bias and activation",
    cases: cases::cases,
    benches: cases::benches,
    kernels: kernels::kernels,
};

/// What a convolution does beside its weights. In one dimension the first axis is of extent 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv {
    /// Step between outputs (between inputs, transposed), vertical and horizontal.
    pub stride: [usize; 2],
    /// Zeros before and after each axis: `[[top, bottom], [left, right]]`. Transposed: rows and
    /// columns cut off.
    pub padding: [[usize; 2]; 2],
    /// Step between taps.
    pub dilation: [usize; 2],
    /// Groups of channels that do not mix; as many as channels is depthwise.
    pub groups: usize,
    /// Applied after the bias; functions with parameters are not taken.
    pub activation: Unary,
}

impl Default for Conv {
    fn default() -> Self {
        Conv {
            stride: [1; 2],
            padding: [[0; 2]; 2],
            dilation: [1; 2],
            groups: 1,
            activation: Unary::Identity,
        }
    }
}

impl Conv {
    /// The same padding on all four sides.
    pub fn padded(self, n: usize) -> Self {
        Conv { padding: [[n; 2]; 2], ..self }
    }

    /// The same stride along both axes.
    pub fn strided(self, n: usize) -> Self {
        Conv { stride: [n; 2], ..self }
    }

    /// The same dilation along both axes.
    pub fn dilated(self, n: usize) -> Self {
        Conv { dilation: [n; 2], ..self }
    }

    /// In so many groups.
    pub fn grouped(self, groups: usize) -> Self {
        Conv { groups, ..self }
    }

    /// With an activation.
    pub fn then(self, activation: Unary) -> Self {
        Conv { activation, ..self }
    }

    /// Extents `[h, w]` of the output for an input and taps of such extents; `None` where the taps
    /// reach past the padded input.
    pub fn output(&self, input: [usize; 2], taps: [usize; 2]) -> Option<[usize; 2]> {
        let along = |axis: usize| {
            let reach = self.dilation[axis].checked_mul(taps[axis].checked_sub(1)?)?;
            let padded = input[axis].checked_add(self.padding[axis].iter().sum())?;
            Some(padded.checked_sub(reach.checked_add(1)?)? / self.stride[axis].max(1) + 1)
        };
        Some([along(0)?, along(1)?])
    }

    /// Extents of the transposed convolution's output, without PyTorch's `output_padding`.
    pub fn output_transposed(&self, input: [usize; 2], taps: [usize; 2]) -> Option<[usize; 2]> {
        let along = |axis: usize| {
            let steps = input[axis].checked_sub(1)?.checked_mul(self.stride[axis])?;
            let reach = self.dilation[axis].checked_mul(taps[axis].checked_sub(1)?)?;
            steps.checked_add(reach)?.checked_add(1)?.checked_sub(self.padding[axis].iter().sum())
        };
        Some([along(0)?, along(1)?])
    }
}

/// Which way weights connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Transposed,
}

/// Immediates (WGSL: `params.wgsl`).
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    channels: u32,
    filters: u32,
    taps: [u32; 2],
    input: [u32; 2],
    output: [u32; 2],
    stride: [u32; 2],
    /// Before each axis.
    padding: [u32; 2],
    dilation: [u32; 2],
    groups: u32,
    x_n: u32,
    x_c: u32,
    x_h: u32,
    x_w: u32,
    weight_o: u32,
    weight_c: u32,
    out_n: u32,
    bias_step: u32,
    start_x: u32,
    start_weights: u32,
    start_bias: u32,
    start_out: u32,
    /// For the CPU kernel: types of x, weights, bias and out, 4 bits each; bit 16: transposed; bit
    /// 17: there is a bias; from bit 24: the activation.
    codes: u32,
    /// For the CPU kernel: filters and pixels of a unit.
    tile_o: u32,
    tile_q: u32,
}

/// `out[n, o] = Σ weights[o, c]⋆x[n, c] + bias[o]` (⋆: correlation): x `[n, c, h, w]`, weights
/// `[o, c / groups, kh, kw]`, bias `[o]`, out `[n, o, oh, ow]` with dense images.
pub fn conv2d(
    session: &mut Session<'_>,
    x: &Tensor,
    weights: &Tensor,
    bias: Option<&Tensor>,
    conv: &Conv,
    out: &Tensor,
) -> Result<()> {
    Operands { op: "conv2d", x, weights, bias, out }.record(session, conv, Direction::Forward)
}

/// The transpose of [`conv2d`] (of "deconvolution" fame): weights `[c, o / groups, kh, kw]`; `out` may
/// be up to a stride larger than [`Conv::output_transposed`] says (PyTorch's `output_padding`).
pub fn conv_transpose2d(
    session: &mut Session<'_>,
    x: &Tensor,
    weights: &Tensor,
    bias: Option<&Tensor>,
    conv: &Conv,
    out: &Tensor,
) -> Result<()> {
    let operands = Operands { op: "conv_transpose2d", x, weights, bias, out };
    operands.record(session, conv, Direction::Transposed)
}

/// [`conv2d`] along one axis: x `[n, c, w]`, weights `[o, c / groups, k]`, out `[n, o, ow]`. Of `conv`
/// the horizontal half counts.
pub fn conv1d(
    session: &mut Session<'_>,
    x: &Tensor,
    weights: &Tensor,
    bias: Option<&Tensor>,
    conv: &Conv,
    out: &Tensor,
) -> Result<()> {
    one_axis(session, "conv1d", [x, weights, out], bias, conv, Direction::Forward)
}

/// [`conv_transpose2d`] along one axis: weights `[c, o / groups, k]`.
pub fn conv_transpose1d(
    session: &mut Session<'_>,
    x: &Tensor,
    weights: &Tensor,
    bias: Option<&Tensor>,
    conv: &Conv,
    out: &Tensor,
) -> Result<()> {
    one_axis(session, "conv_transpose1d", [x, weights, out], bias, conv, Direction::Transposed)
}

fn one_axis(
    session: &mut Session<'_>,
    op: &'static str,
    operands: [&Tensor; 3],
    bias: Option<&Tensor>,
    conv: &Conv,
    direction: Direction,
) -> Result<()> {
    if operands.iter().any(|tensor| tensor.rank() != 3) {
        return Err(shape(op, &operands, "x, weights and out have three axes"));
    }
    let [x, weights, out] = operands;
    let (x, weights, out) = (x.insert_axis(2)?, weights.insert_axis(2)?, out.insert_axis(2)?);
    let conv = Conv {
        stride: [1, conv.stride[1]],
        padding: [[0; 2], conv.padding[1]],
        dilation: [1, conv.dilation[1]],
        ..*conv
    };
    Operands { op, x: &x, weights: &weights, bias, out: &out }.record(session, &conv, direction)
}

struct Operands<'a> {
    op: &'static str,
    x: &'a Tensor,
    weights: &'a Tensor,
    bias: Option<&'a Tensor>,
    out: &'a Tensor,
}

impl Operands<'_> {
    fn list(&self) -> Vec<&Tensor> {
        [self.x, self.weights].into_iter().chain(self.bias).chain([self.out]).collect()
    }

    fn refuse(&self, reason: impl Into<String>) -> crate::Error {
        shape(self.op, &self.list(), reason)
    }

    /// Checks everything, then records image by image where that has to be.
    fn record(&self, session: &mut Session<'_>, conv: &Conv, direction: Direction) -> Result<()> {
        self.check(conv, direction)?;
        let Operands { x, weights, bias, out, .. } = *self;
        if out.elements() == 0 {
            return Ok(());
        }
        let limit = span_limit(session.device());
        let images = out.shape()[0];
        let fits = |tensor: &Tensor| tensor.span_bytes() <= limit;
        let tile = plan::tile(conv, weights.shape(), out.shape(), direction);
        let cpu = session.device().info().limits.threads > 0;
        let together = match cpu {
            true => out.is_contiguous() && out.shape()[1].is_multiple_of(tile.0),
            false => fits(x) && fits(out) && images * conv.groups <= 65_535,
        };
        if images > 1 && !together {
            for image in 0..images {
                let [x, out] = [x, out].map(|tensor| tensor.slice(0, image..image + 1));
                Operands { x: &x?, out: &out?, ..*self }.record(session, conv, direction)?;
            }
            return Ok(());
        }
        if !fits(out) || !fits(weights) {
            // Half of the filters at a time; in groups, each group has its own channels.
            let filters = out.shape()[1];
            if conv.groups > 1 || filters < 2 {
                return Err(self.refuse("one image does not fit in a binding"));
            }
            let axis = usize::from(direction == Direction::Transposed);
            for half in [0..filters / 2, filters / 2..filters] {
                let weights = weights.slice(axis, half.clone())?;
                let bias = bias.map(|bias| bias.slice(0, half.clone())).transpose()?;
                let out = out.slice(1, half)?;
                let operands =
                    Operands { weights: &weights, bias: bias.as_ref(), out: &out, ..*self };
                operands.record(session, conv, direction)?;
            }
            return Ok(());
        }
        if !fits(x) {
            return Err(self.refuse("one input image does not fit in a binding"));
        }
        self.dispatch(session, conv, direction, tile)
    }

    fn check(&self, conv: &Conv, direction: Direction) -> Result<()> {
        let Operands { x, weights, bias, out, .. } = *self;
        if [x, weights, out].iter().any(|tensor| tensor.rank() != 4) {
            return Err(self.refuse("x, weights and out have four axes"));
        }
        if self.list().iter().any(|tensor| Number::of(tensor.dtype()).is_none()) {
            return Err(dtype(self.op, &self.list(), "types are F32, F16 and BF16"));
        }
        if matches!(conv.activation, Unary::Affine | Unary::Clamp | Unary::SoftCap) {
            let name = conv.activation.name();
            return Err(self.refuse(format!("{name} has parameters and is no activation here")));
        }
        let steps = [conv.stride, conv.dilation].concat();
        if conv.groups == 0 || steps.contains(&0) {
            return Err(self.refuse("stride, dilation and groups are at least 1"));
        }
        let (&[n, c, h, w], &[first, second, kh, kw], &[on, o, oh, ow]) = (
            x.shape().first_chunk().unwrap_or(&[0; 4]),
            weights.shape().first_chunk().unwrap_or(&[0; 4]),
            out.shape().first_chunk().unwrap_or(&[0; 4]),
        );
        let (filters, channels) = match direction {
            Direction::Forward => (first, second.saturating_mul(conv.groups)),
            Direction::Transposed => (second.saturating_mul(conv.groups), first),
        };
        if on != n || o != filters || c != channels {
            let order = match direction {
                Direction::Forward => "[o, c / groups, kh, kw]",
                Direction::Transposed => "[c, o / groups, kh, kw]",
            };
            return Err(self.refuse(format!(
                "x [n, c, h, w] takes weights {order} in {} groups and gives out [n, o, ..]",
                conv.groups
            )));
        }
        if !o.is_multiple_of(conv.groups) || !c.is_multiple_of(conv.groups) || kh == 0 || kw == 0 {
            return Err(self.refuse("groups divide channels and filters, and there are taps"));
        }
        let fitting = match direction {
            Direction::Forward => conv.output([h, w], [kh, kw]).filter(|right| *right == [oh, ow]),
            Direction::Transposed => conv.output_transposed([h, w], [kh, kw]).filter(|least| {
                let within = |given: usize, least: usize, step: usize| {
                    given >= least && given - least < step
                };
                within(oh, least[0], conv.stride[0]) && within(ow, least[1], conv.stride[1])
            }),
        };
        if fitting.is_none() {
            let right = match direction {
                Direction::Forward => conv.output([h, w], [kh, kw]),
                Direction::Transposed => conv.output_transposed([h, w], [kh, kw]),
            };
            return Err(self.refuse(match right {
                Some(right) => format!("the output's extents would be {right:?}"),
                None => "the taps reach past the padded input".into(),
            }));
        }
        if bias.is_some_and(|bias| bias.shape() != [o]) {
            return Err(self.refuse(format!("bias must be [{o}]")));
        }
        let s = weights.strides();
        if kw > 1 && s[3] != 1 || kh > 1 && s[2] != kw {
            return Err(self.refuse("the taps of a filter must be contiguous"));
        }
        let s = out.strides();
        let dense =
            (ow == 1 || s[3] == 1) && (oh == 1 || s[2] == ow) && (o == 1 || s[1] == oh * ow);
        if !dense || n > 1 && s[0] < o * oh * ow {
            return Err(self.refuse("images of the output must be dense and apart"));
        }
        let small = [h, w, oh, ow, kh, kw].iter().all(|&n| n < 1 << 24)
            && [conv.stride, conv.dilation, conv.padding[0], conv.padding[1]]
                .concat()
                .iter()
                .all(|&n| n < 1 << 24);
        if !small || self.list().iter().any(|tensor| tensor.elements() > u32::MAX as usize) {
            return Err(self.refuse("extents or spans are past what 32-bit indices reach"));
        }
        Ok(())
    }

    fn dispatch(
        &self,
        session: &mut Session<'_>,
        conv: &Conv,
        direction: Direction,
        (tile_o, tile_q): (usize, usize),
    ) -> Result<()> {
        let Operands { x, weights, bias, out, .. } = *self;
        let number = |tensor: &Tensor| Number::of(tensor.dtype()).unwrap_or(Number::F32);
        // A slot must be bound; without a bias it is not read.
        let bias_slot = bias.unwrap_or(weights);
        let types = [number(x), number(weights), number(bias_slot), number(out)];
        let (images, filters) = (out.shape()[0], out.shape()[1]);
        let pixels = out.shape()[2] * out.shape()[3];
        let size = |tensor: &Tensor| tensor.dtype().block_bytes();
        let (from, by, with, to) = (x.read()?, weights.read()?, bias_slot.read()?, out.write()?);
        let mut codes = types.iter().rev().fold(0, |codes, number| codes << 4 | *number as u32);
        codes |= u32::from(direction == Direction::Transposed) << 16;
        codes |= u32::from(bias.is_some()) << 17 | (conv.activation as u32) << 24;
        let pair = |pair: [usize; 2]| pair.map(|n| n as u32);
        let (xs, ws) = (x.strides(), weights.strides());
        let (weight_o, weight_c) = match direction {
            Direction::Forward => (ws[0], ws[1]),
            Direction::Transposed => (ws[1], ws[0]),
        };
        let params = Params {
            channels: (x.shape()[1] / conv.groups) as u32,
            filters: (filters / conv.groups) as u32,
            taps: pair([weights.shape()[2], weights.shape()[3]]),
            input: pair([x.shape()[2], x.shape()[3]]),
            output: pair([out.shape()[2], out.shape()[3]]),
            stride: pair(conv.stride),
            padding: pair([conv.padding[0][0], conv.padding[1][0]]),
            dilation: pair(conv.dilation),
            groups: conv.groups as u32,
            x_n: xs[0] as u32,
            x_c: xs[1] as u32,
            x_h: xs[2] as u32,
            x_w: xs[3] as u32,
            weight_o: weight_o as u32,
            weight_c: weight_c as u32,
            out_n: out.strides()[0] as u32,
            bias_step: bias.map_or(0, |bias| bias.strides()[0] as u32),
            start_x: from.start_in(size(x)),
            start_weights: by.start_in(size(weights)),
            start_bias: with.start_in(size(bias_slot)),
            start_out: to.start_in(size(out)),
            codes,
            tile_o: tile_o as u32,
            tile_q: tile_q as u32,
        };
        let tiled = filters / conv.groups >= kernels::FEW_FILTERS;
        let form =
            Form { types, bias: bias.is_some(), direction, activation: conv.activation, tiled };
        let kernel = form.variant().compile(session)?;
        let (across, down) = match tiled {
            true => (kernels::TILE, params.filters.div_ceil(kernels::TILE)),
            false => (kernels::DIRECT_PIXELS, params.filters),
        };
        let columns = pixels.div_ceil(tile_q) as u32;
        let split = Split::Tiles {
            row_bytes: pixels as u64 * size(out),
            tile_rows: tile_o as u64,
            tile_bytes: tile_q as u64 * size(out),
            columns,
        };
        let units = columns * (images * filters).div_ceil(tile_o) as u32;
        let groups = [(pixels as u32).div_ceil(across), down, (images * conv.groups) as u32];
        let dispatch = Dispatch::new(&kernel)
            .label(self.op)
            .bind(from)
            .bind(by)
            .bind(with)
            .bind(to)
            .immediates(&params)
            .groups(groups)
            .cpu(units, [split]);
        session.dispatch(dispatch)?;
        Ok(())
    }
}
