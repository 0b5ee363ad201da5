//! The floating-point types that kernels take side by side: how WGSL and the CPU read and write
//! them. Arithmetic between is in f32.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use tintype_gpu::DType;
use tintype_gpu::kernel::{Unit, UnitError};

use crate::simd::{f16_to_f32, vectorize};

/// A floating-point storage type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Number {
    F32,
    F16,
    Bf16,
}

/// Every number type.
pub(crate) const NUMBERS: [Number; 3] = [Number::F32, Number::F16, Number::Bf16];

/// WGSL types in [`NUMBERS`]' order; bf16 travels as its bits.
pub(crate) const WGSL: [&str; 3] = ["f32", "f16", "u16"];

impl Number {
    pub(crate) fn of(dtype: DType) -> Option<Number> {
        NUMBERS.into_iter().find(|number| number.dtype() == dtype)
    }

    pub(crate) fn from_code(code: u32) -> Number {
        NUMBERS.get(code as usize).copied().unwrap_or(Number::F32)
    }

    pub(crate) fn dtype(self) -> DType {
        match self {
            Number::F32 => DType::F32,
            Number::F16 => DType::F16,
            Number::Bf16 => DType::Bf16,
        }
    }

    /// For the `…_BF16` override that goes with a type alias.
    pub(crate) fn is_bf16(self) -> f64 {
        f64::from(u8::from(self == Number::Bf16))
    }
}

/// Type aliases of a kernel: (alias, WGSL type).
pub(crate) type Aliases = &'static [(&'static str, &'static str)];

/// What a result is converted through on its way into each type: bf16's bits come from a `u32`, and
/// Metal has no conversion from float to 16-bit integers.
pub(crate) const THROUGH: [&str; 3] = ["f32", "f32", "u32"];

/// Aliases of a kernel whose output type varies.
pub(crate) const OUT: [[(&str, &str); 2]; 3] = {
    let mut table = [[("OUT", ""), ("THROUGH", "")]; 3];
    let mut at = 0;
    while at < 3 {
        table[at] = [("OUT", WGSL[at]), ("THROUGH", THROUGH[at])];
        at += 1;
    }
    table
};

/// Aliases of a kernel with an input and an output type; the first's index times 3 plus the second's.
pub(crate) const fn input_and_out(a: &'static str) -> [[(&'static str, &'static str); 3]; 9] {
    let mut table = [[(a, ""), ("", ""), ("", "")]; 9];
    let mut at = 0;
    while at < 9 {
        let [out, through] = OUT[at % 3];
        table[at] = [(a, WGSL[at / 3]), out, through];
        at += 1;
    }
    table
}

/// Aliases of a kernel with two input types and an output type.
pub(crate) const fn inputs_and_out(
    a: &'static str,
    b: &'static str,
) -> [[(&'static str, &'static str); 4]; 27] {
    let mut table = [[(a, ""), (b, ""), ("", ""), ("", "")]; 27];
    let mut at = 0;
    while at < 27 {
        let [out, through] = OUT[at % 3];
        table[at] = [(a, WGSL[at / 9]), (b, WGSL[at / 3 % 3]), out, through];
        at += 1;
    }
    table
}

/// What a CPU kernel reads.
#[derive(Clone, Copy)]
pub(crate) enum Numbers<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

impl<'a> Numbers<'a> {
    pub(crate) fn read(unit: &Unit<'a>, slot: usize, number: Number) -> Result<Self, UnitError> {
        Ok(match number {
            Number::F32 => Numbers::F32(unit.read(slot)?),
            Number::F16 => Numbers::F16(unit.read(slot)?),
            Number::Bf16 => Numbers::Bf16(unit.read(slot)?),
        })
    }

    /// `out[i] = self[at + i * stride]`.
    pub(crate) fn load(self, at: usize, stride: usize, out: &mut [f32]) {
        match self {
            Numbers::F32(all) if stride == 1 => out.copy_from_slice(&all[at..at + out.len()]),
            Numbers::F16(all) if stride == 1 => f16_to_f32(&all[at..at + out.len()], out),
            Numbers::Bf16(all) if stride == 1 => {
                let all = &all[at..at + out.len()];
                vectorize(|| {
                    for (out, x) in out.iter_mut().zip(all) {
                        *out = f32::from_bits(u32::from(x.to_bits()) << 16);
                    }
                });
            }
            Numbers::F32(all) => gather(all, at, stride, out, |x| x),
            Numbers::F16(all) => gather(all, at, stride, out, f16::to_f32),
            Numbers::Bf16(all) => gather(all, at, stride, out, bf16::to_f32),
        }
    }

    /// The stretch as it lies, if it needs no conversion; else converted into `scratch`.
    pub(crate) fn stretch<'s>(
        self,
        at: usize,
        stride: usize,
        len: usize,
        scratch: &'s mut [f32],
    ) -> &'s [f32]
    where
        'a: 's,
    {
        match self {
            Numbers::F32(all) if stride == 1 => &all[at..at + len],
            _ => {
                let scratch = &mut scratch[..len];
                self.load(at, stride, scratch);
                scratch
            }
        }
    }
}

fn gather<T: Copy>(all: &[T], at: usize, stride: usize, out: &mut [f32], to: impl Fn(T) -> f32) {
    if stride == 0 {
        out.fill(to(all[at]));
        return;
    }
    // Every second number, as strided convolutions read rows: vector code.
    if stride == 2 && out.len() > 1 {
        let (last, most) = (out.len() - 1, &all[at..]);
        out[last] = to(most[2 * last]);
        vectorize(
            #[inline(always)]
            || {
                for (out, pair) in out[..last].iter_mut().zip(most.chunks_exact(2)) {
                    *out = to(pair[0]);
                }
            },
        );
        return;
    }
    for (out, x) in out.iter_mut().zip(all[at..].iter().step_by(stride)) {
        *out = to(*x);
    }
}

/// What a CPU kernel writes.
pub(crate) enum NumbersMut<'a> {
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
    Bf16(&'a mut [bf16]),
}

impl<'a> NumbersMut<'a> {
    pub(crate) fn write(unit: &Unit<'a>, slot: usize, number: Number) -> Result<Self, UnitError> {
        Ok(match number {
            Number::F32 => NumbersMut::F32(unit.write(slot)?),
            Number::F16 => NumbersMut::F16(unit.write(slot)?),
            Number::Bf16 => NumbersMut::Bf16(unit.write(slot)?),
        })
    }

    pub(crate) fn shared(&self) -> Numbers<'_> {
        match self {
            NumbersMut::F32(all) => Numbers::F32(all),
            NumbersMut::F16(all) => Numbers::F16(all),
            NumbersMut::Bf16(all) => Numbers::Bf16(all),
        }
    }

    /// `self[at + i * stride] = values[i]`, rounded to nearest even.
    pub(crate) fn store(&mut self, at: usize, stride: usize, values: &[f32]) {
        let stretch = at..at + values.len();
        match self {
            NumbersMut::F32(all) if stride == 1 => f32::store(&mut all[stretch], values),
            NumbersMut::F16(all) if stride == 1 => f16::store(&mut all[stretch], values),
            NumbersMut::Bf16(all) if stride == 1 => bf16::store(&mut all[stretch], values),
            NumbersMut::F32(all) => scatter(all, at, stride, values, |x| x),
            NumbersMut::F16(all) => scatter(all, at, stride, values, f16::from_f32),
            NumbersMut::Bf16(all) => scatter(all, at, stride, values, round_bf16),
        }
    }
}

/// Round to nearest even; NaN stays NaN.
#[inline(always)]
fn round_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    bf16::from_bits(if x.is_nan() { (bits >> 16 | 0x40) as u16 } else { rounded as u16 })
}

/// A number as it is stored.
pub(crate) trait Stored: bytemuck::Pod {
    /// `out[i] = values[i]`, rounded to nearest even.
    fn store(out: &mut [Self], values: &[f32]);
}

impl Stored for f32 {
    fn store(out: &mut [f32], values: &[f32]) {
        out.copy_from_slice(values);
    }
}

impl Stored for f16 {
    fn store(out: &mut [f16], values: &[f32]) {
        out.convert_from_f32_slice(values);
    }
}

impl Stored for bf16 {
    fn store(out: &mut [bf16], values: &[f32]) {
        vectorize(|| {
            for (out, x) in out.iter_mut().zip(values) {
                *out = round_bf16(*x);
            }
        });
    }
}

fn scatter<T>(all: &mut [T], at: usize, stride: usize, values: &[f32], to: impl Fn(f32) -> T) {
    for (out, x) in all[at..].iter_mut().step_by(stride.max(1)).zip(values) {
        *out = to(*x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_as_the_half_crate_does() {
        let mut random = fastrand::Rng::new();
        for _ in 0..100_000 {
            let x = f32::from_bits(random.u32(..));
            let (ours, theirs) = (round_bf16(x), bf16::from_f32(x));
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{x}");
        }
    }
}
