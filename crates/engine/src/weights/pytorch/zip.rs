//! The archive that `torch.save` writes since PyTorch 1.6: `data.pkl` and one entry a storage.
//! It must not decompress: PyTorch stores plainly, so weights can be mapped and bombs cannot be.

use std::collections::HashMap;
use std::io::Cursor as IoCursor;

use zip::{CompressionMethod, ZipArchive};

use super::super::cursor::Cursor;
use super::super::error::{Reason, Result, Short, WeightError};
use super::super::map::Source;
use super::super::tensor::{Span, sort_and_find_overlap};
use super::super::{Format, Parts};
use super::flatten::{Place, flatten};
use super::{PICKLE_LIMIT, machine};

/// Most entries of an archive.
const ENTRY_LIMIT: u64 = 1 << 20;

pub(crate) fn read(source: &Source) -> Result<Parts> {
    let fail = |reason| WeightError::new(source.path(), reason);
    let entries = entries(source)?;
    let pickles: Vec<&str> = entries
        .keys()
        .filter(|name| name.split_once('/').is_some_and(|(_, rest)| rest == "data.pkl"))
        .map(String::as_str)
        .collect();
    let [pickle] = pickles[..] else {
        let what = "a ZIP archive without one data.pkl, so nothing that torch.save wrote";
        return Err(fail(Reason::Unsupported(what.to_owned())));
    };
    let root = pickle.trim_end_matches("data.pkl");
    if entries.contains_key(&format!("{root}constants.pkl")) {
        let what = "a TorchScript archive, which is a program; save the state_dict instead";
        return Err(fail(Reason::Unsupported(what.to_owned())));
    }
    let text = |name: &str| {
        let (start, bytes) = *entries.get(&format!("{root}{name}"))?;
        source.bytes().get(start as usize..)?.get(..bytes.min(16) as usize)
    };
    if text("byteorder").is_some_and(|order| order != b"little") {
        return Err(fail(Reason::BigEndian("PyTorch archive")));
    }
    let (start, bytes) = entries[pickle];
    if bytes > PICKLE_LIMIT {
        let what = "bytes of pickle";
        return Err(fail(Reason::TooMany { what, count: bytes, limit: PICKLE_LIMIT }));
    }
    let mut from = Cursor::new(source);
    from.seek(start);
    let (arena, result) = machine::run(&mut from, bytes)?;
    let place = |storage: &super::node::Storage<'_>| -> Result<Place, Reason> {
        let entry = format!("{root}data/{}", storage.key);
        entries.get(&entry).copied().ok_or_else(|| Reason::Malformed {
            at: start,
            what: format!("its storage {:?} is not in the archive", Short(&entry)),
        })
    };
    let (tensors, metadata) = flatten(&arena, result, source, bytes, place)?;
    Ok(Parts { metadata, ..Parts::of(Format::PytorchZip, source, tensors) })
}

/// Every entry by name, with the place of its bytes. Compressed, encrypted, repeated and
/// overlapping entries are refused.
fn entries(source: &Source) -> Result<HashMap<String, Place>> {
    let fail = |reason| WeightError::new(source.path(), reason);
    let bad = |what: String| fail(Reason::Malformed { at: 0, what: format!("archive: {what}") });
    let mut archive =
        ZipArchive::new(IoCursor::new(source.bytes())).map_err(|e| bad(e.to_string()))?;
    let count = archive.len() as u64;
    if count > ENTRY_LIMIT {
        return Err(fail(Reason::TooMany { what: "entries", count, limit: ENTRY_LIMIT }));
    }
    if archive.has_duplicate_names() {
        return Err(bad("two entries have one name".to_owned()));
    }
    let mut entries = HashMap::with_capacity(archive.len());
    let mut spans = Vec::with_capacity(archive.len());
    for at in 0..archive.len() {
        let entry = archive.by_index_raw(at).map_err(|e| bad(e.to_string()))?;
        let name = entry.name().map_err(|e| bad(e.to_string()))?.into_owned();
        if entry.encrypted() {
            return Err(fail(Reason::Packed { entry: name, how: "encrypted" }));
        }
        if entry.compression() != CompressionMethod::Stored
            || entry.size() != entry.compressed_size()
        {
            return Err(fail(Reason::Packed { entry: name, how: "compressed" }));
        }
        let start = entry.data_start().ok_or_else(|| bad(format!("{name:?} has no data")))?;
        let end = start.checked_add(entry.size()).filter(|end| *end <= source.len());
        let Some(end) = end else {
            let reason = Reason::OutOfRange { start, bytes: entry.size(), end: source.len() };
            return Err(WeightError::tensor(source.path(), &name, reason));
        };
        spans.push(Span { start: entry.header_start(), end, owner: at });
        entries.insert(name, (start, entry.size()));
    }
    if let Some((_, second)) = sort_and_find_overlap(&mut spans) {
        let name = archive.by_index_raw(second.owner).ok();
        let name = name.and_then(|e| e.name().ok().map(|n| n.into_owned())).unwrap_or_default();
        let what = format!("entry {:?} lies on the bytes of another, as bombs do", Short(&name));
        return Err(bad(what));
    }
    Ok(entries)
}
