//! Quantized blocks: where their fields lie and how they decode. Layouts follow `ggml-common.h` of
//! llama.cpp (`block_q8_0`, `block_q6_K`) and are checked against Python `gguf` in `tests/`.

pub mod reference;

use tintype_gpu::DType;

/// Where a block's (first) f16 scale lies, in bytes; `None` for types that are not decoded here.
pub const fn scale_offset(dtype: DType) -> Option<usize> {
    match dtype {
        DType::Q8_0 => Some(0),
        DType::Q6K => Some(208),
        _ => None,
    }
}
