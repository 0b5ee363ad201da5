//! Embedding: rows of a table by id, dense or of Q8_0 blocks, times a factor. An id outside the table
//! gives a row of NaN, so that the mistake shows.

mod cases;
mod cpu;
mod node;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Dispatch, Session};

pub use node::EmbeddingOp;

use super::Operation;
use super::case::Variant;
use super::rows::{Place, spaces, unit_rows};
use super::walked::{Start, groups};
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::layout::span_limit;
use crate::number::{NUMBERS, Number, input_and_out};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "embedding",
    summary: "rows of a dense or Q8_0 table by id, times a factor",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Immediates (WGSL: `embedding.wgsl`).
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    width: u32,
    rows: u32,
    n: u32,
    /// For the CPU kernel: types of the table and out in 2 bits each, 3 for Q8_0.
    codes: u32,
    /// For the CPU kernel: rows of a unit.
    unit_rows: u32,
    vocabulary: u32,
    start_table: u32,
    stride_table: u32,
    scale: f32,
    ids: Place,
    out: Place,
}

/// The table's type code where it is quantized.
const QUANTIZED: u32 = 3;

const EMBEDDING: KernelSource = KernelSource {
    name: "embedding",
    wgsl: concat!(
        include_str!("../prelude/numbers.wgsl"),
        include_str!("../prelude/rows.wgsl"),
        include_str!("embedding.wgsl")
    ),
    entry: "main",
    aliases: &[],
    cpu: cpu::embedding,
};

static TYPES: [[(&str, &str); 3]; 9] = input_and_out("T");

/// Words, then halves, by the output's type.
static QUANTIZED_TYPES: [[[(&str, &str); 3]; 3]; 2] = {
    let mut table = [[TYPES[0], TYPES[1], TYPES[2]]; 2];
    let mut at = 0;
    while at < 3 {
        table[0][at][0].1 = "u32";
        table[1][at][0].1 = "u16";
        at += 1;
    }
    table
};

/// What the table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Numbers(Number),
    /// Q8_0, read by words, or by halves where the span does not end on a word.
    Blocks {
        halves: bool,
    },
}

fn variant(table: Table, out: Number) -> Variant {
    let flag = |on: bool| f64::from(u8::from(on));
    let (aliases, number, halves) = match table {
        Table::Numbers(number) => (&TYPES[number as usize * 3 + out as usize], number, None),
        Table::Blocks { halves } => {
            (&QUANTIZED_TYPES[usize::from(halves)][out as usize], Number::F32, Some(halves))
        }
    };
    let overrides = vec![
        ("T_BF16", number.is_bf16()),
        ("OUT_BF16", out.is_bf16()),
        ("Q8_0", flag(halves.is_some())),
        ("HALVES", flag(halves == Some(true))),
    ];
    Variant { source: KernelSource { aliases, ..EMBEDDING }, overrides }
}

fn kernels() -> Vec<Variant> {
    let mut all = Vec::new();
    for out in NUMBERS {
        all.extend(NUMBERS.map(|table| variant(Table::Numbers(table), out)));
        all.extend([false, true].map(|halves| variant(Table::Blocks { halves }, out)));
    }
    all
}

/// `out[.., :] = table[ids[..], :]·scale`: table `[vocabulary, n]` with dense rows, ids I32 or U32, out
/// with the shape of `ids` and n.
pub fn embedding(
    session: &mut Session<'_>,
    scale: f32,
    table: &Tensor,
    ids: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let op = "embedding";
    let operands = [table, ids, out];
    let quantized = table.dtype() == DType::Q8_0;
    let number = match quantized {
        true => Some(Number::F32),
        false => Number::of(table.dtype()),
    };
    let (Some(number), Some(tout)) = (number, Number::of(out.dtype())) else {
        let reason = "the table is F32, F16, BF16 or Q8_0, the output F32, F16 or BF16";
        return Err(dtype(op, &operands, reason));
    };
    if !matches!(ids.dtype(), DType::I32 | DType::U32) {
        return Err(dtype(op, &operands, "ids are I32 or U32"));
    }
    let refuse = |reason: &str| Err(shape(op, &operands, reason));
    let &[vocabulary, n] = table.shape() else { return refuse("the table is a matrix") };
    if out.shape() != [ids.shape(), &[n]].concat() || !scale.is_finite() {
        return refuse("the output has the shape of the ids and the length of the table's rows");
    }
    if n > 1 && table.strides()[1] != 1 || vocabulary == 0 {
        return refuse("the table has rows, and they are dense");
    }
    if table.span_bytes() > span_limit(session.device()) {
        return refuse("the table is larger than a binding");
    }
    let ids = ids.insert_axis(ids.rank())?;
    for space in spaces(session.device(), op, [&ids, out], &[1])? {
        let [ids, out] = &space.operands;
        let (from, from_ids, to) = (table.read()?, ids.read()?, out.write()?);
        let size = if quantized { 2 } else { table.dtype().block_bytes() };
        let start_table = from.start_in(size);
        let (form, code, stride) = match quantized {
            true => {
                let halves = !(u64::from(start_table) * 2 + from.len()).is_multiple_of(4);
                (Table::Blocks { halves }, QUANTIZED, table.strides()[0] / 32 * 17)
            }
            false => (Table::Numbers(number), number as u32, table.strides()[0]),
        };
        let unit_rows = unit_rows(n);
        let params = Params {
            width: space.outer[1],
            rows: space.rows(),
            n: n as u32,
            codes: code | (tout as u32) << 2,
            unit_rows,
            vocabulary: vocabulary as u32,
            start_table,
            stride_table: stride as u32,
            scale,
            ids: space.place(0, from_ids.start_in(4)),
            out: space.place(1, to.start_in(out.dtype().block_bytes())),
        };
        let kernel = variant(form, tout).compile(session)?;
        let dispatch = Dispatch::new(&kernel)
            .label(op)
            .bind(from)
            .bind(from_ids)
            .bind(to)
            .immediates(&params)
            .groups(groups(session, space.rows().into()))
            .cpu(space.rows().div_ceil(unit_rows), [space.split(1, unit_rows)]);
        session.dispatch(dispatch)?;
    }
    Ok(())
}
