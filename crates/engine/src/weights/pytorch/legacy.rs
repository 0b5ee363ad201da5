//! What `torch.save` wrote before PyTorch 1.6: a magic number, a version, the machine, the value
//! and the keys of its storages as five pickles, then the storages one after the other.
//! It must not know archives.

use std::collections::HashMap;

use super::super::cursor::Cursor;
use super::super::error::{Reason, Result, Short};
use super::super::map::Source;
use super::super::{Format, Parts};
use super::flatten::{Place, flatten};
use super::node::{Node, Storage};
use super::{PICKLE_LIMIT, machine};
use crate::DType;

/// 0x1950a86a20f9469cfc6c, little-endian as a pickle holds it.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// The only version there ever was.
const PROTOCOL: u64 = 1001;

pub(crate) fn read(source: &Source) -> Result<Parts> {
    let mut from = Cursor::new(source);
    let (arena, magic) = machine::run(&mut from, PICKLE_LIMIT)?;
    if !matches!(arena.get(magic), Node::Long(bytes) if bytes[..] == MAGIC) {
        let what = "a pickle that torch.save did not write; save the state_dict with torch.save";
        return Err(from.fail(Reason::Unsupported(what.to_owned())));
    }
    let (arena, version) = machine::run(&mut from, PICKLE_LIMIT)?;
    if arena.whole(version) != Some(PROTOCOL) {
        return Err(from.malformed("the legacy version is not 1001"));
    }
    let (arena, machine) = machine::run(&mut from, PICKLE_LIMIT)?;
    match arena.lookup(machine, "little_endian").map(|id| arena.get(id)) {
        Some(Node::Bool(true)) => {}
        Some(Node::Bool(false)) => return Err(from.fail(Reason::BigEndian("PyTorch file"))),
        _ => return Err(from.malformed("it does not say its byte order")),
    }
    let start = from.at();
    let (arena, root) = machine::run(&mut from, PICKLE_LIMIT)?;
    let pickle_bytes = from.at() - start;
    let (key_arena, keys) = machine::run(&mut from, PICKLE_LIMIT)?;
    let Node::List(keys) = key_arena.get(keys) else {
        return Err(from.malformed("the keys of the storages are no list"));
    };
    let keys = keys.iter().map(|id| key_arena.text(*id)).collect::<Option<Vec<_>>>();
    let keys = keys.ok_or_else(|| from.malformed("a storage's key is no text"))?;
    let widths = widths(&arena.0);
    let places = storages(&mut from, &keys, &widths)?;
    let place = |storage: &Storage<'_>| -> Result<Place, Reason> {
        places.get(storage.key).copied().ok_or_else(|| Reason::Malformed {
            at: start,
            what: format!("its storage {:?} is not in the file", Short(storage.key)),
        })
    };
    let (tensors, metadata) = flatten(&arena, root, source, pickle_bytes, place)?;
    Ok(Parts { metadata, ..Parts::of(Format::PytorchLegacy, source, tensors) })
}

/// Bytes an element for each storage that the value names.
fn widths<'a>(nodes: &[Node<'a>]) -> HashMap<&'a str, u64> {
    let storages = nodes.iter().filter_map(|node| match node {
        Node::Storage(s) => Some((s.key, s.dtype.map_or(1, DType::block_bytes))),
        _ => None,
    });
    storages.collect()
}

/// Steps over every storage: its length in elements, then its bytes.
fn storages<'k>(
    from: &mut Cursor<'_>,
    keys: &[&'k str],
    widths: &HashMap<&str, u64>,
) -> Result<HashMap<&'k str, Place>> {
    let mut places = HashMap::with_capacity(keys.len());
    for key in keys {
        let width = widths.get(key).copied();
        let width = width.ok_or_else(|| from.malformed("a storage that no tensor names"))?;
        let count = from.u64("a storage's length")?;
        let bytes = count.checked_mul(width);
        let bytes = bytes.ok_or_else(|| from.malformed("a storage's length overflows"))?;
        let start = from.at();
        from.take(bytes, "a storage")?;
        if places.insert(*key, (start, bytes)).is_some() {
            let name = (*key).to_owned();
            return Err(from.fail(Reason::Duplicate { what: "the storage", name }));
        }
    }
    Ok(places)
}
