//! The numbers by which GGUF files name element types: one list. It must not know layouts.

use crate::DType;

const TYPES: &[(u32, DType)] = &[
    (0, DType::F32),
    (1, DType::F16),
    (2, DType::Q4_0),
    (3, DType::Q4_1),
    (6, DType::Q5_0),
    (7, DType::Q5_1),
    (8, DType::Q8_0),
    (9, DType::Q8_1),
    (10, DType::Q2K),
    (11, DType::Q3K),
    (12, DType::Q4K),
    (13, DType::Q5K),
    (14, DType::Q6K),
    (15, DType::Q8K),
    (16, DType::Iq2Xxs),
    (17, DType::Iq2Xs),
    (18, DType::Iq3Xxs),
    (19, DType::Iq1S),
    (20, DType::Iq4Nl),
    (21, DType::Iq3S),
    (22, DType::Iq2S),
    (23, DType::Iq4Xs),
    (24, DType::I8),
    (25, DType::I16),
    (26, DType::I32),
    (27, DType::I64),
    (28, DType::F64),
    (29, DType::Iq1M),
    (30, DType::Bf16),
    (34, DType::Tq1_0),
    (35, DType::Tq2_0),
    (39, DType::Mxfp4),
    (40, DType::Nvfp4),
    (41, DType::Q1_0),
    (42, DType::Q2_0),
];

/// Types that existed once and were taken out of the format.
const REMOVED: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

/// The type of a number, or what to call it in an error.
pub(super) fn of_id(id: u32) -> Result<DType, String> {
    if let Some((_, dtype)) = TYPES.iter().find(|(number, _)| *number == id) {
        return Ok(*dtype);
    }
    Err(match REMOVED.iter().find(|(number, _)| *number == id) {
        Some((_, name)) => format!("{name} (number {id}, removed from GGUF; quantize again)"),
        None => format!("number {id} (unknown to this version)"),
    })
}

/// The number of a type, if GGUF has it.
pub(crate) fn id_of(dtype: DType) -> Option<u32> {
    TYPES.iter().find(|(_, d)| *d == dtype).map(|(number, _)| *number)
}
