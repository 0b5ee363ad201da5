//! Soft-cap, cap·tanh(x/cap): bounds logits smoothly to ±cap. The pointwise archetype with a name and
//! limits of its own.

mod cases;

use tintype_gpu::Session;

use super::Operation;
use super::pointwise::{Unary, unary, unary_in_place};
use crate::Tensor;
use crate::error::{Result, shape};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "softcap",
    summary: "cap·tanh(x/cap), out of place and in place",
    cases: cases::cases,
    benches: cases::benches,
    // The pointwise kernels.
    kernels: Vec::new,
};

fn check(cap: f32, operands: &[&Tensor]) -> Result<()> {
    if cap.is_finite() && cap > 0.0 {
        return Ok(());
    }
    Err(shape("softcap", operands, format!("the cap is {cap}; it must be positive and finite")))
}

/// `out = cap·tanh(a/cap)`; `a` repeats to the shape of `out`.
pub fn softcap(session: &mut Session<'_>, cap: f32, a: &Tensor, out: &Tensor) -> Result<()> {
    check(cap, &[a, out])?;
    unary(session, Unary::SoftCap, [cap, 0.0], a, out)
}

/// `out = cap·tanh(out/cap)`.
pub fn softcap_in_place(session: &mut Session<'_>, cap: f32, out: &Tensor) -> Result<()> {
    check(cap, &[out])?;
    unary_in_place(session, Unary::SoftCap, [cap, 0.0], out)
}
