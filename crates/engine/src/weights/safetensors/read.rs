//! Reading a safetensors header, each entry checked against the file.
//! It must not touch tensor data.

use std::collections::HashSet;
use std::fmt;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::super::cursor::Cursor;
use super::super::error::{Reason, Result, WeightError};
use super::super::map::Source;
use super::super::pairs::Pairs;
use super::super::tensor::{
    NAME_LIMIT, Span, TENSOR_LIMIT, Tensor, bytes_of, sort_and_find_overlap,
};
use super::super::value::Value;
use super::super::{Format, Parts};
use super::TYPES;

/// Longest header, from the format.
const HEADER_LIMIT: u64 = 100_000_000;

pub(crate) fn read(source: &Source) -> Result<Parts> {
    let mut from = Cursor::new(source);
    let length = from.u64("the header's length")?;
    if length > HEADER_LIMIT {
        if length.swap_bytes() <= source.len() {
            return Err(from.fail(Reason::BigEndian("safetensors header")));
        }
        let what = "bytes of header";
        return Err(from.fail(Reason::TooMany { what, count: length, limit: HEADER_LIMIT }));
    }
    let text = from.take(length, "the header")?;
    let data = from.at();
    let mut reading = None;
    let mut json = serde_json::Deserializer::from_slice(text);
    let header = HeaderSeed { reading: &mut reading }.deserialize(&mut json);
    let header = header.and_then(|header| json.end().map(|()| header));
    let header = header.map_err(|error| {
        let what = format!("the header is no table of tensors: {error}");
        WeightError { tensor: reading, ..from.fail(Reason::Malformed { at: 8, what }) }
    })?;
    check(source, &header, data)?;
    let metadata = header.metadata.iter();
    let metadata = metadata.map(|(k, v)| (k.clone(), Value::String(v.clone()))).collect();
    let tensor = |(name, entry): (String, Entry)| -> Result<Tensor> {
        let dtype = dtype_of(&entry).map_err(|r| WeightError::tensor(source.path(), &name, r))?;
        let offset = data + entry.data_offsets.0;
        let (source, strides) = (source.clone(), None);
        Ok(Tensor { name, dtype, shape: entry.shape, source, offset, strides, scale: None })
    };
    let tensors = header.tensors.into_iter().map(tensor).collect::<Result<Vec<_>>>()?;
    Ok(Parts { metadata, ..Parts::of(Format::Safetensors, source, tensors) })
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The type of an entry: one of the format's, and one that is read here.
fn dtype_of(entry: &Entry) -> Result<crate::DType, Reason> {
    let theirs = theirs(entry)?;
    let ours = TYPES.iter().find(|(t, _)| *t == theirs).map(|(_, d)| *d);
    ours.ok_or_else(|| Reason::UnknownDType(entry.dtype.clone()))
}

fn theirs(entry: &Entry) -> Result<Dtype, Reason> {
    let name = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(&entry.dtype);
    Dtype::deserialize(name)
        .map_err(|_| Reason::UnknownDType(entry.dtype.chars().take(40).collect()))
}

/// Every check that can name its tensor, then the format's own.
fn check(source: &Source, header: &Header, data: u64) -> Result<()> {
    let room = source.len() - data;
    let mut keys = HashSet::new();
    if let Some((key, _)) = header.metadata.iter().find(|(key, _)| !keys.insert(key)) {
        let reason = Reason::Duplicate { what: "the metadata key", name: key.clone() };
        return Err(WeightError::new(source.path(), reason));
    }
    let mut seen = HashSet::new();
    let mut spans = Vec::with_capacity(header.tensors.len());
    for (at, (name, entry)) in header.tensors.iter().enumerate() {
        let fail = |reason| Err(WeightError::tensor(source.path(), name, reason));
        if !seen.insert(name) {
            return fail(Reason::Duplicate { what: "the tensor", name: name.clone() });
        }
        if name.len() as u64 > NAME_LIMIT {
            let (count, limit) = (name.len() as u64, NAME_LIMIT);
            return fail(Reason::TooMany { what: "bytes of name", count, limit });
        }
        let dtype = match dtype_of(entry) {
            Ok(dtype) => dtype,
            Err(reason) => return fail(reason),
        };
        let (start, end) = entry.data_offsets;
        if end < start || end > room {
            let bytes = end.saturating_sub(start);
            let (start, end) = (data.saturating_add(start), source.len());
            return fail(Reason::OutOfRange { start, bytes, end });
        }
        let need = match bytes_of(dtype, &entry.shape) {
            Ok(need) => need,
            Err(reason) => return fail(reason),
        };
        if need != end - start {
            let (shape, have) = (entry.shape.clone(), end - start);
            return fail(Reason::SizeMismatch { shape, dtype, need, have });
        }
        spans.push(Span { start, end, owner: at });
    }
    if let Some((first, Span { start, end, owner })) = sort_and_find_overlap(&mut spans) {
        let other = header.tensors[first.owner].0.clone();
        let reason = Reason::Overlap { start: data + start, end: data + end, other };
        return Err(WeightError::tensor(source.path(), &header.tensors[owner].0, reason));
    }
    format_check(source, header, &spans, room)
}

/// The `safetensors` crate's judgement: no gaps, nothing after the last tensor.
fn format_check(source: &Source, header: &Header, spans: &[Span], room: u64) -> Result<()> {
    let malformed = |what: String| {
        WeightError::new(source.path(), Reason::Malformed { at: source.len() - room, what })
    };
    let size = |n: u64| usize::try_from(n).map_err(|_| malformed("too large here".to_owned()));
    let mut infos = Vec::with_capacity(spans.len());
    for Span { start, end, owner } in spans {
        let (name, entry) = &header.tensors[*owner];
        let shape = entry.shape.iter().map(|d| size(*d)).collect::<Result<Vec<_>>>()?;
        let dtype = theirs(entry).map_err(|r| WeightError::tensor(source.path(), name, r))?;
        let data_offsets = (size(*start)?, size(*end)?);
        infos.push((name.clone(), TensorInfo { dtype, shape, data_offsets }));
    }
    let metadata = Metadata::new(None, infos).map_err(|e| malformed(e.to_string()))?;
    match room - metadata.data_len() as u64 {
        0 => Ok(()),
        extra => Err(malformed(format!("{extra} bytes after the last tensor belong to none"))),
    }
}

/// The header with its tensors in the order they are written, repeated names kept.
struct Header {
    metadata: Vec<(String, String)>,
    tensors: Vec<(String, Entry)>,
}

/// Reads a header, leaving the name of the tensor that is being read, for errors.
struct HeaderSeed<'s> {
    reading: &'s mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for HeaderSeed<'_> {
    type Value = Header;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Header, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeaderSeed<'_> {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header { metadata: Vec::new(), tensors: Vec::new() };
        let mut described = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                if std::mem::replace(&mut described, true) {
                    return Err(A::Error::custom("__metadata__ appears twice"));
                }
                header.metadata = map.next_value::<Pairs>()?.0;
            } else if header.tensors.len() as u64 == TENSOR_LIMIT {
                return Err(A::Error::custom(format!("more than {TENSOR_LIMIT} tensors")));
            } else {
                *self.reading = Some(name);
                let entry = map.next_value()?;
                if let Some(name) = self.reading.take() {
                    header.tensors.push((name, entry));
                }
            }
        }
        Ok(header)
    }
}
