//! From logits to a token, in the order that llama.cpp takes: penalties, top-k, top-p, min-p,
//! temperature, chance. It must not know texts.

use super::request::TextRequest;
use crate::tokenizer::Token;

/// The settings of a request, and where its chance stands.
pub(super) struct Chooser<'a> {
    request: &'a TextRequest,
    state: u64,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(request: &'a TextRequest) -> Self {
        Chooser { request, state: request.seed }
    }

    /// A token; `before` are those that came before, the last one last. `None` if logits are not finite.
    pub(super) fn choose(&mut self, logits: &mut [f32], before: &[Token]) -> Option<Token> {
        let request = self.request;
        self.penalize(logits, before);
        if request.temperature == 0.0 {
            return likeliest(logits);
        }
        if logits.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let mut left: Vec<(f32, Token)> = logits.iter().copied().zip(0..).collect();
        // Likelier first, then smaller numbers, so that the same logits always give one order.
        let order = |a: &(f32, Token), b: &(f32, Token)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if request.top_k > 0 && request.top_k < left.len() {
            left.select_nth_unstable_by(request.top_k - 1, order);
            left.truncate(request.top_k);
        }
        left.sort_unstable_by(order);
        let best = left.first()?.0;
        if request.top_p < 1.0 {
            let weights: Vec<f64> = left.iter().map(|(x, _)| f64::from(x - best).exp()).collect();
            let enough = f64::from(request.top_p) * weights.iter().sum::<f64>();
            let mut sum = 0.0;
            let reached = weights.iter().position(|weight| {
                sum += weight;
                sum >= enough
            });
            left.truncate(reached.map_or(left.len(), |at| at + 1));
        }
        if request.min_p > 0.0 {
            let least = best + request.min_p.ln();
            left.retain(|(x, _)| *x >= least);
        }
        let weight = |x: f32| f64::from((x - best) / request.temperature).exp();
        let mut rest = self.uniform() * left.iter().map(|(x, _)| weight(*x)).sum::<f64>();
        let chosen = left.iter().find(|(x, _)| {
            rest -= weight(*x);
            rest < 0.0
        });
        chosen.or(left.last()).map(|(_, token)| *token)
    }

    fn penalize(&self, logits: &mut [f32], before: &[Token]) {
        let penalty = self.request.repeat_penalty;
        if penalty == 1.0 {
            return;
        }
        let first = before.len().saturating_sub(self.request.repeat_last);
        let mut recent = before[first..].to_vec();
        recent.sort_unstable();
        recent.dedup();
        for token in recent {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }

    /// From 0 to below 1: SplitMix64 (Steele et al. 2014).
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The first of the greatest; `None` if one is not finite.
pub(super) fn likeliest(logits: &[f32]) -> Option<Token> {
    let mut best: Option<(f32, Token)> = None;
    for (&logit, token) in logits.iter().zip(0..) {
        if !logit.is_finite() {
            return None;
        }
        if best.is_none_or(|(most, _)| logit > most) {
            best = Some((logit, token));
        }
    }
    best.map(|(_, token)| token)
}

/// Logarithm of a token's probability.
pub(super) fn log_probability(logits: &[f32], token: Token) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from(x - most).exp()).sum();
    logits.get(token as usize).map_or(f64::NEG_INFINITY, |x| f64::from(x - most) - sum.ln())
}
