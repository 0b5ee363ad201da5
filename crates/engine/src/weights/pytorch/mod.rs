//! Files that `torch.save` wrote: the archive of today and the pickles of before.
//! It must not run anything: see `machine.rs` for what a pickle may build.
//! Sources: PyTorch's torch/serialization.py and torch/_utils.py, Python's pickletools.

mod build;
mod flatten;
mod legacy;
mod machine;
mod node;
mod zip;

pub(crate) use legacy::read as read_legacy;
pub(crate) use zip::read as read_zip;

use crate::DType;

/// Longest pickle: those of real checkpoints stay below 10 MiB.
const PICKLE_LIMIT: u64 = 64 << 20;

/// Element types by PyTorch's names, and the storages named after some of them: one list.
const TYPES: &[(&str, Option<&str>, DType)] = &[
    ("float32", Some("FloatStorage"), DType::F32),
    ("float64", Some("DoubleStorage"), DType::F64),
    ("float16", Some("HalfStorage"), DType::F16),
    ("bfloat16", Some("BFloat16Storage"), DType::Bf16),
    ("float8_e4m3fn", None, DType::F8E4M3),
    ("float8_e5m2", None, DType::F8E5M2),
    ("int8", Some("CharStorage"), DType::I8),
    ("uint8", Some("ByteStorage"), DType::U8),
    ("int16", Some("ShortStorage"), DType::I16),
    ("uint16", None, DType::U16),
    ("int32", Some("IntStorage"), DType::I32),
    ("uint32", None, DType::U32),
    ("int64", Some("LongStorage"), DType::I64),
    ("uint64", None, DType::U64),
    ("bool", Some("BoolStorage"), DType::Bool),
];
