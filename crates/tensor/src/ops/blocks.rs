//! The block types that kernels decode, each with the name of its decoding (`prelude/decode`) and its
//! Rust twin: one list for every operation on quantized rows.

/// `Some($make!(name, Block))` for a block type, `None` for a type that is not decoded.
macro_rules! by_block_type {
    ($dtype:expr, $make:ident) => {
        match $dtype {
            tintype_gpu::DType::Q4_0 => Some($make!("q4_0", Q4_0)),
            tintype_gpu::DType::Q4_1 => Some($make!("q4_1", Q4_1)),
            tintype_gpu::DType::Q5_0 => Some($make!("q5_0", Q5_0)),
            tintype_gpu::DType::Q5_1 => Some($make!("q5_1", Q5_1)),
            tintype_gpu::DType::Q8_0 => Some($make!("q8_0", Q8_0)),
            tintype_gpu::DType::Q2K => Some($make!("q2_k", Q2K)),
            tintype_gpu::DType::Q3K => Some($make!("q3_k", Q3K)),
            tintype_gpu::DType::Q4K => Some($make!("q4_k", Q4K)),
            tintype_gpu::DType::Q5K => Some($make!("q5_k", Q5K)),
            tintype_gpu::DType::Q6K => Some($make!("q6_k", Q6K)),
            tintype_gpu::DType::Iq4Nl => Some($make!("iq4_nl", Iq4Nl)),
            _ => None,
        }
    };
}

pub(crate) use by_block_type;
