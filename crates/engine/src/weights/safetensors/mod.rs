//! The safetensors format, one file at a time. It must not know indexes or folders.
//! The format's types and final check are the `safetensors` crate's; the pass here exists to name
//! the tensor at fault and to see names that stand twice, which that crate cannot.

mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::header;

use crate::DType;
use ::safetensors::Dtype;

/// The types that both sides have: one list.
const TYPES: &[(Dtype, DType)] = &[
    (Dtype::BOOL, DType::Bool),
    (Dtype::U8, DType::U8),
    (Dtype::I8, DType::I8),
    (Dtype::F8_E4M3, DType::F8E4M3),
    (Dtype::F8_E5M2, DType::F8E5M2),
    (Dtype::I16, DType::I16),
    (Dtype::U16, DType::U16),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::Bf16),
    (Dtype::I32, DType::I32),
    (Dtype::U32, DType::U32),
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
    (Dtype::I64, DType::I64),
    (Dtype::U64, DType::U64),
];

/// The format's type for one of ours, if it has it.
pub(crate) fn type_of(dtype: DType) -> Option<Dtype> {
    TYPES.iter().find(|(_, d)| *d == dtype).map(|(theirs, _)| *theirs)
}
