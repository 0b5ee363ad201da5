//! Attention's kernels and their variations.

use tintype_gpu::DType;
use tintype_gpu::kernel::{KernelSource, Unit, UnitError};

use super::cpu;
use crate::number::{NUMBERS, Number, OUT, THROUGH, WGSL};
use crate::ops::case::Variant;

const TILED: KernelSource = KernelSource {
    name: "attention",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/functions.wgsl"),
        include_str!("params.wgsl"),
        include_str!("tiled.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::attention,
};

const JOIN: KernelSource = KernelSource {
    name: "attention_join",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/functions.wgsl"),
        include_str!("params.wgsl"),
        include_str!("join.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: join_on_cpu,
};

/// The CPU does not share out keys.
fn join_on_cpu(_: &mut Unit<'_>) -> Result<(), UnitError> {
    Err(UnitError::Kernel("parts of attention are joined on GPUs only".into()))
}

/// What keys and values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Numbers(Number),
    /// Q8_0, read by words, or by halves where a span does not end on a word.
    Blocks {
        halves: bool,
    },
}

impl Stored {
    pub(super) fn of(dtype: DType) -> Option<Stored> {
        match dtype {
            DType::Q8_0 => Some(Stored::Blocks { halves: false }),
            _ => Number::of(dtype).map(Stored::Numbers),
        }
    }

    /// For the CPU kernel, in 2 bits.
    pub(super) fn code(self) -> u32 {
        match self {
            Stored::Numbers(number) => number as u32,
            Stored::Blocks { .. } => BLOCKS,
        }
    }
}

/// The code of keys and values in blocks.
pub(super) const BLOCKS: u32 = 3;

/// Types of operands and result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Types {
    pub(super) q: Number,
    pub(super) kv: Stored,
    pub(super) bias: Number,
    pub(super) out: Number,
}

/// By the types of q, k and v (numbers, words, halves), bias, out.
static TYPES: [[(&str, &str); 5]; 135] = {
    let mut table = [[("Q", ""), ("KV", ""), ("B", ""), ("OUT", ""), ("THROUGH", "")]; 135];
    let kv = [WGSL[0], WGSL[1], WGSL[2], "u32", "u16"];
    let mut at = 0;
    while at < 135 {
        table[at][0].1 = WGSL[at / 45];
        table[at][1].1 = kv[at / 9 % 5];
        table[at][2].1 = WGSL[at / 3 % 3];
        table[at][3].1 = WGSL[at % 3];
        table[at][4].1 = THROUGH[at % 3];
        at += 1;
    }
    table
};

/// Rows that a workgroup takes: as many as its registers hold for heads of `d`, few where there are
/// few. It may not depend on the number of batches or heads.
pub(super) fn rows_of_tile(rows: u32, d: u32) -> u32 {
    let most = match d {
        0..=128 => 64,
        129..=256 => 32,
        _ => 16,
    };
    rows.clamp(1, most).next_multiple_of(16).next_power_of_two().min(most)
}

pub(super) fn tiled(types: Types, d: u32, rows: u32, parts: bool) -> Variant {
    let Types { q, kv, bias, out } = types;
    let (kv_at, kv_bf16, halves) = match kv {
        Stored::Numbers(number) => (number as usize, number.is_bf16(), None),
        Stored::Blocks { halves } => (3 + usize::from(halves), 0.0, Some(halves)),
    };
    let flag = |on: bool| f64::from(u8::from(on));
    let at = q as usize * 45 + kv_at * 9 + bias as usize * 3 + out as usize;
    let overrides = vec![
        ("Q_BF16", q.is_bf16()),
        ("KV_BF16", kv_bf16),
        ("KV_Q8", flag(halves.is_some())),
        ("KV_HALVES", flag(halves == Some(true))),
        ("B_BF16", bias.is_bf16()),
        ("OUT_BF16", out.is_bf16()),
        ("D", d.into()),
        ("BQ", rows.into()),
        ("PARTS", flag(parts)),
    ];
    Variant { source: KernelSource { aliases: &TYPES[at], ..TILED }, overrides }
}

pub(super) fn join(out: Number, d: u32) -> Variant {
    let overrides = vec![("OUT_BF16", out.is_bf16()), ("D", d.into())];
    Variant { source: KernelSource { aliases: &OUT[out as usize], ..JOIN }, overrides }
}

/// Every mix of types with one size, and every size of tile with one type. Head sizes are numbers in
/// the code: those of real models stand for all.
pub(super) fn kernels() -> Vec<Variant> {
    let f = Number::F32;
    let of = |q, kv, bias, out| Types { q, kv, bias, out };
    let plain = of(f, Stored::Numbers(f), f, f);
    let stored = NUMBERS
        .map(Stored::Numbers)
        .into_iter()
        .chain([false, true].map(|halves| Stored::Blocks { halves }));
    let mut all = Vec::new();
    for kv in stored {
        for q in NUMBERS {
            for bias in NUMBERS {
                all.extend(NUMBERS.map(|out| tiled(of(q, kv, bias, out), 64, 64, false)));
            }
            all.push(tiled(of(q, kv, f, f), 64, 16, true));
        }
    }
    for d in [1, 33, 40, 64, 72, 80, 96, 128, 160, 256, 512] {
        for rows in [16, 32, 64].into_iter().filter(|&rows| rows <= rows_of_tile(64, d)) {
            all.push(tiled(plain, d, rows, false));
        }
        all.push(tiled(plain, d, 16, true));
        all.extend(NUMBERS.map(|out| join(out, d)));
    }
    all
}
