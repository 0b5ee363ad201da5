//! Metadata beside the tensors, typed as GGUF types it. It must not know what keys mean.

use serde::Serialize;

use super::array::Array;
use super::cursor::Cursor;
use super::error::Result;
use super::map::Source;

/// Declares the scalar types once: variant, Rust type, GGUF number, name.
macro_rules! scalars {
    ($($variant:ident($rust:ty) $id:literal $name:literal;)*) => {
        /// One metadata value.
        #[derive(Debug, Clone)]
        pub enum Value {
            $(#[doc = concat!("A value of GGUF type ", $name, ".")] $variant($rust),)*
            /// True or false.
            Bool(bool),
            /// Text.
            String(String),
            /// Values of one type, left in the file until they are asked for.
            Array(Array),
        }

        /// The type of a metadata value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ValueType {
            $(#[doc = concat!("GGUF type ", $name, ".")] $variant,)*
            /// True or false.
            Bool,
            /// Text.
            String,
            /// Values of one type.
            Array,
        }

        impl ValueType {
            /// The type of a number in a file.
            pub const fn from_id(id: u32) -> Option<Self> {
                match id {
                    $($id => Some(Self::$variant),)*
                    7 => Some(Self::Bool),
                    8 => Some(Self::String),
                    9 => Some(Self::Array),
                    _ => None,
                }
            }

            /// Its number in a file.
            pub const fn id(self) -> u32 {
                match self {
                    $(Self::$variant => $id,)*
                    Self::Bool => 7,
                    Self::String => 8,
                    Self::Array => 9,
                }
            }

            /// Its name, as Rust says it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Bool => "bool",
                    Self::String => "string",
                    Self::Array => "array",
                }
            }

            /// Bytes of one value, if that does not vary.
            pub(super) const fn fixed_bytes(self) -> Option<u64> {
                match self {
                    $(Self::$variant => Some(size_of::<$rust>() as u64),)*
                    Self::Bool => Some(1),
                    Self::String | Self::Array => None,
                }
            }
        }

        impl Value {
            /// Its type.
            pub const fn value_type(&self) -> ValueType {
                match self {
                    $(Self::$variant(_) => ValueType::$variant,)*
                    Self::Bool(_) => ValueType::Bool,
                    Self::String(_) => ValueType::String,
                    Self::Array(_) => ValueType::Array,
                }
            }

            fn put<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(value) => value.serialize(to),)*
                    Self::Bool(value) => value.serialize(to),
                    Self::String(text) => text.serialize(to),
                    Self::Array(array) => array.serialize(to),
                }
            }

            /// Reads a value of a type; arrays are checked to their end but left in the file.
            pub(crate) fn read(from: &mut Cursor<'_>, source: &Source, t: ValueType) -> Result<Self> {
                Ok(match t {
                    $(ValueType::$variant => {
                        let mut bytes = [0; size_of::<$rust>()];
                        bytes.copy_from_slice(from.take(size_of::<$rust>() as u64, "a value")?);
                        Self::$variant(<$rust>::from_le_bytes(bytes))
                    })*
                    ValueType::Bool => Self::Bool(read_bool(from)?),
                    ValueType::String => Self::String(from.string("a text", TEXT_LIMIT)?.to_owned()),
                    ValueType::Array => Self::Array(Array::scan(from, source, 0)?),
                })
            }

            /// Appends the value, without its type, as a file holds it.
            pub(crate) fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant(value) => out.extend_from_slice(&value.to_le_bytes()),)*
                    Self::Bool(value) => out.push(u8::from(*value)),
                    Self::String(text) => {
                        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
                        out.extend_from_slice(text.as_bytes());
                    }
                    Self::Array(array) => {
                        out.extend_from_slice(&array.element().id().to_le_bytes());
                        out.extend_from_slice(&array.len().to_le_bytes());
                        out.extend_from_slice(array.bytes());
                    }
                }
            }
        }
    };
}

scalars! {
    U8(u8) 0 "u8";
    I8(i8) 1 "i8";
    U16(u16) 2 "u16";
    I16(i16) 3 "i16";
    U32(u32) 4 "u32";
    I32(i32) 5 "i32";
    F32(f32) 6 "f32";
    U64(u64) 10 "u64";
    I64(i64) 11 "i64";
    F64(f64) 12 "f64";
}

/// Longest text of a value: chat templates are tens of kilobytes, imatrix notes less.
pub(super) const TEXT_LIMIT: u64 = 64 << 20;

pub(super) fn read_bool(from: &mut Cursor<'_>) -> Result<bool> {
    match from.u8("a bool")? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(from.malformed(format!("a bool is {other}, neither 0 nor 1"))),
    }
}

impl Value {
    /// Text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// A whole number that is not negative, whatever its width.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(v) => Some(v.into()),
            Self::U16(v) => Some(v.into()),
            Self::U32(v) => Some(v.into()),
            Self::U64(v) => Some(v),
            Self::I8(v) => v.try_into().ok(),
            Self::I16(v) => v.try_into().ok(),
            Self::I32(v) => v.try_into().ok(),
            Self::I64(v) => v.try_into().ok(),
            _ => None,
        }
    }

    /// A number with a fraction.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(v) => Some(v.into()),
            Self::F64(v) => Some(v),
            _ => None,
        }
    }

    /// True or false, if it is that.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// An array, if it is one.
    pub fn as_array(&self) -> Option<&Array> {
        if let Self::Array(array) = self { Some(array) } else { None }
    }
}

impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.put(to)
    }
}
