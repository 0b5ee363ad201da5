//! Arrays of metadata, checked to their end and left in the file until they are asked for.
//! It must not know what they mean.

use serde::Serialize;

use super::cursor::Cursor;
use super::error::{Reason, Result};
use super::map::Source;
use super::value::{TEXT_LIMIT, Value, ValueType, read_bool};

/// Deepest nesting of arrays.
const ARRAY_DEPTH: u32 = 4;

/// Values of one type that stay where they are until they are asked for.
#[derive(Debug, Clone)]
pub struct Array {
    element: ValueType,
    len: u64,
    source: Source,
    start: u64,
    end: u64,
}

impl Array {
    /// Packs texts, for files to be written.
    pub fn of_strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::pack(ValueType::String, texts.into_iter().map(|t| Value::String(t.to_owned())))
    }

    /// Packs numbers of one type; values of another type are left out by their own `filter`.
    pub fn of_values(element: ValueType, values: &[Value]) -> Option<Self> {
        let same = values.iter().all(|v| v.value_type() == element);
        same.then(|| Self::pack(element, values.iter().cloned()))
    }

    fn pack(element: ValueType, values: impl Iterator<Item = Value>) -> Self {
        let (mut bytes, mut len) = (Vec::new(), 0);
        for value in values {
            value.write(&mut bytes);
            len += 1;
        }
        let end = bytes.len() as u64;
        Self { element, len, source: Source::from_vec("array", bytes), start: 0, end }
    }

    /// Finds the end of an array and checks every value in it, allocating nothing.
    pub(super) fn scan(from: &mut Cursor<'_>, source: &Source, depth: u32) -> Result<Self> {
        if depth == ARRAY_DEPTH {
            let limit = u64::from(ARRAY_DEPTH);
            let what = "arrays within arrays";
            return Err(from.fail(Reason::TooMany { what, count: limit + 1, limit }));
        }
        let id = from.u32("an array's type")?;
        let element = ValueType::from_id(id)
            .ok_or_else(|| from.malformed(format!("{id} is no type of array elements")))?;
        let len = from.u64("an array's length")?;
        let start = from.at();
        // What one element takes at least, so that absurd lengths fail before any loop.
        let least = element.fixed_bytes().unwrap_or(8);
        let what = "an array";
        let need = len.saturating_mul(least);
        if need > from.left() {
            let (at, have) = (start, from.left());
            return Err(from.fail(Reason::Truncated { what, at, need, have }));
        }
        match element {
            ValueType::String => {
                for _ in 0..len {
                    from.string("a text", TEXT_LIMIT)?;
                }
            }
            ValueType::Array => {
                for _ in 0..len {
                    Self::scan(from, source, depth + 1)?;
                }
            }
            ValueType::Bool => {
                for _ in 0..len {
                    read_bool(from)?;
                }
            }
            _ => {
                from.take(need, what)?;
            }
        }
        Ok(Self { element, len, source: source.clone(), start, end: from.at() })
    }

    /// Type of the elements.
    pub fn element(&self) -> ValueType {
        self.element
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.source.bytes()[self.start as usize..self.end as usize]
    }

    /// The elements, read one by one.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value>> + '_ {
        let mut cursor = Cursor::new(&self.source);
        cursor.seek(self.start);
        (0..self.len).map(move |_| Value::read(&mut cursor, &self.source, self.element))
    }

    /// The elements as texts, not copied; `None` if they are of another type.
    pub fn texts(&self) -> Option<impl Iterator<Item = Result<&str>> + '_> {
        let mut cursor = Cursor::new(&self.source);
        cursor.seek(self.start);
        let texts = (0..self.len).map(move |_| cursor.string("a text", TEXT_LIMIT));
        (self.element == ValueType::String).then_some(texts)
    }

    /// One element; texts and arrays before it are stepped over.
    pub fn get(&self, index: u64) -> Option<Result<Value>> {
        if let (Some(bytes), true) = (self.element.fixed_bytes(), index < self.len) {
            let mut cursor = Cursor::new(&self.source);
            cursor.seek(self.start + index * bytes);
            return Some(Value::read(&mut cursor, &self.source, self.element));
        }
        self.iter().nth(usize::try_from(index).ok()?)
    }
}

impl Serialize for Array {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeSeq};
        let mut sequence = to.serialize_seq(None)?;
        for value in self.iter() {
            sequence.serialize_element(&value.map_err(S::Error::custom)?)?;
        }
        sequence.end()
    }
}
