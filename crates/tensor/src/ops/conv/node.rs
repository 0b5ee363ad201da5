//! Convolutions as a graph's nodes. Results have the type of x; bias and activation are applied on
//! the way out.

use tintype_gpu::Session;

use super::{Conv, conv_transpose2d, conv2d};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, refuse_dtype, refuse_shape};
use crate::number::Number;
use crate::ops::pointwise::Unary;

/// A convolution in two dimensions; operands are x, weights and perhaps a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2d {
    /// Strides, padding, groups, activation.
    pub conv: Conv,
    /// Whether it is the transpose; then, how many more rows and columns than the least the result
    /// has (PyTorch's `output_padding`).
    pub transposed: Option<[usize; 2]>,
}

impl Conv2d {
    /// Extents of the result's images, if the taps fit.
    fn extents(&self, input: [usize; 2], taps: [usize; 2]) -> Option<[usize; 2]> {
        match self.transposed {
            None => self.conv.output(input, taps),
            Some(more) => {
                let [h, w] = self.conv.output_transposed(input, taps)?;
                let fits = (0..2).all(|axis| more[axis] < self.conv.stride[axis]);
                fits.then_some([h + more[0], w + more[1]])
            }
        }
    }
}

impl Op for Conv2d {
    fn name(&self) -> &'static str {
        if self.transposed.is_some() { "conv_transpose2d" } else { "conv2d" }
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let refuse = |reason: &str| Err(refuse_shape(op, inputs, reason));
        let (x, weights, bias) = match inputs {
            [x, weights] => (x, weights, None),
            [x, weights, bias] => (x, weights, Some(bias)),
            _ => return refuse("it takes x, weights and perhaps a bias"),
        };
        if inputs.iter().any(|meta| Number::of(meta.dtype).is_none()) {
            return Err(refuse_dtype(op, inputs, "types are F32, F16 and BF16"));
        }
        let conv = &self.conv;
        if matches!(conv.activation, Unary::Affine | Unary::Clamp | Unary::SoftCap) {
            return refuse(&format!("{} is no activation here", conv.activation.name()));
        }
        if conv.groups == 0 || conv.stride.contains(&0) || conv.dilation.contains(&0) {
            return refuse("stride, dilation and groups are at least 1");
        }
        let (&[n, c, h, w], &[first, second, kh, kw]) =
            match (x.shape.as_slice().try_into(), weights.shape.as_slice().try_into()) {
                (Ok(x), Ok(weights)) => (x, weights),
                _ => return refuse("x and weights have four axes"),
            };
        let grouped = second.saturating_mul(conv.groups);
        let (filters, channels, order) = match self.transposed {
            None => (first, grouped, "[o, c / groups, kh, kw]"),
            Some(_) => (grouped, first, "[c, o / groups, kh, kw]"),
        };
        if c != channels || !filters.is_multiple_of(conv.groups) || !c.is_multiple_of(conv.groups) {
            return refuse(&format!(
                "x [n, c, h, w] takes weights {order} in {} groups",
                conv.groups
            ));
        }
        if bias.is_some_and(|bias| bias.shape != [filters]) {
            return refuse(&format!("the bias is [{filters}]"));
        }
        let Some([oh, ow]) = self.extents([h, w], [kh, kw]).filter(|_| kh > 0 && kw > 0) else {
            return refuse("the taps do not fit the padded input");
        };
        Ok(vec![Meta::new(x.dtype, &[n, filters, oh, ow])])
    }

    fn layout(&self, input: usize) -> Layout {
        if input == 0 { Layout::Any } else { Layout::Dense }
    }

    fn flops(&self, inputs: &[Meta], outputs: &[Meta]) -> f64 {
        // Each weight meets each pixel of the smaller image of its two.
        let pixels = |meta: &Meta| meta.shape[2] * meta.shape[3];
        let images = match self.transposed {
            None => pixels(&outputs[0]),
            Some(_) => pixels(&inputs[0]),
        };
        2.0 * inputs[1].elements() as f64 * (images * inputs[0].shape[0]) as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        let record = if self.transposed.is_some() { conv_transpose2d } else { conv2d };
        record(session, &inputs[0], &inputs[1], inputs.get(2), &self.conv, &outputs[0])
    }
}

impl Graph {
    /// Convolution: x `[n, c, h, w]`, weights `[o, c / groups, kh, kw]`, bias `[o]`.
    pub fn conv2d(
        &mut self,
        x: Value,
        weights: Value,
        bias: Option<Value>,
        conv: Conv,
    ) -> Result<Value> {
        let operands: Vec<_> = [x, weights].into_iter().chain(bias).collect();
        self.apply(Conv2d { conv, transposed: None }, &operands)
    }

    /// Its transpose: weights `[c, o / groups, kh, kw]`; the result has `more` rows and columns beyond
    /// the least (PyTorch's `output_padding`).
    pub fn conv_transpose2d(
        &mut self,
        x: Value,
        weights: Value,
        bias: Option<Value>,
        conv: Conv,
        more: [usize; 2],
    ) -> Result<Value> {
        let operands: Vec<_> = [x, weights].into_iter().chain(bias).collect();
        self.apply(Conv2d { conv, transposed: Some(more) }, &operands)
    }

    /// Convolution along one axis: x `[n, c, w]`, weights `[o, c / groups, k]`, bias `[o]`. Of `conv`
    /// the horizontal half counts.
    pub fn conv1d(
        &mut self,
        x: Value,
        weights: Value,
        bias: Option<Value>,
        conv: Conv,
    ) -> Result<Value> {
        let conv = Conv {
            stride: [1, conv.stride[1]],
            padding: [[0; 2], conv.padding[1]],
            dilation: [1, conv.dilation[1]],
            ..conv
        };
        let row = |graph: &mut Graph, value: Value| {
            let mut shape = graph.shape(value)?;
            shape.insert(shape.len().saturating_sub(1), 1);
            graph.reshape(value, &shape)
        };
        let (x, weights) = (row(self, x)?, row(self, weights)?);
        let out = self.conv2d(x, weights, bias, conv)?;
        let mut shape = self.shape(out)?;
        shape.remove(2);
        self.reshape(out, &shape)
    }
}
