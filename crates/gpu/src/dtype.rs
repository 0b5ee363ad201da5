//! The types a buffer may hold, with their block sizes: one list for the whole project.
//! It must not know how a block is decoded; that belongs to the tensor crate.

/// Declares the list once: variant, GGML-style name, elements a block, bytes a block.
macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $elements:literal $bytes:literal;)*) => {
        /// Type of a buffer's elements. Quantized types hold `block_elements` values in `block_bytes`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DType { $($(#[$doc])* $variant,)* }

        impl DType {
            /// Every type, in declaration order.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The field's own name, as in GGUF listings: `F32`, `Q6_K`.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Values in one block; 1 for plain numbers.
            pub const fn block_elements(self) -> u64 {
                match self { $(DType::$variant => $elements,)* }
            }

            /// Bytes of one block.
            pub const fn block_bytes(self) -> u64 {
                match self { $(DType::$variant => $bytes,)* }
            }
        }
    };
}

// Block layouts: ggml-common.h of llama.cpp (`block_q4_0`, …), checked against Python `gguf`.
dtypes! {
    /// IEEE single precision.
    F32 "F32" 1 4;
    /// IEEE half precision.
    F16 "F16" 1 2;
    /// Upper half of a single.
    Bf16 "BF16" 1 2;
    /// Unsigned 32-bit.
    U32 "U32" 1 4;
    /// Signed 32-bit.
    I32 "I32" 1 4;
    /// Unsigned byte.
    U8 "U8" 1 1;
    /// Signed byte.
    I8 "I8" 1 1;
    /// IEEE double precision.
    F64 "F64" 1 8;
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinities (OCP FP8, the "FN" kind).
    F8E4M3 "F8_E4M3" 1 1;
    /// 8-bit float, 5 exponent and 2 mantissa bits (OCP FP8).
    F8E5M2 "F8_E5M2" 1 1;
    /// Signed 16-bit.
    I16 "I16" 1 2;
    /// Unsigned 16-bit.
    U16 "U16" 1 2;
    /// Signed 64-bit.
    I64 "I64" 1 8;
    /// Unsigned 64-bit.
    U64 "U64" 1 8;
    /// A byte that is 0 or 1.
    Bool "BOOL" 1 1;
    /// 4 bits, one scale a block.
    Q4_0 "Q4_0" 32 18;
    /// 4 bits, scale and minimum.
    Q4_1 "Q4_1" 32 20;
    /// 5 bits, one scale a block.
    Q5_0 "Q5_0" 32 22;
    /// 5 bits, scale and minimum.
    Q5_1 "Q5_1" 32 24;
    /// 8 bits, one scale a block.
    Q8_0 "Q8_0" 32 34;
    /// 2 bits, super-blocks of 256.
    Q2K "Q2_K" 256 84;
    /// 3 bits, super-blocks of 256.
    Q3K "Q3_K" 256 110;
    /// 4 bits, super-blocks of 256.
    Q4K "Q4_K" 256 144;
    /// 5 bits, super-blocks of 256.
    Q5K "Q5_K" 256 176;
    /// 6 bits, super-blocks of 256.
    Q6K "Q6_K" 256 210;
    /// 4 bits through a fixed non-linear table.
    Iq4Nl "IQ4_NL" 32 18;
    /// 1 bit and one scale a block.
    Q1_0 "Q1_0" 128 18;
    /// 2 bits and one scale a block.
    Q2_0 "Q2_0" 64 18;
    /// 8 bits, scale and sum: ggml's activations, never seen in files.
    Q8_1 "Q8_1" 32 36;
    /// 8 bits, single-precision scale and sums: ggml's activations, never seen in files.
    Q8K "Q8_K" 256 292;
    /// 2.06 bits through a lattice of 256 points.
    Iq2Xxs "IQ2_XXS" 256 66;
    /// 2.3 bits through a lattice of 512 points.
    Iq2Xs "IQ2_XS" 256 74;
    /// 2.5 bits through a lattice of 1024 points.
    Iq2S "IQ2_S" 256 82;
    /// 3.06 bits through a lattice of 256 points.
    Iq3Xxs "IQ3_XXS" 256 98;
    /// 3.4 bits through a lattice of 512 points.
    Iq3S "IQ3_S" 256 110;
    /// 1.56 bits through a lattice of 2048 points.
    Iq1S "IQ1_S" 256 50;
    /// 1.75 bits through a lattice of 2048 points.
    Iq1M "IQ1_M" 256 56;
    /// 4.25 bits through a fixed non-linear table, super-blocks of 256.
    Iq4Xs "IQ4_XS" 256 136;
    /// Ternary, five values a byte.
    Tq1_0 "TQ1_0" 256 54;
    /// Ternary, four values a byte.
    Tq2_0 "TQ2_0" 256 66;
    /// 4-bit floats that share an 8-bit exponent (OCP microscaling).
    Mxfp4 "MXFP4" 32 17;
    /// 4-bit floats with an unsigned 8-bit float scale for every 16.
    Nvfp4 "NVFP4" 64 36;
}

impl DType {
    /// Whether elements are packed into blocks with shared scales.
    pub const fn is_quantized(self) -> bool {
        self.block_elements() > 1
    }

    /// Bytes that `elements` values take, or `None` if they do not fill whole blocks or overflow.
    pub const fn bytes_for(self, elements: u64) -> Option<u64> {
        if !elements.is_multiple_of(self.block_elements()) {
            return None;
        }
        (elements / self.block_elements()).checked_mul(self.block_bytes())
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust number that a buffer can be viewed as.
pub trait Element: bytemuck::Pod + Send + Sync {
    /// The buffer type that holds this number.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),*) => { $(impl Element for $rust { const DTYPE: DType = DType::$dtype; })* };
}
elements!(f32 => F32, half::f16 => F16, half::bf16 => Bf16, u32 => U32, i32 => I32, u8 => U8, i8 => I8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_whole_blocks() {
        assert_eq!(DType::Q6K.bytes_for(512), Some(420));
        assert_eq!(DType::Q6K.bytes_for(300), None);
        assert_eq!(DType::F32.bytes_for(u64::MAX), None);
        assert_eq!(DType::F16.bytes_for(3), Some(6));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = DType::ALL.iter().map(|d| d.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DType::ALL.len());
    }
}
