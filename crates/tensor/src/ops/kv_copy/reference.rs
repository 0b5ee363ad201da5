//! What the cache holds afterwards, row by row, in double precision.

use half::f16;
use tintype_gpu::DType;

use crate::ops::case::Values;

/// Rows `[batch, heads, tokens, n]`, positions `[batch, tokens]` or `[tokens]`, cache `[batch, heads,
/// capacity, n]`.
pub(super) fn kv_copy(dtype: DType, rows: &Values, positions: &Values, cache: &Values) -> Vec<f64> {
    let &[batch, heads, tokens, n] = &rows.shape[..] else { return Vec::new() };
    let capacity = cache.shape[2];
    let mut out = cache.data.clone();
    for b in 0..batch {
        for token in 0..tokens {
            let position = positions.broadcast(&[batch, tokens], b * tokens + token);
            if position < 0.0 {
                continue;
            }
            for head in 0..heads {
                let from = &rows.data[((b * heads + head) * tokens + token) * n..][..n];
                let row = position as usize % capacity;
                let to = &mut out[((b * heads + head) * capacity + row) * n..][..n];
                match dtype {
                    DType::Q8_0 => to.copy_from_slice(&quantized(from)),
                    _ => to.copy_from_slice(from),
                }
            }
        }
    }
    out
}

/// Blocks of 32: the scale a 127th of the largest magnitude, rounded to f16 after its last use.
fn quantized(row: &[f64]) -> Vec<f64> {
    let block = |block: &[f64]| {
        let largest = block.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let scale = largest / 127.0;
        let stored = f16::from_f64(scale).to_f64();
        let step = move |x: &f64| if largest > 0.0 { (x / scale).round_ties_even() } else { 0.0 };
        block.iter().map(|x| stored * step(x)).collect::<Vec<_>>()
    };
    row.chunks(32).flat_map(block).collect()
}
