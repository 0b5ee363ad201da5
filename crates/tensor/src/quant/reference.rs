//! Blocks decoded in double precision: the oracle. It must not share code with the kernels.

use half::f16;
use tintype_gpu::DType;

/// The values of whole blocks, or `None` for a type that is not decoded or a partial block.
pub fn decode(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    let size = dtype.block_bytes() as usize;
    if !bytes.len().is_multiple_of(size) {
        return None;
    }
    let blocks = bytes.chunks_exact(size);
    Some(match dtype {
        DType::Q8_0 => blocks.flat_map(q8_0).collect(),
        DType::Q6K => blocks.flat_map(q6_k).collect(),
        _ => return None,
    })
}

fn scale(bytes: &[u8], at: usize) -> f64 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64()
}

/// An f16 scale, then 32 signed bytes.
fn q8_0(block: &[u8]) -> Vec<f64> {
    let d = scale(block, 0);
    block[2..].iter().map(|&q| d * f64::from(q as i8)).collect()
}

/// 128 bytes of low halves, 64 bytes of high pairs, 16 signed scales of 16 values each, an f16
/// scale over all. Value `128·h + 32·g + l` has its low 4 bits in byte `64·h + 32·(g mod 2) + l`
/// (upper half for g ≥ 2), its high 2 bits in byte `32·h + l` of the pairs at bit 2g.
fn q6_k(block: &[u8]) -> Vec<f64> {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = scale(block, 208);
    let value = |at: usize| {
        let (h, g, l) = (at / 128, at / 32 % 4, at % 32);
        let low = low[64 * h + 32 * (g % 2) + l] >> (4 * (g / 2)) & 15;
        let high = high[32 * h + l] >> (2 * g) & 3;
        let q = f64::from(low | high << 4) - 32.0;
        d * f64::from(scales[at / 16] as i8) * q
    };
    (0..256).map(value).collect()
}
