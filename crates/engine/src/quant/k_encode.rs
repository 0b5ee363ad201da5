//! Super-blocks of 256 with quantized scales: Q2_K to Q6_K, from single precision.
//! It must not know files. Layouts: ggml-common.h. The search is ours: scales of least squared
//! error a sub-block, then their quantized neighbours tried exactly, then the super-scales solved
//! again for the levels found.

use half::f16;

const VALUES: usize = 256;
const ROUNDS: usize = 3;

fn half(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}

fn put_half(out: &mut [u8], value: f32) {
    out.copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

fn extreme(values: impl IntoIterator<Item = f32>) -> f32 {
    values.into_iter().fold(0.0, |best: f32, v| if v.abs() > best.abs() { v } else { best })
}

/// The scale of least squared error for levels `low..=high` about zero.
fn signed_scale(values: &[f32], low: f32, high: f32) -> f32 {
    let top = extreme(values.iter().copied());
    if top == 0.0 {
        return 0.0;
    }
    let (mut best, mut scale) = (0.0, 0.0);
    for end in [low, high] {
        for step in -9..=9 {
            let inverse = (end + 0.1 * step as f32) / top;
            let (mut product, mut square) = (0.0, 0.0);
            for x in values {
                let q = (x * inverse).round_ties_even().clamp(low, high);
                product += x * q;
                square += q * q;
            }
            // Least squares for fixed levels takes product²/square off the error.
            if square > 0.0 && product * product > best * square {
                best = product * product / square;
                scale = product / square;
            }
        }
    }
    scale
}

/// A super-block whose sub-blocks have one signed scale each: Q3_K and Q6_K.
struct Signed {
    scale: f32,
    factors: [i32; 16],
    levels: [i32; VALUES],
    error: f32,
}

/// Levels and squared error of one sub-block under a scale.
fn signed_levels(values: &[f32], scale: f32, low: f32, high: f32, levels: &mut [i32]) -> f32 {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let mut error = 0.0;
    for (x, level) in values.iter().zip(levels) {
        let q = (x * inverse).round_ties_even().clamp(low, high);
        error += (x - scale * q).powi(2);
        *level = q as i32;
    }
    error
}

fn signed_with(
    values: &[f32],
    scale: f32,
    wanted: &[f32; 16],
    (low, high): (f32, f32),
    (least, most): (i32, i32),
) -> Signed {
    let mut found = Signed { scale, factors: [0; 16], levels: [0; VALUES], error: 0.0 };
    for (sub, part) in values.chunks_exact(16).enumerate() {
        let centre = if scale == 0.0 { 0.0 } else { (wanted[sub] / scale).round() };
        let centre = (centre as i32).clamp(least, most);
        let mut best = f32::INFINITY;
        for factor in (centre - 1).max(least)..=(centre + 1).min(most) {
            let mut levels = [0; 16];
            let error = signed_levels(part, scale * factor as f32, low, high, &mut levels);
            if error < best {
                best = error;
                found.factors[sub] = factor;
                found.levels[sub * 16..][..16].copy_from_slice(&levels);
            }
        }
        found.error += best;
    }
    found
}

fn signed(values: &[f32], levels: (f32, f32), factors: (i32, i32)) -> Signed {
    let wanted: [f32; 16] =
        std::array::from_fn(|sub| signed_scale(&values[sub * 16..][..16], levels.0, levels.1));
    let top = extreme(wanted);
    let attempt = |scale: f32| signed_with(values, half(scale), &wanted, levels, factors);
    let mut best = attempt(top / factors.0 as f32);
    let other = attempt(top / factors.1 as f32);
    if other.error < best.error {
        best = other;
    }
    for _ in 0..ROUNDS {
        let (mut product, mut square) = (0.0, 0.0);
        for (at, x) in values.iter().enumerate() {
            let unit = (best.factors[at / 16] * best.levels[at]) as f32;
            product += x * unit;
            square += unit * unit;
        }
        if square == 0.0 {
            break;
        }
        let next = attempt(product / square);
        if next.error >= best.error {
            break;
        }
        best = next;
    }
    best
}

/// Scale and minimum (≥ 0) of least squared error for `scale·q − minimum`, q in `0..=top`.
fn ranged_scale(values: &[f32], top: f32) -> (f32, f32) {
    let low = values.iter().copied().fold(0.0, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if high <= low {
        return (0.0, -low);
    }
    let count = values.len() as f32;
    let total: f32 = values.iter().sum();
    let (mut best, mut found) = (f32::INFINITY, (0.0, -low));
    for step in 0..=24 {
        let inverse = (top - 1.2 + 0.1 * step as f32) / (high - low);
        let (mut sum, mut square, mut product) = (0.0, 0.0, 0.0);
        for x in values {
            let q = ((x - low) * inverse).round_ties_even().clamp(0.0, top);
            sum += q;
            square += q * q;
            product += x * q;
        }
        if square == 0.0 {
            continue;
        }
        let determinant = count * square - sum * sum;
        let mut scale = (count * product - sum * total) / determinant;
        let mut minimum = (sum * product - square * total) / determinant;
        // One level for all leaves nothing to solve for but its scale.
        if determinant <= 0.0 || minimum < 0.0 {
            minimum = 0.0;
            scale = product / square;
        }
        if scale <= 0.0 {
            continue;
        }
        let error = ranged_levels(values, scale, minimum, top, &mut [0; 32]);
        if error < best {
            best = error;
            found = (scale, minimum);
        }
    }
    found
}

/// Levels and squared error of one sub-block under a scale and a minimum.
fn ranged_levels(values: &[f32], scale: f32, minimum: f32, top: f32, levels: &mut [i32]) -> f32 {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let mut error = 0.0;
    for (x, level) in values.iter().zip(levels) {
        let q = ((x + minimum) * inverse).round_ties_even().clamp(0.0, top);
        error += (x - (scale * q - minimum)).powi(2);
        *level = q as i32;
    }
    error
}

/// A super-block whose sub-blocks have a scale and a minimum each: Q2_K, Q4_K and Q5_K.
struct Ranged {
    scale: f32,
    minimum: f32,
    factors: [(i32, i32); 16],
    levels: [i32; VALUES],
    error: f32,
}

/// What distinguishes the ranged types.
#[derive(Clone, Copy)]
struct Kind {
    /// Values in a sub-block.
    width: usize,
    /// Largest level.
    top: f32,
    /// Largest quantized scale and minimum.
    most: i32,
    /// How many neighbours of a quantized scale are tried each way.
    radius: i32,
}

fn ranged_with(values: &[f32], scale: f32, minimum: f32, wanted: &[(f32, f32)], k: Kind) -> Ranged {
    let (scale, minimum) = (half(scale), half(minimum));
    let mut found =
        Ranged { scale, minimum, factors: [(0, 0); 16], levels: [0; VALUES], error: 0.0 };
    let centre = |wanted: f32, unit: f32| {
        if unit == 0.0 { 0 } else { ((wanted / unit).round() as i32).clamp(0, k.most) }
    };
    let around = |c: i32| (c - k.radius).max(0)..=(c + k.radius).min(k.most);
    for (sub, part) in values.chunks_exact(k.width).enumerate() {
        let mut best = f32::INFINITY;
        for d in around(centre(wanted[sub].0, scale)) {
            for m in around(centre(wanted[sub].1, minimum)) {
                let mut levels = [0; 32];
                let (d_value, m_value) = (scale * d as f32, minimum * m as f32);
                let error = ranged_levels(part, d_value, m_value, k.top, &mut levels);
                if error < best {
                    best = error;
                    found.factors[sub] = (d, m);
                    found.levels[sub * k.width..][..k.width].copy_from_slice(&levels[..k.width]);
                }
            }
        }
        found.error += best;
    }
    found
}

fn ranged(values: &[f32], k: Kind) -> Ranged {
    let wanted: Vec<(f32, f32)> =
        values.chunks_exact(k.width).map(|part| ranged_scale(part, k.top)).collect();
    let most = k.most as f32;
    let scale = wanted.iter().map(|w| w.0).fold(0.0, f32::max) / most;
    let minimum = wanted.iter().map(|w| w.1).fold(0.0, f32::max) / most;
    let mut best = ranged_with(values, scale, minimum, &wanted, k);
    for _ in 0..ROUNDS {
        // Both super-scales at once, for the factors and levels found: two normal equations.
        let (mut aa, mut ab, mut bb, mut ax, mut bx) = (0f64, 0f64, 0f64, 0f64, 0f64);
        for (at, x) in values.iter().enumerate() {
            let (d, m) = best.factors[at / k.width];
            let (a, b, x) = (f64::from(d * best.levels[at]), -f64::from(m), f64::from(*x));
            aa += a * a;
            ab += a * b;
            bb += b * b;
            ax += a * x;
            bx += b * x;
        }
        let determinant = aa * bb - ab * ab;
        let (scale, minimum) = if determinant > 0.0 {
            ((ax * bb - bx * ab) / determinant, (bx * aa - ax * ab) / determinant)
        } else if aa > 0.0 {
            (ax / aa, 0.0)
        } else {
            break;
        };
        if scale <= 0.0 || minimum < 0.0 {
            break;
        }
        let next = ranged_with(values, scale as f32, minimum as f32, &wanted, k);
        if next.error >= best.error {
            break;
        }
        best = next;
    }
    best
}

pub(super) fn q2_k(values: &[f32], out: &mut [u8]) {
    let found = ranged(values, Kind { width: 16, top: 3.0, most: 15, radius: 2 });
    for (byte, (d, m)) in out[..16].iter_mut().zip(found.factors) {
        *byte = d as u8 | (m as u8) << 4;
    }
    put_pairs(&found.levels, &mut out[16..80]);
    put_half(&mut out[80..82], found.scale);
    put_half(&mut out[82..84], found.minimum);
}

/// Two low bits of each level, four rows of 32 to 32 bytes.
fn put_pairs(levels: &[i32; VALUES], out: &mut [u8]) {
    out.fill(0);
    for (at, level) in levels.iter().enumerate() {
        out[at / 128 * 32 + at % 32] |= ((level & 3) as u8) << (2 * (at / 32 % 4));
    }
}

pub(super) fn q3_k(values: &[f32], out: &mut [u8]) {
    let mut found = signed(values, (-4.0, 3.0), (-32, 31));
    out[..32].fill(0);
    for (at, level) in found.levels.iter_mut().enumerate() {
        *level += 4;
        out[at % 32] |= ((*level >> 2 & 1) as u8) << (at / 32);
    }
    put_pairs(&found.levels, &mut out[32..96]);
    out[96..108].fill(0);
    for (sub, factor) in found.factors.iter().enumerate() {
        let factor = (factor + 32) as u8;
        out[96 + sub % 8] |= (factor & 0xF) << (4 * (sub / 8));
        out[104 + sub % 4] |= (factor >> 4) << (2 * (sub / 4));
    }
    put_half(&mut out[108..110], found.scale);
}

/// Eight 6-bit scales and minimums in 12 bytes, as Q4_K and Q5_K hold them.
fn put_factors(factors: &[(i32, i32); 16], out: &mut [u8]) {
    out.fill(0);
    for (at, (d, m)) in factors.iter().take(8).enumerate() {
        let (d, m) = (*d as u8, *m as u8);
        if at < 4 {
            out[at] |= d;
            out[at + 4] |= m;
        } else {
            out[at + 4] = d & 0xF | m << 4;
            out[at - 4] |= d >> 4 << 6;
            out[at] |= m >> 4 << 6;
        }
    }
}

fn put_low_nibbles(levels: &[i32; VALUES], out: &mut [u8]) {
    for (at, byte) in out.iter_mut().enumerate() {
        let first = at / 32 * 64 + at % 32;
        *byte = (levels[first] & 0xF) as u8 | ((levels[first + 32] & 0xF) as u8) << 4;
    }
}

pub(super) fn q4_k(values: &[f32], out: &mut [u8]) {
    let found = ranged(values, Kind { width: 32, top: 15.0, most: 63, radius: 1 });
    put_half(&mut out[..2], found.scale);
    put_half(&mut out[2..4], found.minimum);
    put_factors(&found.factors, &mut out[4..16]);
    put_low_nibbles(&found.levels, &mut out[16..144]);
}

pub(super) fn q5_k(values: &[f32], out: &mut [u8]) {
    let found = ranged(values, Kind { width: 32, top: 31.0, most: 63, radius: 1 });
    put_half(&mut out[..2], found.scale);
    put_half(&mut out[2..4], found.minimum);
    put_factors(&found.factors, &mut out[4..16]);
    out[16..48].fill(0);
    for (at, level) in found.levels.iter().enumerate() {
        out[16 + at % 32] |= ((level >> 4) as u8) << (at / 32);
    }
    put_low_nibbles(&found.levels, &mut out[48..176]);
}

pub(super) fn q6_k(values: &[f32], out: &mut [u8]) {
    let found = signed(values, (-32.0, 31.0), (-128, 127));
    out[..208].fill(0);
    for (at, level) in found.levels.iter().enumerate() {
        let (part, row, column) = (at / 128, at / 32 % 4, at % 32);
        let q = (level + 32) as u8;
        out[part * 64 + row % 2 * 32 + column] |= (q & 0xF) << (4 * (row / 2));
        out[128 + part * 32 + column] |= (q >> 4) << (2 * row);
    }
    for (byte, factor) in out[192..208].iter_mut().zip(found.factors) {
        *byte = factor as i8 as u8;
    }
    put_half(&mut out[208..210], found.scale);
}
