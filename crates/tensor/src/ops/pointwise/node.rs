//! Pointwise functions as a graph's nodes, with broadcasting. Operands of one type give that type,
//! of several types F32.

use tintype_gpu::{DType, Session};

use super::{Binary, Unary, binary, binary_in_place, unary, unary_in_place};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, broadcast_shape, exactly, refuse_dtype};
use crate::number::Number;

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnaryOp {
    /// The function.
    pub function: Unary,
    /// Its parameters x and y.
    pub parameters: [f32; 2],
    /// Type of the result; the operand's own where there is none.
    pub dtype: Option<DType>,
}

/// A function of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryOp {
    /// The function.
    pub function: Binary,
}

fn numbers(op: &'static str, inputs: &[Meta]) -> Result<()> {
    match inputs.iter().find(|meta| Number::of(meta.dtype).is_none()) {
        Some(meta) => {
            Err(refuse_dtype(op, inputs, format!("{} is not one of F32, F16, BF16", meta.dtype)))
        }
        None => Ok(()),
    }
}

impl Op for UnaryOp {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [a] = exactly(self.name(), inputs)?;
        let out = a.as_dtype(self.dtype.unwrap_or(a.dtype));
        numbers(self.name(), &[a.clone(), out.clone()])?;
        Ok(vec![out])
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn reuse(&self, _output: usize, _input: usize) -> bool {
        true
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        let (a, out) = (&inputs[0], &outputs[0]);
        if a.is_same_view(out) {
            return unary_in_place(session, self.function, self.parameters, out);
        }
        unary(session, self.function, self.parameters, a, out)
    }
}

impl Op for BinaryOp {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let [a, b] = exactly(self.name(), inputs)?;
        numbers(self.name(), inputs)?;
        let dtype = if a.dtype == b.dtype { a.dtype } else { DType::F32 };
        Ok(vec![Meta { dtype, shape: broadcast_shape(self.name(), inputs)? }])
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn reuse(&self, _output: usize, input: usize) -> bool {
        input == 0 || matches!(self.function, Binary::Add | Binary::Mul)
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        let (a, b, out) = (&inputs[0], &inputs[1], &outputs[0]);
        if a.is_same_view(out) {
            return binary_in_place(session, self.function, out, b);
        }
        if b.is_same_view(out) {
            return binary_in_place(session, self.function, out, a);
        }
        binary(session, self.function, a, b, out)
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident $function:ident;)*) => {
        impl Graph { $(
            $(#[$doc])*
            pub fn $method(&mut self, x: Value) -> Result<Value> {
                self.unary(Unary::$function, [0.0; 2], x)
            }
        )* }
    };
}

unary_methods! {
    /// −x
    neg Neg;
    /// x²
    square Square;
    /// e^x
    exp Exp;
    /// Sine of radians.
    sin Sin;
    /// Cosine of radians.
    cos Cos;
    /// Hyperbolic tangent.
    tanh Tanh;
    /// 1/(1+e^−x)
    sigmoid Sigmoid;
    /// x·sigmoid(x), also called swish.
    silu Silu;
    /// Gaussian error linear unit, exact (erf).
    gelu Gelu;
    /// Its tanh approximation.
    gelu_tanh GeluTanh;
    /// Its sigmoid approximation, as CLIP uses.
    gelu_quick GeluQuick;
    /// max(x, 0)
    relu Relu;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident $function:ident;)*) => {
        impl Graph { $(
            $(#[$doc])*
            pub fn $method(&mut self, a: Value, b: Value) -> Result<Value> {
                self.binary(Binary::$function, a, b)
            }
        )* }
    };
}

binary_methods! {
    /// a + b, broadcast.
    add Add;
    /// a − b, broadcast.
    sub Sub;
    /// a·b, broadcast.
    mul Mul;
    /// a/b, broadcast.
    div Div;
    /// The smaller, broadcast.
    min Min;
    /// The larger, broadcast.
    max Max;
}

impl Graph {
    /// A function of one number with its parameters x and y.
    pub fn unary(&mut self, function: Unary, parameters: [f32; 2], x: Value) -> Result<Value> {
        self.apply(UnaryOp { function, parameters, dtype: None }, &[x])
    }

    /// A function of two numbers, broadcast.
    pub fn binary(&mut self, function: Binary, a: Value, b: Value) -> Result<Value> {
        self.apply(BinaryOp { function }, &[a, b])
    }

    /// x·factor + shift
    pub fn affine(&mut self, x: Value, factor: f32, shift: f32) -> Result<Value> {
        self.unary(Unary::Affine, [factor, shift], x)
    }

    /// x·factor
    pub fn scale(&mut self, x: Value, factor: f32) -> Result<Value> {
        self.affine(x, factor, 0.0)
    }

    /// x bounded to low..high.
    pub fn clamp(&mut self, x: Value, low: f32, high: f32) -> Result<Value> {
        self.unary(Unary::Clamp, [low, high], x)
    }

    /// cap·tanh(x/cap)
    pub fn softcap(&mut self, x: Value, cap: f32) -> Result<Value> {
        if !(cap.is_finite() && cap > 0.0) {
            let operands = self.meta(x)?.clone();
            let reason = format!("the cap is {cap}; it must be positive and finite");
            return Err(crate::graph::refuse_shape("softcap", &[operands], reason));
        }
        self.unary(Unary::SoftCap, [cap, 0.0], x)
    }

    /// The same numbers in another of F32, F16, BF16.
    pub fn cast(&mut self, x: Value, dtype: DType) -> Result<Value> {
        if self.dtype(x)? == dtype {
            return Ok(x);
        }
        let cast = UnaryOp { function: Unary::Identity, parameters: [0.0; 2], dtype: Some(dtype) };
        self.apply(cast, &[x])
    }
}
