//! Quantized blocks: where their fields lie and how they decode. Layouts follow `ggml-common.h` of
//! llama.cpp (`block_q4_0`, …) and are checked against Python `gguf` in `tests/`.

pub mod reference;

use tintype_gpu::DType;

/// The block types that products take.
pub const TYPES: [DType; 11] = [
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q8_0,
    DType::Q2K,
    DType::Q3K,
    DType::Q4K,
    DType::Q5K,
    DType::Q6K,
    DType::Iq4Nl,
];

/// Where a block's f16 scales (and minima) lie, in bytes; none for types that are not decoded here.
pub const fn scale_offsets(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q4_0 | DType::Q5_0 | DType::Q8_0 | DType::Iq4Nl => &[0],
        DType::Q4_1 | DType::Q5_1 | DType::Q4K | DType::Q5K => &[0, 2],
        DType::Q2K => &[80, 82],
        DType::Q3K => &[108],
        DType::Q6K => &[208],
        _ => &[],
    }
}

/// The values of IQ4_NL (`kvalues_iq4nl`).
pub(crate) const IQ4_NL: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];
