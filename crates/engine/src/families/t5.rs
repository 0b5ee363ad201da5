//! The T5 v1.1 encoder: attention without a scale, one table of relative positions for all blocks,
//! RMS norms, gated GELU, no biases (Raffel et al. 2020; transformers' `modeling_t5.py`).

use tintype_gpu::DType;
use tintype_tensor::Result;
use tintype_tensor::graph::Value;

use super::Settings;
use crate::image::ImageError;
use crate::nn::Net;
use crate::weights::Weights;

/// What a padded key's score is lowered by, as in the reference.
const MASKED: f32 = -1e4;
const PREFIX: &str = "text_encoder.";

/// The encoder's shape, and the relative bias, which is worked out on the host.
#[derive(Debug, Clone)]
pub(crate) struct T5 {
    blocks: usize,
    heads: usize,
    epsilon: f32,
    /// Tokens of a prompt, padding included.
    pub(crate) tokens: usize,
    /// `[heads, tokens, tokens]`
    relative: Vec<f32>,
}

impl T5 {
    pub(crate) fn read(weights: &Weights) -> std::result::Result<Self, ImageError> {
        let settings = Settings::new(weights, "t5encoder");
        let buckets = settings.size("attention.relative_buckets_count")?;
        let far = settings.size("attention.relative_max_distance")?;
        let tokens = settings.size("context_length")?;
        let heads = settings.size("attention.head_count")?;
        let name =
            format!("{PREFIX}encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
        let table = weights.require(&name)?.to_f32()?;
        let fits = buckets.is_multiple_of(4) && far > buckets / 4 && tokens <= 4096;
        if !fits || table.len() != buckets * heads {
            let reason = format!(
                "{buckets} buckets up to {far} for {heads} heads and {tokens} tokens do not fit a \
                 table of {} numbers",
                table.len()
            );
            return Err(ImageError::Model(reason));
        }
        let mut relative = Vec::with_capacity(heads * tokens * tokens);
        for head in 0..heads {
            for query in 0..tokens {
                for key in 0..tokens {
                    let offset = key as isize - query as isize;
                    relative.push(table[bucket(offset, buckets, far) * heads + head]);
                }
            }
        }
        Ok(T5 {
            blocks: settings.size("block_count")?,
            heads,
            epsilon: settings.number("attention.layer_norm_rms_epsilon")? as f32,
            tokens,
            relative,
        })
    }

    /// The bias of one prompt, `[heads, tokens, tokens]`, whose first `real` tokens are not padding.
    pub(crate) fn bias(&self, real: usize) -> Vec<f32> {
        let masked = |(at, bias): (usize, &f32)| {
            if at % self.tokens < real { *bias } else { bias + MASKED }
        };
        self.relative.iter().enumerate().map(masked).collect()
    }

    /// Ids `[batch, tokens]` and bias `[batch, heads, tokens, tokens]`, both inputs of the graph →
    /// states `[batch, tokens, width]`.
    pub(crate) fn build(&self, net: &mut Net<'_>, batch: usize) -> Result<Value> {
        let Self { tokens, heads, .. } = *self;
        let ids = net.graph.input("ids", DType::I32, &[batch, tokens])?;
        let bias = net.graph.input("bias", DType::F32, &[batch, heads, tokens, tokens])?;
        let table = net.matrix("shared.weight")?;
        let mut x = net.graph.embedding(table, ids, 1.0, DType::F32)?;
        for block in 0..self.blocks {
            x = self.block(net, &format!("encoder.block.{block}.layer"), x, bias)?;
        }
        self.norm(net, "encoder.final_layer_norm", x)
    }

    fn block(&self, net: &mut Net<'_>, name: &str, x: Value, bias: Value) -> Result<Value> {
        let n = self.norm(net, &format!("{name}.0.layer_norm"), x)?;
        let mut qkv = [n; 3];
        for (slot, part) in qkv.iter_mut().zip(["q", "k", "v"]) {
            let projected = net.linear(&format!("{name}.0.SelfAttention.{part}"), n)?;
            *slot = net.heads(projected, self.heads)?;
        }
        let y = net.attend(qkv, 1.0, Some(bias))?;
        let y = net.linear(&format!("{name}.0.SelfAttention.o"), y)?;
        let x = net.graph.add(x, y)?;
        let n = self.norm(net, &format!("{name}.1.layer_norm"), x)?;
        let gate = net.linear(&format!("{name}.1.DenseReluDense.wi_0"), n)?;
        let gate = net.graph.gelu_tanh(gate)?;
        let up = net.linear(&format!("{name}.1.DenseReluDense.wi_1"), n)?;
        let h = net.graph.mul(gate, up)?;
        let y = net.linear(&format!("{name}.1.DenseReluDense.wo"), h)?;
        net.graph.add(x, y)
    }

    fn norm(&self, net: &mut Net<'_>, name: &str, x: Value) -> Result<Value> {
        let gain = net.dense(&format!("{name}.weight"))?;
        net.graph.rms_norm(x, Some(gain), 0.0, self.epsilon)
    }
}

/// The bucket of a key `offset` places after its query: exact near zero, logarithmic farther, one half
/// of the buckets for each direction.
fn bucket(offset: isize, buckets: usize, far: usize) -> usize {
    let (half, distance) = (buckets / 2, offset.unsigned_abs());
    let exact = half / 2;
    let near = match distance < exact {
        true => distance,
        false => {
            let part = (distance as f32 / exact as f32).ln() / (far as f32 / exact as f32).ln();
            (exact + (part * (half - exact) as f32) as usize).min(half - 1)
        }
    };
    if offset > 0 { near + half } else { near }
}
