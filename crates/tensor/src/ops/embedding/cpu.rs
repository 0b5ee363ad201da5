//! Embedding on the CPU: rows converted as they are copied.

use half::f16;
use tintype_gpu::kernel::{Unit, UnitError};

use super::{Params, QUANTIZED};
use crate::number::{Number, Numbers, NumbersMut};
use crate::simd::vectorize;

/// Bytes of a Q8_0 block: an f16 scale, then 32 signed bytes.
const BLOCK: usize = 34;

enum Table<'a> {
    Numbers(Numbers<'a>),
    Blocks(&'a [u8]),
}

pub(super) fn embedding(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let table = match p.codes & 3 {
        QUANTIZED => Table::Blocks(unit.read(0)?),
        code => Table::Numbers(Numbers::read(unit, 0, Number::from_code(code))?),
    };
    let ids: &[u32] = unit.read(1)?;
    let mut out = NumbersMut::write(unit, 2, Number::from_code(p.codes >> 2))?;
    let mut row = vec![0.0f32; p.n as usize];
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        let id = ids[p.ids.row(at, p.width)];
        let from = id as usize * p.stride_table as usize;
        match &table {
            _ if id >= p.vocabulary => row.fill(f32::NAN),
            Table::Numbers(table) => table.load(from, 1, &mut row),
            Table::Blocks(bytes) => {
                let blocks = bytes[from * 2..].chunks_exact(BLOCK);
                for (out, block) in row.chunks_mut(32).zip(blocks) {
                    let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
                    out.iter_mut().zip(&block[2..]).for_each(|(x, q)| *x = d * f32::from(*q as i8));
                }
            }
        }
        if p.scale != 1.0 {
            vectorize(|| row.iter_mut().for_each(|x| *x *= p.scale));
        }
        out.store(p.out.row(at, p.width) - p.out.row(first, p.width), p.out.inner as usize, &row);
    }
    Ok(())
}
