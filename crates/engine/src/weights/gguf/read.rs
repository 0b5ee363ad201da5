//! Reading a GGUF header: metadata and the table of tensors, each checked against the file.
//! It must not touch tensor data.

use std::collections::HashSet;

use super::super::cursor::Cursor;
use super::super::error::{Reason, Result, WeightError};
use super::super::map::Source;
use super::super::tensor::{
    NAME_LIMIT, Span, TENSOR_LIMIT, Tensor, bytes_of, sort_and_find_overlap,
};
use super::super::value::{Value, ValueType};
use super::super::{Format, Parts};
use super::{ALIGNMENT, ALIGNMENT_KEY, types};

/// Most metadata pairs; real files have some dozens.
const PAIR_LIMIT: u64 = 1 << 16;
/// Longest key, from the format.
const KEY_LIMIT: u64 = 65_535;

pub(crate) fn read(source: &Source) -> Result<Parts> {
    let mut from = Cursor::new(source);
    from.take(4, "the magic")?;
    let version = from.u32("the version")?;
    match version {
        2 | 3 => {}
        1 => {
            let what = "GGUF version 1, whose lengths have 32 bits; convert it to version 3 with \
                        a llama.cpp of 2023";
            return Err(from.fail(Reason::Unsupported(what.to_owned())));
        }
        _ if version & 0xFFFF == 0 => return Err(from.fail(Reason::BigEndian("GGUF"))),
        _ => {
            let what = format!("GGUF version {version}; this reader knows 2 and 3");
            return Err(from.fail(Reason::Unsupported(what)));
        }
    }
    let tensors = count(&mut from, "tensors", TENSOR_LIMIT)?;
    let pairs = count(&mut from, "metadata pairs", PAIR_LIMIT)?;
    let metadata = read_metadata(&mut from, source, pairs)?;
    let alignment = alignment(&from, &metadata)?;
    let table = read_table(&mut from, source, tensors)?;
    let data = from.at().next_multiple_of(alignment);
    let tensors = place(source, table, data, alignment)?;
    Ok(Parts { version: Some(version), metadata, ..Parts::of(Format::Gguf, source, tensors) })
}

/// A count that the bytes left could hold: a pair or a table row takes 13 bytes or more.
fn count(from: &mut Cursor<'_>, what: &'static str, limit: u64) -> Result<u64> {
    let count = from.u64(what)?;
    let limit = limit.min(from.left() / 13);
    if count > limit {
        return Err(from.fail(Reason::TooMany { what, count, limit }));
    }
    Ok(count)
}

fn read_metadata(
    from: &mut Cursor<'_>,
    source: &Source,
    pairs: u64,
) -> Result<Vec<(String, Value)>> {
    let mut seen = HashSet::new();
    let mut metadata = Vec::new();
    for _ in 0..pairs {
        let key = from.string("a metadata key", KEY_LIMIT)?;
        if !seen.insert(key) {
            let name = key.to_owned();
            return Err(from.fail(Reason::Duplicate { what: "the metadata key", name }));
        }
        let id = from.u32("a metadata type")?;
        let value_type = ValueType::from_id(id)
            .ok_or_else(|| from.malformed(format!("{id} is no type of metadata (key {key:?})")))?;
        metadata.push((key.to_owned(), Value::read(from, source, value_type)?));
    }
    Ok(metadata)
}

fn alignment(from: &Cursor<'_>, metadata: &[(String, Value)]) -> Result<u64> {
    let Some((_, value)) = metadata.iter().find(|(key, _)| key == ALIGNMENT_KEY) else {
        return Ok(ALIGNMENT);
    };
    match value {
        Value::U32(bytes) if bytes.is_power_of_two() && *bytes <= 1 << 20 => Ok((*bytes).into()),
        other => Err(from.malformed(format!("{ALIGNMENT_KEY} is {other:?}, no power of two"))),
    }
}

/// A row of the table, its offset still relative to the data.
struct Row {
    name: String,
    dtype: crate::DType,
    shape: Vec<u64>,
    bytes: u64,
    offset: u64,
}

fn read_table(from: &mut Cursor<'_>, source: &Source, count: u64) -> Result<Vec<Row>> {
    let mut seen = HashSet::new();
    let mut rows = Vec::new();
    for _ in 0..count {
        let name = from.string("a tensor's name", NAME_LIMIT)?;
        let fail = |reason| WeightError::tensor(source.path(), name, reason);
        if !seen.insert(name) {
            let name = name.to_owned();
            return Err(fail(Reason::Duplicate { what: "the tensor", name }));
        }
        let dimensions = from.u32("a tensor's dimensions")?;
        if dimensions > super::DIMENSIONS {
            let (count, limit) = (dimensions.into(), super::DIMENSIONS.into());
            return Err(fail(Reason::TooMany { what: "dimensions", count, limit }));
        }
        // Files name the fastest dimension first.
        let mut shape = vec![0; dimensions as usize];
        for dimension in shape.iter_mut().rev() {
            *dimension = from.u64("a dimension")?;
        }
        let id = from.u32("a tensor's type")?;
        let dtype = types::of_id(id).map_err(|what| fail(Reason::UnknownDType(what)))?;
        let offset = from.u64("a tensor's offset")?;
        let bytes = bytes_of(dtype, &shape).map_err(fail)?;
        rows.push(Row { name: name.to_owned(), dtype, shape, bytes, offset });
    }
    Ok(rows)
}

/// Gives every row its place in the file: aligned, inside, and on no other's bytes.
fn place(source: &Source, rows: Vec<Row>, data: u64, alignment: u64) -> Result<Vec<Tensor>> {
    let mut spans = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let fail = |reason| WeightError::tensor(source.path(), &row.name, reason);
        if !row.offset.is_multiple_of(alignment) {
            let what = format!("its offset {} is not a multiple of {alignment}", row.offset);
            return Err(fail(Reason::Malformed { at: row.offset, what }));
        }
        let start = data.saturating_add(row.offset);
        let end = start.checked_add(row.bytes).filter(|end| *end <= source.len());
        let Some(end) = end else {
            let reason = Reason::OutOfRange { start, bytes: row.bytes, end: source.len() };
            return Err(fail(reason));
        };
        if row.bytes > 0 {
            spans.push(Span { start, end, owner: at });
        }
    }
    if let Some((first, Span { start, end, owner })) = sort_and_find_overlap(&mut spans) {
        let reason = Reason::Overlap { start, end, other: rows[first.owner].name.clone() };
        return Err(WeightError::tensor(source.path(), &rows[owner].name, reason));
    }
    let tensor = |row: Row| Tensor {
        name: row.name,
        dtype: row.dtype,
        shape: row.shape,
        source: source.clone(),
        offset: data + row.offset,
        strides: None,
        scale: None,
    };
    Ok(rows.into_iter().map(tensor).collect())
}
