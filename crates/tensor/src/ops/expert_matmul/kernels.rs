//! The kernels: dense experts, and for each block type its decoding.

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, DeviceKind};

use super::cpu;
use crate::number::{NUMBERS, Number, THROUGH, WGSL, inputs_and_out};
use crate::ops::blocks::by_block_type;
use crate::ops::case::Variant;
use crate::simd::quant as blocks;

const DENSE: KernelSource = KernelSource {
    name: "expert_matmul",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("params.wgsl"),
        include_str!("dense.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::dense,
};

macro_rules! source {
    ($name:literal, $block:ident) => {
        KernelSource {
            name: concat!("expert_matmul_", $name),
            wgsl: concat!(
                include_str!("../prelude/numbers.wgsl"),
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

/// Threads of a workgroup (`GROUP` in the WGSL).
pub(super) const GROUP: u32 = 128;

/// Threads that may share a row.
const THREADS: [u32; 3] = [1, 8, 32];

/// Threads for a row; it depends on the weights alone, as the order of a sum does.
pub(super) fn threads_per_row(kind: DeviceKind, k: usize, n: usize) -> u32 {
    match kind {
        // A barrier costs a software device more than what it shares out.
        DeviceKind::Software if n * k > 1 << 22 => 1,
        _ if k < 256 => 8,
        _ => 32,
    }
}

static DENSE_TYPES: [[(&str, &str); 4]; 27] = inputs_and_out("W", "T");

/// Words, then halves, by the types of x and out.
static BLOCK_TYPES: [[(&str, &str); 4]; 18] = {
    let mut table = [[("", ""); 4]; 18];
    let mut at = 0;
    while at < 18 {
        table[at] = [
            ("W", ["u32", "u16"][at / 9]),
            ("T", WGSL[at / 3 % 3]),
            ("OUT", WGSL[at % 3]),
            ("THROUGH", THROUGH[at % 3]),
        ];
        at += 1;
    }
    table
};

/// The kernel for experts of `dtype`, or `None` for a type that is not decoded. `halves`: blocks are
/// read by halves, since their span does not end on a word.
pub(super) fn variant(
    dtype: DType,
    [x, out]: [Number; 2],
    threads: u32,
    halves: bool,
) -> Option<Variant> {
    let mut overrides =
        vec![("X_BF16", x.is_bf16()), ("OUT_BF16", out.is_bf16()), ("TPR", threads.into())];
    let own = x as usize * 3 + out as usize;
    if let Some(number) = Number::of(dtype) {
        overrides.push(("W_BF16", number.is_bf16()));
        let aliases = &DENSE_TYPES[number as usize * 9 + own];
        return Some(Variant { source: KernelSource { aliases, ..DENSE }, overrides });
    }
    let source = by_block_type!(dtype, source)?;
    overrides.push(("HALVES", f64::from(u8::from(halves))));
    let aliases = &BLOCK_TYPES[usize::from(halves) * 9 + own];
    Some(Variant { source: KernelSource { aliases, ..source }, overrides })
}

/// Every type of weights, every mix of activations once.
pub(super) fn kernels() -> Vec<Variant> {
    let f = [Number::F32; 2];
    let mut all = Vec::new();
    for threads in THREADS {
        for halves in [false, true] {
            let types = crate::quant::TYPES.into_iter();
            all.extend(types.filter_map(|dtype| variant(dtype, f, threads, halves)));
        }
        all.extend(
            NUMBERS.map(|number| variant(number.dtype(), f, threads, false)).into_iter().flatten(),
        );
    }
    for x in NUMBERS {
        for out in NUMBERS {
            for dtype in [DType::F32, DType::F16, DType::Bf16, DType::Q4_0] {
                all.extend(variant(dtype, [x, out], 32, false));
            }
        }
    }
    all
}
