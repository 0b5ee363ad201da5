//! Choosing on the CPU: weights once, then as little sorting as the settings ask for.

use tintype_gpu::kernel::{Unit, UnitError};

use super::Params;
use crate::number::{Number, Numbers};
use crate::ops::keys::{place, placed};
use crate::simd::fold::{exp_sum, max};
use crate::simd::vectorize;

pub(super) fn sample(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let p: Params = unit.immediates()?;
    let x = Numbers::read(unit, 0, Number::from_code(p.codes))?;
    let (settings, uniform): (&[f32], &[f32]) = (unit.read(1)?, unit.read(2)?);
    let out: &mut [i32] = unit.write(3)?;
    let mut row = vec![0.0f32; p.n as usize];
    let first = unit.index() * p.unit_rows;
    for at in first..(first + p.unit_rows).min(p.rows) {
        x.load(p.x.row(at, p.width), p.x.inner as usize, &mut row);
        let begin = p.settings.row(at, p.width);
        let settings = [0, 1, 2, 3].map(|i| settings[begin + i * p.settings.inner as usize]);
        let chosen = choose(&mut row, settings, uniform[p.uniform.row(at, p.width)]);
        let to = p.out.row(at, p.width) - p.out.row(first, p.width);
        out[to] = chosen.map_or(-1, |place| place as i32);
    }
    Ok(())
}

/// A place of the row, which is used up.
fn choose(row: &mut [f32], settings: [f32; 4], uniform: f32) -> Option<usize> {
    let [temperature, top_k, top_p, min_p] = settings;
    for v in row.iter_mut().filter(|v| v.is_nan()) {
        *v = f32::NEG_INFINITY;
    }
    let largest = max(row);
    let greedy = row.iter().position(|v| *v == largest)?;
    if temperature.is_nan() || temperature <= 0.0 || !largest.is_finite() {
        return (largest > f32::NEG_INFINITY).then_some(greedy);
    }
    let mut kept: Option<Vec<u64>> = None;
    if top_k >= 1.0 && (top_k as usize) < row.len() {
        let mut keys: Vec<u64> =
            row.iter().zip(0..).map(|(&v, place)| placed(v, false, place)).collect();
        keys.select_nth_unstable(top_k as usize);
        keys.truncate(top_k as usize);
        kept = Some(keys);
    }
    let inverse = 1.0 / temperature;
    vectorize(|| row.iter_mut().for_each(|v| *v = (*v - largest) * inverse));
    let all = exp_sum(row, 0.0);
    if top_p < 1.0 {
        let total = match &kept {
            Some(keys) => keys.iter().map(|&key| f64::from(row[place(key)])).sum::<f64>(),
            None => f64::from(all),
        };
        // Those below this share of what is left out are left out, all of them together being less.
        let count = kept.as_ref().map_or(row.len(), Vec::len);
        let floor = ((1.0 - f64::from(top_p)) * total / count as f64 * 0.99) as f32;
        let mut keys: Vec<u64> = match kept {
            Some(keys) => keys,
            None => (0..).take(row.len()).collect(),
        };
        keys.retain(|&key| row[place(key)] >= floor);
        keys.iter_mut().for_each(|key| *key = placed(row[place(*key)], false, *key & 0xffff_ffff));
        keys.sort_unstable();
        let (mut sum, mut count) = (0.0, 0);
        for &key in &keys {
            count += 1;
            sum += f64::from(row[place(key)]);
            if sum >= f64::from(top_p) * total {
                break;
            }
        }
        keys.truncate(count);
        kept = Some(keys);
    }
    let weight = |place: usize| if row[place] >= min_p { f64::from(row[place]) } else { 0.0 };
    let places: Vec<usize> = match kept {
        Some(keys) => {
            let mut places: Vec<usize> = keys.into_iter().map(place).collect();
            places.sort_unstable();
            places
        }
        None => (0..row.len()).collect(),
    };
    let total: f64 = places.iter().map(|&place| weight(place)).sum();
    let target = f64::from(uniform) * total;
    let (mut sum, mut last) = (0.0, greedy);
    for place in places {
        let own = weight(place);
        if own > 0.0 {
            sum += own;
            last = place;
            if sum > target {
                break;
            }
        }
    }
    Some(last)
}
