//! The header of a GGUF file of version 3. It must not know where the data comes from.

use super::super::value::Value;
use super::{ALIGNMENT, ALIGNMENT_KEY};
use crate::DType;

/// Most dimensions of a tensor, from the format.
pub(crate) const DIMENSIONS: u32 = 4;

/// The header for tensors of these names, types and shapes, and where each one's data starts.
///
/// The data of each follows at its place, the gaps filled with zeros; the last is padded too.
/// `None` if a type, a shape or the alignment is none that GGUF has.
pub(crate) fn header(
    metadata: &[(String, Value)],
    tensors: &[(&str, DType, &[u64])],
) -> Option<(Vec<u8>, Vec<u64>, u64)> {
    let alignment = metadata.iter().find(|(key, _)| key == ALIGNMENT_KEY);
    let alignment = alignment.map_or(Some(ALIGNMENT), |(_, v)| v.as_u64())?;
    if !alignment.is_power_of_two() {
        return None;
    }
    let mut out = Vec::new();
    out.extend_from_slice(b"GGUF");
    out.extend_from_slice(&3u32.to_le_bytes());
    out.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
    out.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        put_text(&mut out, key);
        out.extend_from_slice(&value.value_type().id().to_le_bytes());
        value.write(&mut out);
    }
    let (mut starts, mut offset) = (Vec::with_capacity(tensors.len()), 0u64);
    for (name, dtype, shape) in tensors {
        if shape.len() > DIMENSIONS as usize {
            return None;
        }
        put_text(&mut out, name);
        out.extend_from_slice(&(shape.len() as u32).to_le_bytes());
        for dimension in shape.iter().rev() {
            out.extend_from_slice(&dimension.to_le_bytes());
        }
        out.extend_from_slice(&super::id_of(*dtype)?.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
        starts.push(offset);
        let bytes = super::super::tensor::bytes_of(*dtype, shape).ok()?;
        offset = offset.checked_add(bytes)?.checked_next_multiple_of(alignment)?;
    }
    out.resize(out.len().next_multiple_of(alignment as usize), 0);
    let data = out.len() as u64;
    starts.iter_mut().for_each(|start| *start += data);
    Some((out, starts, data + offset))
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
