//! What a pickle builds: an arena of plain values that refer to each other by number, so that
//! nothing recurses, leaks or is dropped deeply. It must not know opcodes.

use crate::DType;

/// A value's number in its arena.
pub(super) type Id = u32;

/// A plain value. Text is borrowed from the pickle.
#[derive(Debug, Clone)]
pub(super) enum Node<'a> {
    /// None, and every value that carries nothing here: dates, devices, numpy scalars.
    Nothing,
    Bool(bool),
    Int(i64),
    /// An integer of more than 64 bits, little-endian.
    Long(&'a [u8]),
    Float,
    Text(&'a str),
    Bytes,
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function by name. Naming it is harmless; calling it is judged.
    Global(&'a str, &'a str),
    Storage(Storage<'a>),
    Tensor(TensorNode),
}

/// Bytes outside the pickle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Storage<'a> {
    /// `None` where bytes have no type of their own.
    pub(super) dtype: Option<DType>,
    pub(super) key: &'a str,
    /// Elements; bytes, if it has no type.
    pub(super) count: u64,
    /// Elements to skip in a legacy view.
    pub(super) skip: u64,
}

/// A tensor whose arguments are looked at when it is placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct TensorNode {
    pub(super) storage: Id,
    pub(super) offset: u64,
    pub(super) size: Id,
    pub(super) stride: Id,
    /// Where the pickle names it apart from the storage.
    pub(super) dtype: Option<DType>,
}

/// Every value of one pickle.
pub(super) struct Arena<'a>(pub(super) Vec<Node<'a>>);

impl<'a> Arena<'a> {
    pub(super) fn get(&self, id: Id) -> &Node<'a> {
        // Ids come from `Machine::push` alone and are never removed.
        &self.0[id as usize]
    }

    pub(super) fn text(&self, id: Id) -> Option<&'a str> {
        if let Node::Text(text) = self.get(id) { Some(text) } else { None }
    }

    pub(super) fn whole(&self, id: Id) -> Option<u64> {
        if let Node::Int(value) = self.get(id) { u64::try_from(*value).ok() } else { None }
    }

    pub(super) fn tuple(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Node::Tuple(items) | Node::List(items) => Some(items),
            _ => None,
        }
    }

    /// A tuple of whole numbers.
    pub(super) fn wholes(&self, id: Id) -> Option<Vec<u64>> {
        self.tuple(id)?.iter().map(|item| self.whole(*item)).collect()
    }

    /// The value of a text key.
    pub(super) fn lookup(&self, dict: Id, key: &str) -> Option<Id> {
        let Node::Dict(items) = self.get(dict) else { return None };
        items.iter().rev().find(|(k, _)| self.text(*k) == Some(key)).map(|(_, v)| *v)
    }
}
