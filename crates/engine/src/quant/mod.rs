//! Blocks as files hold them: bytes to single precision and back, bit for bit as the field does.
//! It must not know files, tensors or devices; everything here is a pure function of its bytes.

mod decode;
mod encode;
mod float8;
mod k_decode;
mod k_encode;
mod k_search;
mod lattice;
mod legacy;
mod micro;
#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{ENCODABLE, encode};

use crate::DType;

/// Why bytes could not become numbers, or numbers blocks.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// The lengths do not fit together.
    #[error("{bytes} bytes of {dtype} do not hold {elements} values in whole blocks")]
    Length {
        /// Type of the blocks.
        dtype: DType,
        /// Bytes given.
        bytes: usize,
        /// Values given or asked for.
        elements: usize,
    },
    /// The type can be listed and copied but not decoded.
    #[error("{dtype} cannot be decoded: it is a type of intermediate results, not of weights")]
    NoDecoder {
        /// The type.
        dtype: DType,
    },
    /// The type can be read but not written.
    #[error("{dtype} cannot be written; choose one of {}", names(ENCODABLE))]
    NoEncoder {
        /// The type.
        dtype: DType,
    },
    /// A value is infinite or not a number.
    #[error("value {at} is {value}, which no weight should be")]
    NotFinite {
        /// Index of the value.
        at: usize,
        /// The value.
        value: f32,
    },
    /// A value or its block's scale is larger than the type can hold.
    #[error("value {at} is {value}, too large for {dtype}; BF16 or F32 hold it")]
    TooLarge {
        /// Index of the value.
        at: usize,
        /// The value.
        value: f32,
        /// The type that cannot hold it.
        dtype: DType,
    },
}

fn names(dtypes: &[DType]) -> String {
    dtypes.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ")
}

/// Half precision at `at`, as a single.
fn half_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
