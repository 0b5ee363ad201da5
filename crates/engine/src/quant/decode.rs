//! The one entry from a type and its bytes to single precision, and plain numbers.
//! It must not know how any block type is laid out.

use super::{QuantError, float8, k_decode, lattice, legacy, micro};
use crate::DType;

/// Decodes whole blocks of `dtype` into `out`, which they must fill exactly.
///
/// Block types come out bit for bit as Python `gguf` 0.19 dequantizes them; plain numbers are
/// rounded to the nearest single (64-bit types and large integers lose digits).
pub fn decode(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    if dtype.bytes_for(out.len() as u64) != Some(bytes.len() as u64) {
        return Err(QuantError::Length { dtype, bytes: bytes.len(), elements: out.len() });
    }
    match dtype {
        DType::F32 => numbers(bytes, out, f32::from_le_bytes),
        DType::F64 => numbers(bytes, out, |b| f64::from_le_bytes(b) as f32),
        DType::F16 => numbers(bytes, out, |b| half::f16::from_le_bytes(b).to_f32()),
        DType::Bf16 => numbers(bytes, out, |b| half::bf16::from_le_bytes(b).to_f32()),
        DType::F8E4M3 => numbers(bytes, out, |[b]| float8::e4m3(b)),
        DType::F8E5M2 => numbers(bytes, out, |[b]| float8::e5m2(b)),
        DType::I8 => numbers(bytes, out, |[b]| f32::from(b as i8)),
        DType::U8 => numbers(bytes, out, |[b]| f32::from(b)),
        DType::Bool => numbers(bytes, out, |[b]| if b == 0 { 0.0 } else { 1.0 }),
        DType::I16 => numbers(bytes, out, |b| f32::from(i16::from_le_bytes(b))),
        DType::U16 => numbers(bytes, out, |b| f32::from(u16::from_le_bytes(b))),
        DType::I32 => numbers(bytes, out, |b| i32::from_le_bytes(b) as f32),
        DType::U32 => numbers(bytes, out, |b| u32::from_le_bytes(b) as f32),
        DType::I64 => numbers(bytes, out, |b| i64::from_le_bytes(b) as f32),
        DType::U64 => numbers(bytes, out, |b| u64::from_le_bytes(b) as f32),
        DType::Q4_0 => blocks(dtype, bytes, out, legacy::q4_0),
        DType::Q4_1 => blocks(dtype, bytes, out, legacy::q4_1),
        DType::Q5_0 => blocks(dtype, bytes, out, legacy::q5_0),
        DType::Q5_1 => blocks(dtype, bytes, out, legacy::q5_1),
        DType::Q8_0 => blocks(dtype, bytes, out, legacy::q8_0),
        DType::Q1_0 => blocks(dtype, bytes, out, micro::q1_0),
        DType::Q2_0 => blocks(dtype, bytes, out, micro::q2_0),
        DType::Q2K => blocks(dtype, bytes, out, k_decode::q2_k),
        DType::Q3K => blocks(dtype, bytes, out, k_decode::q3_k),
        DType::Q4K => blocks(dtype, bytes, out, k_decode::q4_k),
        DType::Q5K => blocks(dtype, bytes, out, k_decode::q5_k),
        DType::Q6K => blocks(dtype, bytes, out, k_decode::q6_k),
        DType::Iq2Xxs => blocks(dtype, bytes, out, lattice::iq2_xxs),
        DType::Iq2Xs => blocks(dtype, bytes, out, lattice::iq2_xs),
        DType::Iq2S => blocks(dtype, bytes, out, lattice::iq2_s),
        DType::Iq3Xxs => blocks(dtype, bytes, out, lattice::iq3_xxs),
        DType::Iq3S => blocks(dtype, bytes, out, lattice::iq3_s),
        DType::Iq1S => blocks(dtype, bytes, out, lattice::iq1_s),
        DType::Iq1M => blocks(dtype, bytes, out, lattice::iq1_m),
        DType::Iq4Nl => blocks(dtype, bytes, out, micro::iq4_nl),
        DType::Iq4Xs => blocks(dtype, bytes, out, micro::iq4_xs),
        DType::Tq1_0 => blocks(dtype, bytes, out, micro::tq1_0),
        DType::Tq2_0 => blocks(dtype, bytes, out, micro::tq2_0),
        DType::Mxfp4 => blocks(dtype, bytes, out, micro::mxfp4),
        DType::Nvfp4 => blocks(dtype, bytes, out, micro::nvfp4),
        _ => return Err(QuantError::NoDecoder { dtype }),
    }
    Ok(())
}

fn numbers<const N: usize>(bytes: &[u8], out: &mut [f32], to: impl Fn([u8; N]) -> f32) {
    let (numbers, _) = bytes.as_chunks::<N>();
    for (value, number) in out.iter_mut().zip(numbers) {
        *value = to(*number);
    }
}

fn blocks(dtype: DType, bytes: &[u8], out: &mut [f32], to: impl Fn(&[u8], &mut [f32])) {
    let each = bytes.chunks_exact(dtype.block_bytes() as usize);
    for (values, block) in out.chunks_exact_mut(dtype.block_elements() as usize).zip(each) {
        to(block, values);
    }
}
