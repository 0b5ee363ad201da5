//! Rows of odd sizes, in every type, with equals, NaN and infinities, under each setting and all of
//! them; views. A choice is right or wrong: settings and uniform numbers stand in the middle between
//! those where it changes, so that rounding cannot change it. That is why logits are not drawn by the
//! runner but here, from a row's own seed.

use tintype_gpu::DType;

use super::{reference, sample};
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, ODD_SIZES, Operand, Values};

/// SplitMix64 (Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.next() * n as f64) as usize).min(n - 1)
    }
}

/// Which settings are on.
#[derive(Debug, Clone, Copy, Default)]
struct On {
    greedy: bool,
    top_k: bool,
    top_p: bool,
    min_p: bool,
}

/// How many of the descending `weights` are far more than what rounding makes of their sum.
fn likely(weights: &[f64]) -> usize {
    let sum: f64 = weights.iter().sum();
    weights.iter().take_while(|weight| **weight > 1e-4 * sum).count().clamp(1, 40)
}

/// Settings and a uniform number for a row, away from where the choice changes.
fn draw(row: &[f64], on: On, random: &mut Random) -> ([f32; 4], f32) {
    if on.greedy {
        return ([0.0, 5.0, 0.5, 0.1], random.next() as f32);
    }
    let temperature = [0.5f32, 0.75, 1.0, 1.5][random.below(4)];
    let mut settings = [temperature, 0.0, 1.0, 0.0];
    let weights = |settings: [f32; 4]| {
        let mut all = reference::kept(row, settings.map(f64::from), 1.0 / f64::from(temperature));
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.into_iter().map(|(_, weight)| weight).collect::<Vec<_>>()
    };
    if on.top_k {
        settings[1] = (1 + random.below(row.len().min(90))) as f32;
    }
    if on.top_p {
        let all = weights(settings);
        let last = random.below(likely(&all));
        let before: f64 = all[..last].iter().sum();
        settings[2] = ((before + all[last] / 2.0) / all.iter().sum::<f64>()) as f32;
    }
    if on.min_p {
        let all = weights(settings);
        let last = random.below(likely(&all));
        let below = all[last..].iter().find(|weight| **weight < all[last]).copied();
        settings[3] = ((all[last] + below.unwrap_or(0.0)) / 2.0) as f32;
    }
    let kept = reference::kept(row, settings.map(f64::from), 1.0 / f64::from(temperature));
    let total: f64 = kept.iter().map(|(_, weight)| weight).sum();
    let mut order: Vec<usize> = (0..kept.len()).collect();
    order.sort_by(|&a, &b| kept[b].1.total_cmp(&kept[a].1));
    let sorted: Vec<f64> = order.iter().map(|&at| kept[at].1).collect();
    let chosen = order[random.below(likely(&sorted))];
    let before: f64 = kept[..chosen].iter().map(|(_, weight)| weight).sum();
    (settings, ((before + kept[chosen].1 / 2.0) / total) as f32)
}

fn of(dtype: DType, lead: &[usize], n: usize, on: On, seed: u64, layout: Layout) -> Case {
    let mut random = Random(seed);
    let rows: usize = lead.iter().product();
    // Eighths, which every type holds, with equals among them.
    let mut logits: Vec<f32> =
        (0..rows * n).map(|_| (random.next() * 128.0 - 64.0).round() as f32 / 8.0).collect();
    if n > 30 {
        logits[n / 2] = f32::NAN;
        logits[n / 3] = f32::NEG_INFINITY;
    }
    let (mut settings, mut uniform) = (Vec::new(), Vec::new());
    for row in logits.chunks_exact(n) {
        let row: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
        let (own, at) = draw(&row, on, &mut random);
        settings.extend(own);
        uniform.push(at);
    }
    let x = Operand::new(dtype, &[lead, &[n]].concat()).holding(logits).laid(layout);
    let settings = Operand::new(DType::F32, &[lead, &[4]].concat()).holding(settings);
    let uniform = Operand::new(DType::F32, lead).holding(uniform);
    Case::new(
        format!("sample {on:?}"),
        vec![x, settings, uniform],
        Operand::new(DType::I32, lead),
        |session, inputs, out| sample(session, &inputs[0], &inputs[1], &inputs[2], out),
        |inputs: &[Values]| {
            let n = inputs[0].shape[inputs[0].shape.len() - 1];
            let rows = inputs[0].data.chunks_exact(n).zip(inputs[1].data.chunks_exact(4));
            rows.zip(&inputs[2].data)
                .map(|((row, settings), uniform)| {
                    let settings = [0, 1, 2, 3].map(|i| settings[i]);
                    reference::choose(row, settings, *uniform)
                })
                .collect()
        },
    )
    .exact()
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let on = |greedy, top_k, top_p, min_p| On { greedy, top_k, top_p, min_p };
    let settings = [
        on(true, false, false, false),
        on(false, false, false, false),
        on(false, true, false, false),
        on(false, false, true, false),
        on(false, false, false, true),
        on(false, true, true, true),
    ];
    let mut seed = 0;
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for n in ODD_SIZES {
            for on in settings {
                seed += 1;
                all.push(of(dtype, &[5], n, on, seed, Layout::Dense));
            }
        }
        for layout in LAYOUTS {
            seed += 1;
            all.push(of(dtype, &[2, 3], 67, settings[5], seed, layout));
        }
    }
    for on in settings {
        seed += 1;
        all.push(of(DType::F32, &[1], 262_144, on, seed, Layout::Dense));
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let usual = On { greedy: false, top_k: true, top_p: true, min_p: false };
    let wide = On { top_k: false, ..usual };
    vec![
        of(DType::F32, &[1], 262_144, usual, 1, Layout::Dense),
        of(DType::F32, &[1], 262_144, wide, 2, Layout::Dense),
    ]
}
