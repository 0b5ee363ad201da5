//! The product's kernels and their variations.

use tintype_gpu::kernel::KernelSource;

use super::cpu;
use crate::number::{NUMBERS, Number, inputs_and_out};
use crate::ops::case::Variant;

macro_rules! source {
    ($name:literal, $file:literal) => {
        KernelSource {
            name: $name,
            wgsl: concat!(
                include_str!("../prelude/numbers.wgsl"),
                include_str!("params.wgsl"),
                include_str!($file)
            ),
            entry: "main",
            aliases: &[],
            cpu: cpu::matmul,
        }
    };
}

const TILED: KernelSource = source!("matmul_tiled", "tiled.wgsl");
const MATVEC: KernelSource = source!("matvec", "matvec.wgsl");
const MATVEC4: KernelSource = source!("matvec4", "matvec4.wgsl");
const COOP: KernelSource = KernelSource {
    name: "matmul_coop",
    wgsl: concat!(include_str!("coop.wgsl"), include_str!("params.wgsl")),
    entry: "main",
    aliases: &[],
    cpu: cpu::matmul,
};

const COOP_WIDE: KernelSource = KernelSource {
    name: "matmul_coop_wide",
    wgsl: concat!(include_str!("coop_wide.wgsl"), include_str!("params.wgsl")),
    ..COOP
};

/// Rows that one mat-vec dispatch may take (`MOST` in the WGSL).
pub(super) const MOST_ROWS: usize = 8;

/// Rows that it takes of many, the most that fit first.
pub(super) const COUNTS: [usize; 4] = [MOST_ROWS, 4, 2, 1];

/// Threads of a mat-vec workgroup (`GROUP` in the WGSL).
pub(super) const GROUP: u32 = 128;

/// Threads that may share an output.
const THREADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

static TYPES: [[(&str, &str); 4]; 27] = inputs_and_out("T", "W");
static VECTORS: [[(&str, &str); 4]; 27] = {
    const WIDE: [&str; 3] = ["vec4<f32>", "vec4<f16>", "vec4<u16>"];
    let mut table = TYPES_OF;
    let mut at = 0;
    while at < 27 {
        table[at][0].1 = WIDE[at / 9];
        table[at][1].1 = WIDE[at / 3 % 3];
        at += 1;
    }
    table
};
const TYPES_OF: [[(&str, &str); 4]; 27] = inputs_and_out("T", "W");

fn place([a, b, out]: [Number; 3]) -> usize {
    a as usize * 9 + b as usize * 3 + out as usize
}

fn types(of: [Number; 3]) -> Vec<(&'static str, f64)> {
    vec![("A_BF16", of[0].is_bf16()), ("B_BF16", of[1].is_bf16()), ("OUT_BF16", of[2].is_bf16())]
}

pub(super) fn tiled(of: [Number; 3], tile: [u32; 2], along_k: [bool; 2]) -> Variant {
    let mut overrides = types(of);
    let flag = |on: bool| f64::from(u8::from(on));
    overrides.extend([
        ("BM", tile[0].into()),
        ("BN", tile[1].into()),
        ("A_ALONG_K", flag(along_k[0])),
        ("B_ALONG_K", flag(along_k[1])),
    ]);
    Variant { source: KernelSource { aliases: &TYPES[place(of)], ..TILED }, overrides }
}

pub(super) fn matvec(of: [Number; 3], rows: u32, threads: u32, vectors: bool) -> Variant {
    let mut overrides = types(of);
    overrides.extend([("MANY", f64::from(rows)), ("TPR", f64::from(threads))]);
    let source = match vectors {
        true => KernelSource { aliases: &VECTORS[place(of)], ..MATVEC4 },
        false => KernelSource { aliases: &TYPES[place(of)], ..MATVEC },
    };
    Variant { source, overrides }
}

/// Rows and columns of a cooperative workgroup's tile: two subgroups of four fragments.
pub(super) const fn coop_tile(side: u32) -> u32 {
    8 * side
}

/// Depth of a cooperative workgroup's tiles.
pub(super) const COOP_DEPTH: u32 = 32;

type Names = &'static [(&'static str, &'static str)];

/// Aliases for fragments of 16 or 8. A thread moves `8·side·32 / 128` numbers of a tile.
fn coop_aliases(out: Number, side: u32) -> Names {
    macro_rules! names {
        ($out:literal, $side:literal, $cells:literal) => {
            &[
                ("CELLS", concat!("array<f16, ", $cells, ">")),
                ("LEFT", concat!("coop_mat", $side, "<f16, A>")),
                ("RIGHT", concat!("coop_mat", $side, "<f16, B>")),
                ("SUM", concat!("coop_mat", $side, "<f32, C>")),
                ("OUT", $out),
            ]
        };
    }
    match (out, side) {
        (Number::F16, 16) => names!("f16", "16x16", "32"),
        (Number::F16, _) => names!("f16", "8x8", "16"),
        (_, 16) => names!("f32", "16x16", "32"),
        _ => names!("f32", "8x8", "16"),
    }
}

pub(super) fn coop(out: Number, side: u32, b_along_k: bool) -> Variant {
    let overrides = vec![("SIDE", side.into()), ("B_ALONG_K", f64::from(u8::from(b_along_k)))];
    Variant { source: KernelSource { aliases: coop_aliases(out, side), ..COOP }, overrides }
}

/// Fragments of 16 from cells of 16 bytes; `whole` when sizes are whole tiles.
pub(super) fn coop_wide(out: Number, whole: bool, b_along_k: bool) -> Variant {
    let aliases: Names = if out == Number::F16 { &[("OUT", "f16")] } else { &[("OUT", "f32")] };
    let flag = |on: bool| f64::from(u8::from(on));
    let overrides = vec![("EDGES", flag(!whole)), ("B_ALONG_K", flag(b_along_k))];
    Variant { source: KernelSource { aliases, ..COOP_WIDE }, overrides }
}

/// Every variation that a device may be given.
pub(super) fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    for a in NUMBERS {
        for b in NUMBERS {
            for out in NUMBERS {
                let of = [a, b, out];
                for side in [64, 128] {
                    for along in [[true, true], [true, false], [false, true], [false, false]] {
                        all.push(tiled(of, [side; 2], along));
                    }
                }
                for rows in COUNTS {
                    all.extend([false, true].map(|wide| matvec(of, rows as u32, 32, wide)));
                }
            }
        }
    }
    for threads in THREADS {
        for rows in 1..=MOST_ROWS as u32 {
            all.extend([true, false].map(|wide| matvec([Number::F32; 3], rows, threads, wide)));
        }
    }
    for out in [Number::F32, Number::F16] {
        for along in [true, false] {
            all.extend([16, 8].map(|side| coop(out, side, along)));
            all.extend([true, false].map(|whole| coop_wide(out, whole, along)));
        }
    }
    all
}
