//! The one entry from single precision to a type's bytes. It must not know how blocks are laid
//! out beyond where their half-precision scales lie.

use super::{QuantError, half_at, k_encode, legacy};
use crate::DType;

/// Every type that [`encode`] can write.
pub const ENCODABLE: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q2K,
    DType::Q3K,
    DType::Q4K,
    DType::Q5K,
    DType::Q6K,
];

/// Encodes `values` as whole blocks of `dtype` into `out`, which they must fill exactly.
///
/// Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 are byte for byte what Python `gguf` writes; the K types search
/// for the scales of least squared error. Infinite and undefined values are refused.
pub fn encode(dtype: DType, values: &[f32], out: &mut [u8]) -> Result<(), QuantError> {
    if !ENCODABLE.contains(&dtype) {
        return Err(QuantError::NoEncoder { dtype });
    }
    if dtype.bytes_for(values.len() as u64) != Some(out.len() as u64) {
        return Err(QuantError::Length { dtype, bytes: out.len(), elements: values.len() });
    }
    if let Some(at) = values.iter().position(|v| !v.is_finite()) {
        return Err(QuantError::NotFinite { at, value: values[at] });
    }
    match dtype {
        DType::F16 => numbers(dtype, values, out, half::f16::from_f32, half::f16::to_le_bytes)?,
        DType::Bf16 => numbers(dtype, values, out, half::bf16::from_f32, half::bf16::to_le_bytes)?,
        DType::Q4_0 => blocks(dtype, values, out, &[0], legacy::to_q4_0)?,
        DType::Q4_1 => blocks(dtype, values, out, &[0, 2], legacy::to_q4_1)?,
        DType::Q5_0 => blocks(dtype, values, out, &[0], legacy::to_q5_0)?,
        DType::Q5_1 => blocks(dtype, values, out, &[0, 2], legacy::to_q5_1)?,
        DType::Q8_0 => blocks(dtype, values, out, &[0], legacy::to_q8_0)?,
        DType::Q2K => blocks(dtype, values, out, &[80, 82], k_encode::q2_k)?,
        DType::Q3K => blocks(dtype, values, out, &[108], k_encode::q3_k)?,
        DType::Q4K => blocks(dtype, values, out, &[0, 2], k_encode::q4_k)?,
        DType::Q5K => blocks(dtype, values, out, &[0, 2], k_encode::q5_k)?,
        DType::Q6K => blocks(dtype, values, out, &[208], k_encode::q6_k)?,
        _ => {
            for (bytes, value) in out.chunks_exact_mut(4).zip(values) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    Ok(())
}

fn numbers<T: Copy>(
    dtype: DType,
    values: &[f32],
    out: &mut [u8],
    round: impl Fn(f32) -> T,
    bytes: impl Fn(T) -> [u8; 2],
) -> Result<(), QuantError> {
    for (at, (two, value)) in out.chunks_exact_mut(2).zip(values).enumerate() {
        let rounded = bytes(round(*value));
        let mut back = [0.0];
        super::decode(dtype, &rounded, &mut back)?;
        if !back[0].is_finite() {
            return Err(QuantError::TooLarge { at, value: *value, dtype });
        }
        two.copy_from_slice(&rounded);
    }
    Ok(())
}

/// The largest value that any block type holds: a half-precision scale times 128 · 32, in Q6_K.
const LARGEST: f32 = 65_504.0 * 4_096.0;

fn blocks(
    dtype: DType,
    values: &[f32],
    out: &mut [u8],
    halves: &[usize],
    to: impl Fn(&[f32], &mut [u8]),
) -> Result<(), QuantError> {
    let each = dtype.block_elements() as usize;
    let blocks = out.chunks_exact_mut(dtype.block_bytes() as usize);
    for (index, (block, values)) in blocks.zip(values.chunks_exact(each)).enumerate() {
        let larger = |a: usize, b: usize| if values[b].abs() > values[a].abs() { b } else { a };
        let at = (1..each).fold(0, larger);
        let value = values[at];
        // Beyond what the widest scale reaches, squares of values could overflow in the search.
        let reachable = value.abs() <= LARGEST;
        if reachable {
            to(values, block);
        }
        if !reachable || halves.iter().any(|at| !half_at(block, *at).is_finite()) {
            return Err(QuantError::TooLarge { at: index * each + at, value, dtype });
        }
    }
    Ok(())
}
