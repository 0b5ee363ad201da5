//! Products as a graph's nodes: of two values, and of a value and weights. Weights in quantized types
//! are decoded inside the product, and results are F32.

use tintype_gpu::{DType, Session};

use crate::Tensor;
use crate::error::Result;
use crate::graph::{
    Graph, Layout, Meta, Op, Value, broadcast_shape, exactly, refuse_dtype, refuse_shape,
};
use crate::number::Number;
use crate::ops::quant_matmul::quant_matmul;

/// `out[.., m, n] = Σ a[.., m, k]·b[.., k, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMul;

/// `out[.., n] = Σ x[.., k]·w[n, k]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear;

impl Op for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [a, b] = exactly("matmul", inputs)?;
        if inputs.iter().any(|meta| Number::of(meta.dtype).is_none()) {
            return Err(refuse_dtype("matmul", inputs, "types are F32, F16 and BF16"));
        }
        let (Some((lead_a, [m, k])), Some((lead_b, [kb, n]))) =
            (a.shape.split_last_chunk::<2>(), b.shape.split_last_chunk::<2>())
        else {
            return Err(refuse_shape("matmul", inputs, "operands have at least two axes"));
        };
        if k != kb {
            let reason = format!("a [.., {m}, {k}] takes b [.., {k}, n]");
            return Err(refuse_shape("matmul", inputs, reason));
        }
        let leads = [Meta::new(a.dtype, lead_a), Meta::new(b.dtype, lead_b)];
        let mut shape = broadcast_shape("matmul", &leads)?;
        shape.extend([m, n]);
        Ok(vec![Meta { dtype: if a.dtype == b.dtype { a.dtype } else { DType::F32 }, shape }])
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn flops(&self, inputs: &[Meta], outputs: &[Meta]) -> f64 {
        2.0 * outputs[0].elements() as f64 * inputs[0].last() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        super::matmul(session, &inputs[0], &inputs[1], &outputs[0])
    }
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [x, w] = exactly("linear", inputs)?;
        let quantized = w.dtype.is_quantized();
        let known = match quantized {
            true => crate::quant::TYPES.contains(&w.dtype) && Number::of(x.dtype).is_some(),
            false => inputs.iter().all(|meta| Number::of(meta.dtype).is_some()),
        };
        if !known {
            let reason = "x is F32, F16 or BF16, weights too or of a block type that is decoded";
            return Err(refuse_dtype("linear", inputs, reason));
        }
        if w.rank() != 2 || x.rank() == 0 || x.last() != w.shape[1] {
            return Err(refuse_shape("linear", inputs, "weights [n, k] take x [.., k]"));
        }
        let mut shape = x.shape.clone();
        shape[x.rank() - 1] = w.shape[0];
        Ok(vec![Meta { dtype: x.dtype, shape }])
    }

    fn layout(&self, input: usize) -> Layout {
        // Rows of x become one matrix.
        if input == 0 { Layout::Dense } else { Layout::Rows }
    }

    fn flops(&self, inputs: &[Meta], outputs: &[Meta]) -> f64 {
        2.0 * outputs[0].elements() as f64 * inputs[0].last() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        let rows = |tensor: &Tensor| match tensor.rank() {
            1 => tensor.insert_axis(0),
            _ => Ok(tensor.clone()),
        };
        let (x, w, out) = (rows(&inputs[0])?, &inputs[1], rows(&outputs[0])?);
        match w.dtype().is_quantized() {
            true => quant_matmul(session, w, &x, &out),
            false => super::linear(session, &x, w, &out),
        }
    }
}

impl Graph {
    /// `Σ a[.., m, k]·b[.., k, n]`; leading axes repeat.
    pub fn matmul(&mut self, a: Value, b: Value) -> Result<Value> {
        self.apply(MatMul, &[a, b])
    }

    /// `x·wᵀ + bias`: x `[.., k]`, weights `[n, k]` in any number type or quantized, bias `[n]`. Axes of
    /// x before the last two are a batch, whose members get the bits that they get alone.
    pub fn linear(&mut self, x: Value, w: Value, bias: Option<Value>) -> Result<Value> {
        let product = self.apply(Linear, &[x, w])?;
        match bias {
            Some(bias) => self.add(product, bias),
            None => Ok(product),
        }
    }
}
