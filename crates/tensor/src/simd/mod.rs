//! The processor's vector instructions, chosen at run time: the only module with `unsafe`. Each
//! function here is safe to call with any slices; what it reads and writes is checked before.

pub(crate) mod attend;
mod convert;
pub(crate) mod dense;
pub(crate) mod dots;
pub(crate) mod fold;
mod lanes;
mod math;
pub(crate) mod quant;
pub(crate) mod sweep;

pub(crate) use convert::f16_to_f32;
pub(crate) use math::{erfc, exp, sigmoid, tanh, turn};

/// Runs `work` compiled for the best instruction set of this processor: its plain loops become
/// vector code. Results do not depend on which set that is, as far as `work` uses no `mul_add`
/// across lanes of its own.
#[inline]
pub(crate) fn vectorize<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}
