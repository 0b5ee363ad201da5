//! The kernels: rows of numbers, and for each block type its decoding.

use tintype_gpu::DType;
use tintype_gpu::kernel::KernelSource;

use super::cpu;
use crate::number::{NUMBERS, Number, THROUGH, WGSL, input_and_out};
use crate::ops::blocks::by_block_type;
use crate::ops::case::Variant;
use crate::simd::quant as blocks;

const DENSE: KernelSource = KernelSource {
    name: "embedding",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("params.wgsl"),
        include_str!("embedding.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::dense,
};

macro_rules! source {
    ($name:literal, $block:ident) => {
        KernelSource {
            name: concat!("embedding_", $name),
            wgsl: concat!(
                include_str!("../prelude/numbers.wgsl"),
                include_str!("../prelude/rows.wgsl"),
                include_str!("../prelude/blocks.wgsl"),
                include_str!(concat!("../prelude/decode/", $name, ".wgsl")),
                include_str!("params.wgsl"),
                include_str!("blocks.wgsl")
            ),
            entry: "main",
            aliases: &[],
            cpu: cpu::blocks::<blocks::$block>,
        }
    };
}

static DENSE_TYPES: [[(&str, &str); 3]; 9] = input_and_out("T");

/// Words, then halves, by the output's type.
static BLOCK_TYPES: [[(&str, &str); 3]; 6] = {
    let mut table = [[("W", "u32"), ("OUT", ""), ("THROUGH", "")]; 6];
    let mut at = 0;
    while at < 6 {
        table[at] =
            [("W", ["u32", "u16"][at / 3]), ("OUT", WGSL[at % 3]), ("THROUGH", THROUGH[at % 3])];
        at += 1;
    }
    table
};

/// The kernel for a table of `dtype`, or `None` for a type that is not decoded. `halves`: blocks are
/// read by halves, since their span does not end on a word.
pub(super) fn variant(dtype: DType, out: Number, halves: bool) -> Option<Variant> {
    if let Some(number) = Number::of(dtype) {
        let aliases = &DENSE_TYPES[number as usize * 3 + out as usize];
        let overrides = vec![("T_BF16", number.is_bf16()), ("OUT_BF16", out.is_bf16())];
        return Some(Variant { source: KernelSource { aliases, ..DENSE }, overrides });
    }
    let source = by_block_type!(dtype, source)?;
    let aliases = &BLOCK_TYPES[usize::from(halves) * 3 + out as usize];
    let overrides = vec![("HALVES", f64::from(u8::from(halves))), ("OUT_BF16", out.is_bf16())];
    Some(Variant { source: KernelSource { aliases, ..source }, overrides })
}

/// Every type of table with every type of output.
pub(super) fn kernels() -> Vec<Variant> {
    let dense = NUMBERS.map(|number| number.dtype());
    let mut all = Vec::new();
    for out in NUMBERS {
        all.extend(dense.into_iter().filter_map(|dtype| variant(dtype, out, false)));
        for halves in [false, true] {
            all.extend(crate::quant::TYPES.iter().filter_map(|&dtype| variant(dtype, out, halves)));
        }
    }
    all
}
