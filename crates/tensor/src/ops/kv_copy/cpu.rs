//! The cache on the CPU: a unit owns the rows of some heads, or of a whole sequence, and writes those
//! that positions name.

use half::f16;
use tintype_gpu::kernel::{Unit, UnitError};

use super::{OWN_HEADS, Params};
use crate::number::{Number, Numbers, NumbersMut};
use crate::simd::vectorize;

/// Bytes and elements of a Q8_0 block.
const BLOCK: [usize; 2] = [34, 32];

pub(super) fn numbers(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let mut cache = NumbersMut::write(unit, 2, Number::from_code(p.codes >> 2 & 3))?;
    rows(unit, &p, |at, row| cache.store(at, 1, row))
}

pub(super) fn q8_0(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let cache: &mut [u8] = unit.write(2)?;
    rows(unit, &p, |at, row| {
        let blocks = cache[at / BLOCK[1] * BLOCK[0]..].chunks_exact_mut(BLOCK[0]);
        for (values, block) in row.chunks_exact(BLOCK[1]).zip(blocks) {
            quantize(values, block);
        }
    })
}

/// Calls `store` with each row and where it begins in the unit's part of the cache.
fn rows(
    unit: &Unit<'_>,
    p: &Params,
    mut store: impl FnMut(usize, &[f32]),
) -> Result<(), UnitError> {
    let from = Numbers::read(unit, 0, Number::from_code(p.codes & 3))?;
    let positions: &[i32] = unit.read(1)?;
    let index = unit.index();
    let (batch, heads) = match p.codes & OWN_HEADS {
        0 => (index, 0..p.heads),
        _ => (index / p.heads, index % p.heads..index % p.heads + 1),
    };
    let mut row = vec![0.0f32; p.n as usize];
    let line = (batch * p.batched * p.tokens) as usize;
    for token in 0..p.tokens {
        let Ok(position) = u32::try_from(positions[line + token as usize]) else { continue };
        for head in heads.clone() {
            let place = |[b, h, t]: [u32; 3], b_at: u32, h_at: u32, t_at: u32| {
                b_at as usize * b as usize + h_at as usize * h as usize + t_at as usize * t as usize
            };
            from.load(place(p.rows, batch, head, token), 1, &mut row);
            store(place(p.cache, 0, head - heads.start, position % p.capacity), &row);
        }
    }
    Ok(())
}

/// 32 values as an f16 scale and signed bytes.
fn quantize(values: &[f32], block: &mut [u8]) {
    let largest = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    let (scale, bytes) = block.split_at_mut(2);
    scale.copy_from_slice(&f16::from_f32(largest / 127.0).to_le_bytes());
    vectorize(
        #[inline(always)]
        || {
            for (byte, x) in bytes.iter_mut().zip(values) {
                *byte = (x * inverse).round_ties_even() as i8 as u8;
            }
        },
    );
}
