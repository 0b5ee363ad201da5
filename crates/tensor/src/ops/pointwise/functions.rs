//! The pointwise functions, each once: its code in WGSL, its name, its f32 arithmetic on the CPU
//! and its float64 reference. `x` and `y` are parameters.

use crate::simd::{erfc, exp, sigmoid, tanh, vectorize};

/// Declares a list of functions: variant, code, name, reference, interval of test inputs.
macro_rules! functions {
    ($(#[$meta:meta])* $list:ident: $signature:ty {
        $($(#[$doc:meta])* $variant:ident = $code:literal $name:literal
            $reference:expr, $range:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $list { $($(#[$doc])* $variant = $code,)* }

        impl $list {
            /// Every function, in order of code.
            pub const ALL: &'static [$list] = &[$($list::$variant,)*];

            /// Name, as tables and labels show it.
            pub const fn name(self) -> &'static str {
                match self { $($list::$variant => $name,)* }
            }

            pub(crate) fn from_code(code: u32) -> $list {
                *$list::ALL.get(code as usize).unwrap_or(&$list::ALL[0])
            }

            /// The function in double precision.
            pub fn reference(self) -> $signature {
                match self { $($list::$variant => $reference,)* }
            }

            /// Inputs at which the function is tested.
            pub(crate) fn range(self) -> std::ops::Range<f32> {
                match self { $($list::$variant => $range,)* }
            }
        }
    };
}

functions! {
    /// A function of one number. Parameters `x` and `y` matter where the doc names them.
    Unary: fn(f64, f64, f64) -> f64 {
        /// v: conversion between types.
        Identity = 0 "identity" |v, _, _| v, -4.0..4.0;
        /// −v
        Neg = 1 "neg" |v, _, _| -v, -4.0..4.0;
        /// |v|
        Abs = 2 "abs" |v, _, _| v.abs(), -4.0..4.0;
        /// v²
        Square = 3 "square" |v, _, _| v * v, -4.0..4.0;
        /// √v
        Sqrt = 4 "sqrt" |v, _, _| v.sqrt(), 0.0..9.0;
        /// 1/√v
        Rsqrt = 5 "rsqrt" |v, _, _| v.sqrt().recip(), 0.05..9.0;
        /// 1/v
        Recip = 6 "recip" |v, _, _| v.recip(), 0.05..9.0;
        /// e^v
        Exp = 7 "exp" |v, _, _| v.exp(), -8.0..8.0;
        /// Natural logarithm.
        Log = 8 "log" |v, _, _| v.ln(), 0.05..9.0;
        /// Sine of radians.
        Sin = 9 "sin" |v, _, _| v.sin(), -3.0..3.0;
        /// Cosine of radians.
        Cos = 10 "cos" |v, _, _| v.cos(), -3.0..3.0;
        /// Hyperbolic tangent.
        Tanh = 11 "tanh" |v, _, _| v.tanh(), -6.0..6.0;
        /// 1/(1+e^−v)
        Sigmoid = 12 "sigmoid" |v, _, _| 1.0 / (1.0 + (-v).exp()), -8.0..8.0;
        /// v·sigmoid(v), also called swish.
        Silu = 13 "silu" |v, _, _| v / (1.0 + (-v).exp()), -8.0..8.0;
        /// Gaussian error linear unit, exact (erf).
        Gelu = 14 "gelu" |v, _, _| 0.5 * v * libm::erfc(-v / std::f64::consts::SQRT_2), -6.0..6.0;
        /// Its tanh approximation (Hendrycks and Gimpel 2016).
        GeluTanh = 15 "gelu_tanh"
            |v, _, _| 0.5 * v * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3))).tanh()),
            -6.0..6.0;
        /// Its sigmoid approximation, v·sigmoid(1.702·v), as CLIP uses.
        GeluQuick = 16 "gelu_quick" |v, _, _| v / (1.0 + (-1.702 * v).exp()), -6.0..6.0;
        /// max(v, 0)
        Relu = 17 "relu" |v, _, _| v.max(0.0), -4.0..4.0;
        /// v·x + y
        Affine = 18 "affine" |v, x, y| v * x + y, -4.0..4.0;
        /// v bounded to x..y
        Clamp = 19 "clamp" |v, x, y| v.clamp(x, y), -4.0..4.0;
        /// x·tanh(v/x): bounds logits smoothly to ±x.
        SoftCap = 20 "softcap" |v, x, _| x * (v / x).tanh(), -90.0..90.0;
    }
}

functions! {
    /// A function of two numbers.
    Binary: fn(f64, f64) -> f64 {
        /// v + w
        Add = 0 "add" |v, w| v + w, -4.0..4.0;
        /// v − w
        Sub = 1 "sub" |v, w| v - w, -4.0..4.0;
        /// v·w
        Mul = 2 "mul" |v, w| v * w, -4.0..4.0;
        /// v/w
        Div = 3 "div" |v, w| v / w, 0.5..4.0;
        /// The smaller.
        Min = 4 "min" |v, w| v.min(w), -4.0..4.0;
        /// The larger.
        Max = 5 "max" |v, w| v.max(w), -4.0..4.0;
    }
}

#[inline(always)]
fn each(out: &mut [f32], a: &[f32], f: impl Fn(f32) -> f32) {
    for (out, a) in out.iter_mut().zip(a) {
        *out = f(*a);
    }
}

/// √(2/π)·2: gelu_tanh as v·sigmoid(2·√(2/π)·(v + 0.044715·v³)).
const GELU_TANH: f32 = 1.595_769;

impl Unary {
    /// `out = f(a)`.
    pub(crate) fn apply(self, out: &mut [f32], a: &[f32], x: f32, y: f32) {
        vectorize(
            #[inline(always)]
            || match self {
                Unary::Identity => out.copy_from_slice(a),
                Unary::Neg => each(out, a, |v| -v),
                Unary::Abs => each(out, a, f32::abs),
                Unary::Square => each(out, a, |v| v * v),
                Unary::Sqrt => each(out, a, f32::sqrt),
                Unary::Rsqrt => each(out, a, |v| 1.0 / v.sqrt()),
                Unary::Recip => each(out, a, |v| 1.0 / v),
                Unary::Exp => each(out, a, exp),
                Unary::Log => each(out, a, f32::ln),
                Unary::Sin => each(out, a, f32::sin),
                Unary::Cos => each(out, a, f32::cos),
                Unary::Tanh => each(out, a, tanh),
                Unary::Sigmoid => each(out, a, sigmoid),
                Unary::Silu => each(out, a, |v| v * sigmoid(v)),
                Unary::Gelu => {
                    each(out, a, |v| 0.5 * v * erfc(v * -std::f32::consts::FRAC_1_SQRT_2));
                }
                Unary::GeluTanh => {
                    each(out, a, |v| v * sigmoid(GELU_TANH * (0.044_715 * v * v).mul_add(v, v)))
                }
                Unary::GeluQuick => each(out, a, |v| v * sigmoid(1.702 * v)),
                Unary::Relu => each(out, a, |v| v.max(0.0)),
                Unary::Affine => each(out, a, |v| v.mul_add(x, y)),
                Unary::Clamp => each(out, a, |v| v.max(x).min(y)),
                Unary::SoftCap => each(out, a, |v| x * tanh(v / x)),
            },
        );
    }
}

impl Binary {
    /// `out = f(a, b)`.
    pub(crate) fn apply(self, out: &mut [f32], a: &[f32], b: &[f32]) {
        #[inline(always)]
        fn pairs(out: &mut [f32], a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) {
            for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                *out = f(*a, *b);
            }
        }
        vectorize(
            #[inline(always)]
            || match self {
                Binary::Add => pairs(out, a, b, |v, w| v + w),
                Binary::Sub => pairs(out, a, b, |v, w| v - w),
                Binary::Mul => pairs(out, a, b, |v, w| v * w),
                Binary::Div => pairs(out, a, b, |v, w| v / w),
                Binary::Min => pairs(out, a, b, f32::min),
                Binary::Max => pairs(out, a, b, f32::max),
            },
        );
    }
}
