//! Gemma 3: norms before and after each half of a block, norms of queries and keys, five layers that
//! see a window for each that sees all (Gemma Team 2025; transformers' `modeling_gemma3.py`). Gains in
//! GGUF files have the 1 in them.

use tintype_tensor::Result;
use tintype_tensor::graph::Value;
use tintype_tensor::ops::attention::AttentionOp;

use super::{Decoder, Kept};
use crate::families::Settings;
use crate::nn::{Net, Step, frequencies};
use crate::text::TextError;
use crate::weights::Weights;

/// Each layer of this many sees all tokens, the others a window.
const PATTERN: usize = 6;
/// Rotary base of the layers that see a window.
const LOCAL_BASE: f64 = 10_000.0;
/// Layers of the one size (27B) whose scores are scaled by its width.
const LARGEST: usize = 62;

/// The decoder's shape.
#[derive(Debug, Clone)]
pub(crate) struct Gemma3 {
    context: usize,
    width: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    numbers: usize,
    window: usize,
    epsilon: f32,
    base: f64,
    /// Positions of the layers that see all are divided by this.
    stretch: f64,
    softcap: f32,
}

impl Gemma3 {
    pub(crate) fn read(weights: &Weights) -> std::result::Result<Self, TextError> {
        let settings = Settings::new(weights, "gemma3");
        let heads = settings.size("attention.head_count")?;
        let numbers = settings.size("attention.key_length")?;
        let model = Gemma3 {
            context: settings.size("context_length")?,
            width: settings.size("embedding_length")?,
            layers: settings.size("block_count")?,
            heads,
            kv_heads: settings.size_or("attention.head_count_kv", heads)?,
            numbers,
            window: settings.size("attention.sliding_window")?,
            epsilon: settings.number("attention.layer_norm_rms_epsilon")? as f32,
            base: settings.number_or("rope.freq_base", 1e6)?,
            stretch: settings.number_or("rope.scaling.factor", 1.0)?,
            softcap: settings.number_or("final_logit_softcapping", 0.0)? as f32,
        };
        // What the tensors' own shapes tell.
        settings.size("feed_forward_length")?;
        settings.size_or("vocab_size", 1)?;
        let values = settings.size_or("attention.value_length", numbers)?;
        let scaling = settings.text_or("rope.scaling.type", "linear")?;
        settings.nothing_else()?;
        let fits = heads.is_multiple_of(model.kv_heads) && numbers.is_multiple_of(2);
        let sound = model.stretch > 0.0 && model.base > 1.0 && model.softcap >= 0.0;
        if !fits || !sound || values != numbers || scaling != "linear" || model.layers > 1024 {
            return Err(TextError::Model(format!(
                "{heads} heads of {numbers} keys and {values} values, shared by {}, rotary base {} \
                 stretched by {} ({scaling}), {} layers",
                model.kv_heads, model.base, model.stretch, model.layers
            )));
        }
        Ok(model)
    }

    fn sees_all(layer: usize) -> bool {
        layer % PATTERN == PATTERN - 1
    }

    fn norm(&self, net: &mut Net<'_>, name: &str, x: Value) -> Result<Value> {
        let gain = net.dense(&format!("{name}.weight"))?;
        net.graph.rms_norm(x, Some(gain), 0.0, self.epsilon)
    }

    /// `[slots, tokens, heads · numbers]` → `[slots, heads, tokens, numbers]`, each head normed and
    /// turned.
    fn heads(
        &self,
        net: &mut Net<'_>,
        step: &Step<'_>,
        name: &str,
        x: Value,
        turns: Value,
    ) -> Result<Value> {
        let shape = net.graph.shape(x)?;
        let (heads, numbers) = (shape[2] / self.numbers, self.numbers);
        let x = net.graph.reshape(x, &[shape[0], shape[1], heads, numbers])?;
        let x = self.norm(net, name, x)?;
        let x = net.graph.permute(x, &[0, 2, 1, 3])?;
        step.turn(net, x, turns, false)
    }

    fn block(
        &self,
        net: &mut Net<'_>,
        step: &Step<'_>,
        layer: usize,
        x: Value,
        turns: Value,
    ) -> Result<Value> {
        let name = format!("blk.{layer}");
        let n = self.norm(net, &format!("{name}.attn_norm"), x)?;
        let q = net.linear(&format!("{name}.attn_q"), n)?;
        let k = net.linear(&format!("{name}.attn_k"), n)?;
        let v = net.linear(&format!("{name}.attn_v"), n)?;
        let q = self.heads(net, step, &format!("{name}.attn_q_norm"), q, turns)?;
        let k = self.heads(net, step, &format!("{name}.attn_k_norm"), k, turns)?;
        let v = net.heads(v, self.kv_heads)?;
        let scaled_by = if self.layers == LARGEST { self.width / self.heads } else { self.numbers };
        let window = if Self::sees_all(layer) { 0 } else { self.window };
        let op = AttentionOp { window, ..AttentionOp::new((scaled_by as f32).sqrt().recip()) };
        let y = step.attend(net, layer, [q, k, v], op)?;
        let y = net.linear(&format!("{name}.attn_output"), y)?;
        let y = self.norm(net, &format!("{name}.post_attention_norm"), y)?;
        let x = net.graph.add(x, y)?;
        let n = self.norm(net, &format!("{name}.ffn_norm"), x)?;
        let gate = net.linear(&format!("{name}.ffn_gate"), n)?;
        let gate = net.graph.gelu_tanh(gate)?;
        let up = net.linear(&format!("{name}.ffn_up"), n)?;
        let h = net.graph.mul(gate, up)?;
        let y = net.linear(&format!("{name}.ffn_down"), h)?;
        let y = self.norm(net, &format!("{name}.post_ffw_norm"), y)?;
        net.graph.add(x, y)
    }
}

impl Decoder for Gemma3 {
    fn context(&self) -> usize {
        self.context
    }

    fn width(&self) -> usize {
        self.width
    }

    fn kept(&self) -> Vec<Kept> {
        let window = |layer| (!Self::sees_all(layer)).then_some(self.window);
        let kept =
            |layer| Kept { heads: self.kv_heads, numbers: self.numbers, window: window(layer) };
        (0..self.layers).map(kept).collect()
    }

    fn build(&self, net: &mut Net<'_>, step: &Step<'_>) -> Result<Value> {
        let pairs = self.numbers / 2;
        let all = frequencies(pairs, self.base, self.stretch.recip());
        let all = net.constant("turns of layers that see all", &[pairs], &all)?;
        let near = frequencies(pairs, LOCAL_BASE, 1.0);
        let near = net.constant("turns of layers that see a window", &[pairs], &near)?;
        let mut x = step.embed(net, self.table(), (self.width as f32).sqrt())?;
        for layer in 0..self.layers {
            x = self.block(net, step, layer, x, if Self::sees_all(layer) { all } else { near })?;
        }
        let x = step.asked(net, x)?;
        let x = self.norm(net, "output_norm", x)?;
        let head = if net.has("output.weight") { "output.weight" } else { self.table() };
        let head = net.matrix(head)?;
        let logits = net.graph.linear(x, head, None)?;
        if self.softcap > 0.0 { net.graph.softcap(logits, self.softcap) } else { Ok(logits) }
    }
}
