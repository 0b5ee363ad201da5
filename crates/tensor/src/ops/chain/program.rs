//! A chain's program: what its steps are, and how they are written into a tensor for the kernels.
//! It must not know devices beyond uploading.

use tintype_gpu::{DType, Device};

use crate::Tensor;
use crate::error::Result;
use crate::number::Number;
use crate::ops::pointwise::{Binary, Unary};

/// Most steps of a program (`S0`… in the WGSL).
pub const MAX_STEPS: usize = 8;

/// Most operands beside the first.
pub const MAX_SIDES: usize = 3;

/// One step, on the running result r.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// `r = f(r)` with the function's parameters x and y.
    Unary(Unary, [f32; 2]),
    /// `r = f(r, side)`, or `f(side, r)` if reversed.
    Binary {
        /// The function.
        function: Binary,
        /// Which side, from 0.
        side: usize,
        /// Whether the side is the function's first operand.
        reversed: bool,
    },
    /// `r = f(r, r)`
    Own(Binary),
}

/// Steps in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
}

impl Program {
    /// Words of the tensor: a code and two parameters a step; types of a, the sides and out; steps.
    pub const WORDS: usize = MAX_STEPS * 3 + 6;

    /// Operands beside the first.
    pub fn sides(&self) -> usize {
        let sides = self.steps.iter().map(|step| match step {
            Step::Binary { side, .. } => side + 1,
            _ => 0,
        });
        sides.max().unwrap_or(0)
    }

    /// Steps as kernels know them; the rest is "leave as it is".
    pub(super) fn codes(&self) -> [u32; MAX_STEPS] {
        let mut codes = [0u32; MAX_STEPS];
        for (code, step) in codes.iter_mut().zip(&self.steps) {
            *code = step.code();
        }
        codes
    }

    /// The program as kernels read it, for operands of these types.
    pub fn tensor(&self, device: &Device, inputs: &[DType], out: DType) -> Result<Tensor> {
        let mut words = [0u32; Self::WORDS];
        for (at, step) in self.steps.iter().take(MAX_STEPS).enumerate() {
            let [x, y] = step.parameters();
            words[at * 3..at * 3 + 3].copy_from_slice(&[step.code(), x.to_bits(), y.to_bits()]);
        }
        let number = |dtype: DType| Number::of(dtype).unwrap_or(Number::F32) as u32;
        for (word, dtype) in words[MAX_STEPS * 3..].iter_mut().zip(inputs.iter().take(4)) {
            *word = number(*dtype);
        }
        words[MAX_STEPS * 3 + 4] = number(out);
        words[MAX_STEPS * 3 + 5] = self.steps.len().min(MAX_STEPS) as u32;
        Tensor::of(&device.buffer_from(&[Self::WORDS], &words)?)
    }
}

/// Layout of a code: bits 0–7 the function, 8 binary, 9–10 the side (3: r itself), 11 reversed.
impl Step {
    fn code(&self) -> u32 {
        match *self {
            Step::Unary(function, _) => function as u32,
            Step::Binary { function, side, reversed } => {
                function as u32 | 1 << 8 | (side as u32) << 9 | u32::from(reversed) << 11
            }
            Step::Own(function) => function as u32 | 1 << 8 | 3 << 9,
        }
    }

    fn parameters(&self) -> [f32; 2] {
        match self {
            Step::Unary(_, parameters) => *parameters,
            _ => [0.0; 2],
        }
    }

    pub(super) fn decode(code: u32, parameters: [f32; 2]) -> Step {
        if code & 1 << 8 == 0 {
            return Step::Unary(Unary::from_code(code & 0xff), parameters);
        }
        let function = Binary::from_code(code & 0xff);
        match code >> 9 & 3 {
            3 => Step::Own(function),
            side => Step::Binary { function, side: side as usize, reversed: code & 1 << 11 != 0 },
        }
    }
}
