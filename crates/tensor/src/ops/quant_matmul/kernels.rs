//! The kernels: for each block type its decoding, in a form for few vectors and one for many.

use tintype_gpu::DType;
use tintype_gpu::kernel::KernelSource;

use super::cpu;
use crate::number::{NUMBERS, Number, THROUGH, WGSL};
use crate::ops::blocks::by_block_type;
use crate::ops::case::Variant;
use crate::simd::quant as blocks;

/// A block type's two kernels.
#[derive(Clone, Copy)]
struct Pair {
    few: KernelSource,
    many: KernelSource,
}

macro_rules! source {
    ($name:expr, $decode:expr, $file:literal, $block:ty) => {
        KernelSource {
            name: $name,
            wgsl: concat!(
                include_str!("../prelude/numbers.wgsl"),
                include_str!("../prelude/blocks.wgsl"),
                include_str!("params.wgsl"),
                include_str!($decode),
                include_str!($file)
            ),
            entry: "main",
            aliases: &[],
            cpu: cpu::matmul::<$block>,
        }
    };
}

macro_rules! pair {
    ($name:literal, $block:ident) => {
        Pair {
            few: source!(
                concat!("matvec_", $name),
                concat!("../prelude/decode/", $name, ".wgsl"),
                "matvec.wgsl",
                blocks::$block
            ),
            many: source!(
                concat!("matmul_", $name),
                concat!("../prelude/decode/", $name, ".wgsl"),
                "tiled.wgsl",
                blocks::$block
            ),
        }
    };
}

fn pair(dtype: DType) -> Option<Pair> {
    by_block_type!(dtype, pair)
}

/// Vectors that one dispatch of the kernel for few may take.
pub(super) const COUNTS: [usize; 4] = [8, 4, 2, 1];

/// Threads of its workgroup (`GROUP` in the WGSL).
pub(super) const GROUP: u32 = 128;

/// Threads that may share a row.
const THREADS_PER_ROW: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Rows and vectors of a tile of the kernel for many.
pub(super) const TILE: [u32; 2] = [128, 32];

/// Aliases by types of weights' words (whole, halves), x and out.
static TYPES: [[(&str, &str); 4]; 18] = {
    let mut table = [[("", ""); 4]; 18];
    let mut at = 0;
    while at < 18 {
        table[at] = [
            ("W", if at < 9 { "u32" } else { "u16" }),
            ("T", WGSL[at / 3 % 3]),
            ("OUT", WGSL[at % 3]),
            ("THROUGH", THROUGH[at % 3]),
        ];
        at += 1;
    }
    table
};

/// Which of a pair, and in what form.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// `many` vectors at once, `threads` a row.
    Few {
        many: usize,
        threads: u32,
    },
    Many,
}

/// The kernel for a block type, or `None` for a type that is not decoded.
pub(super) fn variant(
    dtype: DType,
    form: Form,
    [x, out]: [Number; 2],
    halves: bool,
) -> Option<Variant> {
    let pair = pair(dtype)?;
    let place = usize::from(halves) * 9 + x as usize * 3 + out as usize;
    let mut overrides = vec![
        ("HALVES", f64::from(u8::from(halves))),
        ("X_BF16", x.is_bf16()),
        ("OUT_BF16", out.is_bf16()),
    ];
    let source = match form {
        Form::Few { many, threads } => {
            overrides.extend([("MANY", many as f64), ("TPR", threads.into())]);
            pair.few
        }
        Form::Many => pair.many,
    };
    Some(Variant { source: KernelSource { aliases: &TYPES[place], ..source }, overrides })
}

/// Every block type in every form, every mix of types once.
pub(super) fn kernels() -> Vec<Variant> {
    let f = [Number::F32; 2];
    let mut all = Vec::new();
    for dtype in crate::quant::TYPES {
        for halves in [false, true] {
            all.extend(variant(dtype, Form::Many, f, halves));
            for many in COUNTS {
                let form = Form::Few { many, threads: 32 };
                all.extend(variant(dtype, form, f, halves));
            }
        }
    }
    for threads in THREADS_PER_ROW {
        for many in COUNTS {
            all.extend(variant(DType::Q8_0, Form::Few { many, threads }, f, false));
        }
    }
    for x in NUMBERS {
        for out in NUMBERS {
            all.extend(variant(DType::Q4_0, Form::Many, [x, out], false));
            all.extend(variant(DType::Q4K, Form::Few { many: 2, threads: 8 }, [x, out], false));
        }
    }
    all
}
