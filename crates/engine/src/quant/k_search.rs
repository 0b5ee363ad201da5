//! The search for super-blocks of 256 with quantized scales: levels and scales of small squared error.
//! It must not know how a type packs them. The search is ours: scales of least squared error a
//! sub-block, then their quantized neighbours tried exactly, then the super-scales solved again for
//! the levels found.

use half::f16;

pub(super) const VALUES: usize = 256;
const ROUNDS: usize = 3;

fn half(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
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
pub(super) struct Signed {
    pub(super) scale: f32,
    pub(super) factors: [i32; 16],
    pub(super) levels: [i32; VALUES],
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

pub(super) fn signed(values: &[f32], levels: (f32, f32), factors: (i32, i32)) -> Signed {
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

/// How the levels of a sub-block are searched for.
#[derive(Clone, Copy)]
enum Search {
    /// Solved once for levels that span the whole range: no scale is larger than the range asks for.
    Spanning,
    /// Solved and chosen anew for as long as that helps, from several places within a level. Better
    /// for the sub-block, since one large value leaves two or three levels to all others; but the
    /// scale may grow, and with it the step of every scale in the super-block.
    Free,
}

/// Scale and minimum (≥ 0) of least squared error for `scale·q − minimum`, q in `0..=top`.
fn ranged_scale(values: &[f32], top: f32, search: Search) -> (f32, f32) {
    let low = values.iter().copied().fold(0.0, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if high <= low {
        return (0.0, -low);
    }
    let (steps, phases, rounds): (i32, &[f32], usize) = match search {
        Search::Spanning => (12, &[0.0], 1),
        Search::Free => (4, &[-0.33, 0.0, 0.33], 2),
    };
    let (mut best, mut found) = (f32::INFINITY, (0.0, -low));
    let mut levels = [0; 32];
    for step in 0..=steps {
        let inverse = (top - 1.2 + 2.4 / steps as f32 * step as f32) / (high - low);
        for phase in phases {
            for (x, level) in values.iter().zip(&mut levels) {
                *level = ((x - low) * inverse + phase).round_ties_even().clamp(0.0, top) as i32;
            }
            let mut last = f32::INFINITY;
            for _ in 0..rounds {
                let Some((scale, minimum)) = solved(values, &levels[..values.len()]) else { break };
                let error = ranged_levels(values, scale, minimum, top, &mut levels);
                if error < best {
                    best = error;
                    found = (scale, minimum);
                }
                if error >= last {
                    break;
                }
                last = error;
            }
        }
    }
    found
}

/// Scale and minimum of least squared error for these levels, if any are above 0.
fn solved(values: &[f32], levels: &[i32]) -> Option<(f32, f32)> {
    let (mut total, mut sum, mut square, mut product) = (0.0, 0.0, 0.0, 0.0);
    for (x, level) in values.iter().zip(levels) {
        let q = *level as f32;
        total += x;
        sum += q;
        square += q * q;
        product += x * q;
    }
    if square == 0.0 {
        return None;
    }
    let count = values.len() as f32;
    let determinant = count * square - sum * sum;
    let mut scale = (count * product - sum * total) / determinant;
    let mut minimum = (sum * product - square * total) / determinant;
    // One level for all leaves nothing to solve for but its scale.
    if determinant <= 0.0 || minimum < 0.0 {
        minimum = 0.0;
        scale = product / square;
    }
    (scale > 0.0).then_some((scale, minimum))
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
pub(super) struct Ranged {
    pub(super) scale: f32,
    pub(super) minimum: f32,
    pub(super) factors: [(i32, i32); 16],
    pub(super) levels: [i32; VALUES],
    error: f32,
}

/// What distinguishes the ranged types.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Values in a sub-block.
    pub(super) width: usize,
    /// Largest level.
    pub(super) top: f32,
    /// Largest quantized scale and minimum.
    pub(super) most: i32,
    /// How many neighbours of a quantized scale are tried each way.
    pub(super) radius: i32,
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

pub(super) fn ranged(values: &[f32], k: Kind) -> Ranged {
    let spanning = ranged_by(values, k, Search::Spanning);
    let free = ranged_by(values, k, Search::Free);
    if free.error < spanning.error { free } else { spanning }
}

fn ranged_by(values: &[f32], k: Kind, search: Search) -> Ranged {
    let parts = values.chunks_exact(k.width);
    let wanted: Vec<(f32, f32)> = parts.map(|part| ranged_scale(part, k.top, search)).collect();
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
