//! Attention as a graph's node. Operands are views `[batch, heads, tokens, numbers]`; the result is
//! `[batch, tokens, heads, numbers]`, so that its heads merge into the rows of the next product.

use tintype_gpu::{DType, Device, Session};

use super::kernels::Stored;
use super::{Attention, MAX_HEAD, TYPES_TAKEN, attention, attention_scratch_shape};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, broadcast_shape, refuse_dtype, refuse_shape};
use crate::number::Number;

/// Attention; operands are q, k, v, then bias, positions of queries, positions of keys or lengths,
/// where there are any. The fields mean what those of [`Attention`] mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionOp {
    /// Factor of q·k.
    pub scale: f32,
    /// Bounds scores; 0 for none.
    pub softcap: f32,
    /// Queries do not see keys behind them.
    pub causal: bool,
    /// Queries see keys fewer than this many positions away; 0 for all.
    pub window: usize,
    /// Position of the first query without positions.
    pub offset: usize,
    /// Whether a bias is given.
    pub bias: bool,
    /// Whether positions of queries are given.
    pub q_positions: bool,
    /// Whether positions of keys are given.
    pub k_positions: bool,
    /// Whether lengths are given: keys and values are rings.
    pub lengths: bool,
}

impl AttentionOp {
    /// Everything sees everything.
    pub fn new(scale: f32) -> Self {
        AttentionOp {
            scale,
            softcap: 0.0,
            causal: false,
            window: 0,
            offset: 0,
            bias: false,
            q_positions: false,
            k_positions: false,
            lengths: false,
        }
    }

    /// What is given: bias, positions of queries, positions of keys, lengths.
    fn given(&self) -> [bool; 4] {
        [self.bias, self.q_positions, self.k_positions, self.lengths]
    }

    fn rest<'a, T>(&self, inputs: &'a [T]) -> [Option<&'a T>; 4] {
        let mut rest = inputs.iter().skip(3);
        self.given().map(|given| if given { rest.next() } else { None })
    }
}

impl Op for AttentionOp {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let refuse = |reason: String| Err(refuse_shape(op, inputs, reason));
        let wanted = 3 + self.given().into_iter().filter(|given| *given).count();
        let [bias, of_q, of_k, of_lengths] = self.rest(inputs);
        let [q, k, v, ..] = inputs else {
            return refuse(format!("it takes {wanted} operands, {} are given", inputs.len()));
        };
        let (&[batch, heads, t, d], &[b, kv_heads, s, dk]) = (&q.shape[..], &k.shape[..]) else {
            return refuse("q and k have four axes: batch, heads, tokens, numbers".into());
        };
        if inputs.len() != wanted || v.shape != k.shape || b != batch || dk != d {
            return refuse(format!(
                "it takes {wanted} operands; k and v have one shape, the batch and head size of q"
            ));
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) || d > MAX_HEAD || d == 0 {
            return refuse(format!(
                "heads of 1 to {MAX_HEAD} numbers, shared evenly: {heads} by {kv_heads}"
            ));
        }
        let sane = |number: f32| number.is_finite() && number >= 0.0;
        let last = self.offset.saturating_add(t).max(self.window).max(s);
        if !self.scale.is_finite() || !sane(self.softcap) || last > i32::MAX as usize {
            return refuse("scale and cap are finite, positions fit in 31 bits".into());
        }
        if heads > 0xffff || batch > 0xffff {
            return refuse("at most 65535 heads and batches".into());
        }
        let numbers = [q].into_iter().chain(bias).all(|meta| Number::of(meta.dtype).is_some());
        if !numbers || Stored::of(k.dtype).is_none() || k.dtype != v.dtype {
            return Err(refuse_dtype(op, inputs, TYPES_TAKEN));
        }
        let scores = Meta::new(q.dtype, &[batch, heads, t, s]);
        if let Some(bias) = bias
            && (broadcast_shape(op, &[scores.clone(), bias.clone()])? != scores.shape
                || bias.last() != s)
        {
            return refuse(format!("the bias repeats to {:?}, but not along keys", scores.shape));
        }
        if of_k.is_some() && of_lengths.is_some() {
            return refuse("lengths and positions of keys exclude one another".into());
        }
        for (positions, n) in [(of_q, t), (of_k, s), (of_lengths, batch)] {
            let Some(positions) = positions else { continue };
            if positions.dtype != DType::I32 {
                return Err(refuse_dtype(op, inputs, "positions are I32"));
            }
            if positions.shape != [n] && positions.shape != [batch, n] {
                return refuse(format!("these positions are [{n}] or [{batch}, {n}]"));
            }
        }
        Ok(vec![Meta::new(q.dtype, &[batch, t, heads, d])])
    }

    fn layout(&self, input: usize) -> Layout {
        // Positions are dense; all others have dense rows.
        let positions = 3 + usize::from(self.bias);
        if input >= positions { Layout::Dense } else { Layout::Rows }
    }

    fn scratch(&self, device: &Device, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let shape = attention_scratch_shape(device, &inputs[0].shape, &inputs[1].shape);
        Ok(shape.iter().map(|shape| Meta::new(DType::F32, shape)).collect())
    }

    fn flops(&self, inputs: &[Meta], _outputs: &[Meta]) -> f64 {
        4.0 * inputs[0].elements() as f64 * inputs[1].shape[2] as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        scratch: &[Tensor],
    ) -> Result<()> {
        let [bias, q_positions, k_positions, lengths] = self.rest(inputs);
        let spec = Attention {
            scale: self.scale,
            softcap: self.softcap,
            causal: self.causal,
            window: self.window,
            offset: self.offset,
            bias,
            q_positions,
            k_positions,
            lengths,
        };
        let out = outputs[0].permute(&[0, 2, 1, 3])?;
        attention(session, &spec, &inputs[0], &inputs[1], &inputs[2], scratch.first(), &out)
    }
}

impl Graph {
    /// Attention of q `[batch, heads, tokens, numbers]` over k and v `[batch, heads of keys, keys,
    /// numbers]`; gives `[batch, tokens, heads, numbers]`. `rest` are the bias and the positions that
    /// `op` speaks of.
    pub fn attention(
        &mut self,
        op: AttentionOp,
        [q, k, v]: [Value; 3],
        rest: &[Value],
    ) -> Result<Value> {
        self.apply(op, &[&[q, k, v], rest].concat())
    }
}
