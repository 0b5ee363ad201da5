//! The header of a safetensors file. It must not know where the data comes from.

use safetensors::tensor::TensorInfo;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::super::pairs::Pairs;
use super::type_of;
use crate::DType;

/// The header for tensors of these names, types and shapes, and where each one's data starts.
///
/// Data is laid out in the order of `tensors` without gaps: give them by falling alignment, as
/// [`sorted`](super::super::convert) does. `None` if a type is none that the format has.
pub(crate) fn header(
    metadata: &[(String, String)],
    tensors: &[(&str, DType, &[u64])],
) -> Option<(Vec<u8>, Vec<u64>, u64)> {
    let (mut infos, mut offset) = (Vec::with_capacity(tensors.len()), 0usize);
    for (name, dtype, shape) in tensors {
        let bytes = super::super::tensor::bytes_of(*dtype, shape).ok()?;
        let end = offset.checked_add(usize::try_from(bytes).ok()?)?;
        let shape = shape.iter().map(|d| usize::try_from(*d).ok()).collect::<Option<Vec<_>>>()?;
        let dtype = type_of(*dtype)?;
        infos.push((*name, TensorInfo { dtype, shape, data_offsets: (offset, end) }));
        offset = end;
    }
    let mut text = serde_json::to_vec(&Header { metadata, infos: &infos }).ok()?;
    // Spaces, so that the data starts aligned.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.append(&mut text);
    let data = out.len() as u64;
    let starts = infos.iter().map(|(_, i)| data + i.data_offsets.0 as u64).collect();
    Some((out, starts, data + offset as u64))
}

struct Header<'a> {
    metadata: &'a [(String, String)],
    infos: &'a [(&'a str, TensorInfo)],
}

impl Serialize for Header<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if !self.metadata.is_empty() {
            map.serialize_entry("__metadata__", &Pairs(self.metadata.to_vec()))?;
        }
        for (name, info) in self.infos {
            map.serialize_entry(name, info)?;
        }
        map.end()
    }
}
