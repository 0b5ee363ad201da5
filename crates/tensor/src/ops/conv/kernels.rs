//! Convolution's kernels and their variations.

use tintype_gpu::kernel::KernelSource;

use super::{Direction, cpu};
use crate::number::{NUMBERS, Number, THROUGH, WGSL};
use crate::ops::case::Variant;
use crate::ops::pointwise::Unary;

macro_rules! source {
    ($name:literal, $file:literal) => {
        KernelSource {
            name: $name,
            wgsl: concat!(
                include_str!("../prelude/numbers.wgsl"),
                include_str!("../prelude/functions.wgsl"),
                include_str!("params.wgsl"),
                include_str!($file)
            ),
            entry: "main",
            aliases: &[],
            cpu: cpu::conv,
        }
    };
}

const TILED: KernelSource = source!("conv_tiled", "tiled.wgsl");
const DIRECT: KernelSource = source!("conv_direct", "direct.wgsl");

/// Filters and pixels of a workgroup's tile (`TILE` in the WGSL).
pub(super) const TILE: u32 = 64;

/// Pixels of a direct workgroup (`GROUP` in the WGSL).
pub(super) const DIRECT_PIXELS: u32 = 64;

/// Groups of fewer filters go one output a thread: most of a tile would be empty.
pub(super) const FEW_FILTERS: usize = 16;

/// Types of x, weights, bias and out.
pub(super) type Types = [Number; 4];

/// Aliases by types, as digits in base 3.
static TYPES: [[(&str, &str); 5]; 81] = {
    let mut table = [[("", ""); 5]; 81];
    let mut at = 0;
    while at < 81 {
        table[at] = [
            ("T", WGSL[at / 27]),
            ("W", WGSL[at / 9 % 3]),
            ("B", WGSL[at / 3 % 3]),
            ("OUT", WGSL[at % 3]),
            ("THROUGH", THROUGH[at % 3]),
        ];
        at += 1;
    }
    table
};

/// What a kernel is compiled for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) types: Types,
    pub(super) bias: bool,
    pub(super) direction: Direction,
    pub(super) activation: Unary,
    pub(super) tiled: bool,
}

impl Form {
    pub(super) fn variant(self) -> Variant {
        let flag = |on: bool| f64::from(u8::from(on));
        let [x, weights, bias, out] = self.types;
        let place = self.types.iter().fold(0, |place, number| place * 3 + *number as usize);
        let source = if self.tiled { TILED } else { DIRECT };
        Variant {
            source: KernelSource { aliases: &TYPES[place], ..source },
            overrides: vec![
                ("X_BF16", x.is_bf16()),
                ("W_BF16", weights.is_bf16()),
                ("B_BF16", bias.is_bf16()),
                ("OUT_BF16", out.is_bf16()),
                ("HAS_BIAS", flag(self.bias)),
                ("TRANSPOSED", flag(self.direction == Direction::Transposed)),
                ("ACTIVATION", f64::from(self.activation as u32)),
            ],
        }
    }
}

/// Every mix of types once, every form with one type.
pub(super) fn kernels() -> Vec<Variant> {
    let f = Number::F32;
    let plain = Form {
        types: [f; 4],
        bias: true,
        direction: Direction::Forward,
        activation: Unary::Identity,
        tiled: true,
    };
    let mut all = Vec::new();
    for tiled in [true, false] {
        for direction in [Direction::Forward, Direction::Transposed] {
            for bias in [true, false] {
                for activation in [Unary::Identity, Unary::Relu, Unary::Silu] {
                    all.push(Form { bias, direction, activation, tiled, ..plain }.variant());
                }
            }
        }
        for x in NUMBERS {
            for weights in NUMBERS {
                for (bias, out) in NUMBERS.into_iter().flat_map(|b| NUMBERS.map(|out| (b, out))) {
                    let types = [x, weights, bias, out];
                    all.push(Form { types, tiled, ..plain }.variant());
                }
            }
        }
    }
    all
}
