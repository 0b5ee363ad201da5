//! Attention in double precision, score by score.

use crate::ops::case::Values;

/// What the reference is told: as the operation is.
#[derive(Clone, Copy, Default)]
pub(super) struct Spec {
    pub(super) scale: f32,
    pub(super) softcap: f32,
    pub(super) causal: bool,
    pub(super) window: usize,
    pub(super) offset: usize,
    /// Whether operands are [batch, tokens, heads, numbers].
    pub(super) tokens_outside: bool,
}

pub(super) struct Operands<'a> {
    pub(super) q: &'a Values,
    pub(super) k: &'a Values,
    pub(super) v: &'a Values,
    pub(super) bias: Option<&'a Values>,
    pub(super) q_positions: Option<&'a Values>,
    pub(super) k_positions: Option<&'a Values>,
    pub(super) lengths: Option<&'a Values>,
}

impl Spec {
    fn sees(&self, query: f64, key: f64) -> bool {
        let back = query - key;
        let near = self.window == 0
            || back < self.window as f64 && (self.causal || -back < self.window as f64);
        key >= 0.0 && near && (back >= 0.0 || !self.causal)
    }

    /// Batches, heads, tokens, numbers.
    fn sizes(&self, values: &Values) -> [usize; 4] {
        let s = &values.shape;
        if self.tokens_outside { [s[0], s[2], s[1], s[3]] } else { [s[0], s[1], s[2], s[3]] }
    }

    fn row<'v>(&self, values: &'v Values, batch: usize, head: usize, token: usize) -> &'v [f64] {
        let [_, heads, tokens, d] = self.sizes(values);
        let row = match self.tokens_outside {
            true => (batch * tokens + token) * heads + head,
            false => (batch * heads + head) * tokens + token,
        };
        &values.data[row * d..][..d]
    }

    /// One query's output.
    pub(super) fn one(&self, of: &Operands<'_>, at: [usize; 3]) -> Vec<f64> {
        let [batch, head, token] = at;
        let [batches, heads, tokens, d] = self.sizes(of.q);
        let [_, kv_heads, keys, _] = self.sizes(of.k);
        let kv_head = head / (heads / kv_heads);
        let position = |values: Option<&Values>, at: usize, n: usize, or: usize| match values {
            Some(values) => values.broadcast(&[batches, n], batch * n + at),
            None => or as f64,
        };
        let length = of.lengths.map(|lengths| lengths.data[batch]);
        let first = length.map_or(self.offset as f64, |length| length - tokens as f64);
        let of_query = match of.q_positions {
            None => first + token as f64,
            given => position(given, token, tokens, 0),
        };
        let ring = length.map(|length| ring(length as usize, keys));
        let q = self.row(of.q, batch, head, token);
        let mut scores = Vec::new();
        for key in 0..keys {
            let of_key = match &ring {
                Some(ring) => ring[key],
                None => position(of.k_positions, key, keys, key),
            };
            if !self.sees(of_query, of_key) {
                continue;
            }
            let dot: f64 =
                q.iter().zip(self.row(of.k, batch, kv_head, key)).map(|(a, b)| a * b).sum();
            let mut score = dot * f64::from(self.scale);
            if self.softcap > 0.0 {
                let cap = f64::from(self.softcap);
                score = cap * (score / cap).tanh();
            }
            if let Some(bias) = of.bias {
                let index = ((batch * heads + head) * tokens + token) * keys + key;
                score += bias.broadcast(&[batches, heads, tokens, keys], index);
            }
            scores.push((key, score));
        }
        let largest = scores.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|(_, score)| (score - largest).exp()).sum();
        let mut out = vec![0.0; d];
        for (key, score) in scores {
            let weight = (score - largest).exp() / sum;
            let v = self.row(of.v, batch, kv_head, key);
            out.iter_mut().zip(v).for_each(|(out, v)| *out += weight * v);
        }
        out
    }

    /// All outputs, in the queries' order.
    pub(super) fn all(&self, of: &Operands<'_>) -> Vec<f64> {
        let [batches, heads, tokens, _] = self.sizes(of.q);
        let mut out = Vec::new();
        for batch in 0..batches {
            let (outer, inner) =
                if self.tokens_outside { (tokens, heads) } else { (heads, tokens) };
            for a in 0..outer {
                for b in 0..inner {
                    let (head, token) = if self.tokens_outside { (b, a) } else { (a, b) };
                    out.extend(self.one(of, [batch, head, token]));
                }
            }
        }
        out
    }
}

/// The positions that the rows of a ring hold after `length` tokens, written one after another.
fn ring(length: usize, capacity: usize) -> Vec<f64> {
    let mut rows = vec![-1.0; capacity];
    (0..length).for_each(|position| rows[position % capacity] = position as f64);
    rows
}
