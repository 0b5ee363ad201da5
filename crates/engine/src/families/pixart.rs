//! The PixArt-α transformer: patches of latents, one timestep embedding turned into six modulations
//! for all blocks (AdaLN-single), cross-attention to the caption (Chen et al. 2023; diffusers'
//! `pixart_transformer_2d.py`).

use tintype_gpu::DType;
use tintype_tensor::Result;
use tintype_tensor::graph::Value;
use tintype_tensor::ops::conv::Conv;

use super::Settings;
use crate::image::ImageError;
use crate::nn::Net;
use crate::weights::Weights;

/// Sines and cosines that a timestep is told by.
const WAVES: usize = 256;

/// The transformer's shape.
#[derive(Debug, Clone)]
pub(crate) struct PixArt {
    pub(crate) channels: usize,
    /// Rows and columns of the latents.
    pub(crate) side: usize,
    patch: usize,
    heads: usize,
    width: usize,
    blocks: usize,
    epsilon: f32,
}

impl PixArt {
    pub(crate) fn read(weights: &Weights) -> std::result::Result<Self, ImageError> {
        let settings = Settings::new(weights, "pixart");
        let heads = settings.size("num_attention_heads")?;
        let model = PixArt {
            channels: settings.size("in_channels")?,
            side: settings.size("sample_size")?,
            patch: settings.size("patch_size")?,
            heads,
            width: heads * settings.size("attention_head_dim")?,
            blocks: settings.size("num_layers")?,
            epsilon: settings.number("norm_eps")? as f32,
        };
        let out = settings.size("out_channels")?;
        let fits = model.side.is_multiple_of(model.patch) && model.width.is_multiple_of(4);
        if !fits || out != model.channels || model.side > 512 {
            return Err(ImageError::Model(format!(
                "a PixArt of {} → {out} channels, {}² latents, patches of {} and width {} is not \
                 supported; as many channels out as in, whole patches, at most 512² latents are",
                model.channels, model.side, model.patch, model.width
            )));
        }
        Ok(model)
    }

    /// Numbers of one picture's latents.
    pub(crate) fn latents(&self) -> usize {
        self.channels * self.side * self.side
    }

    /// The part that depends on the prompt alone. States `[batch, tokens, n]` → outputs `k0`, `v0`, …
    /// `[batch, tokens, width]`, what each block's cross-attention reads.
    pub(crate) fn build_caption(&self, net: &mut Net<'_>, states: Value) -> Result<()> {
        let x = net.linear("caption_projection.linear_1", states)?;
        let x = net.graph.gelu_tanh(x)?;
        let caption = net.linear("caption_projection.linear_2", x)?;
        for block in 0..self.blocks {
            for (part, name) in ["k", "v"].into_iter().zip(["to_k", "to_v"]) {
                let y = net.linear(&format!("transformer_blocks.{block}.attn2.{name}"), caption)?;
                net.graph.output(&format!("{part}{block}"), y)?;
            }
        }
        Ok(())
    }

    /// Names of what [`PixArt::build_caption`] gives and [`PixArt::build`] takes.
    pub(crate) fn caption_names(&self) -> impl Iterator<Item = String> {
        (0..self.blocks).flat_map(|block| [format!("k{block}"), format!("v{block}")])
    }

    /// One prediction. Inputs: `latents` `[1, channels, side, side]`, which every row of the batch
    /// shares; `waves` `[1, 256]` of the timestep; `mask` `[batch, 1, 1, tokens]`, added to scores;
    /// `k0`, `v0`, … of the prompts. Output `prediction` `[batch, channels, side, side]`.
    pub(crate) fn build(&self, net: &mut Net<'_>, batch: usize, tokens: usize) -> Result<()> {
        let Self { channels, side, width, .. } = *self;
        let latents = net.graph.input("latents", DType::F32, &[1, channels, side, side])?;
        let waves = net.graph.input("waves", DType::F32, &[1, WAVES])?;
        let mask = net.graph.input("mask", DType::F32, &[batch, 1, 1, tokens])?;
        let (modulation, embedded) = self.modulation(net, waves)?;
        let x = self.patches(net, latents)?;
        let patches = (side / self.patch).pow(2);
        let mut x = net.graph.broadcast_to(x, &[batch, patches, width])?;
        for block in 0..self.blocks {
            let mut caption = [x; 2];
            for (slot, part) in caption.iter_mut().zip(["k", "v"]) {
                let name = format!("{part}{block}");
                let states = net.graph.input(&name, DType::F32, &[batch, tokens, width])?;
                *slot = net.heads(states, self.heads)?;
            }
            x = self.block(net, block, x, modulation, caption, mask)?;
        }
        let table = net.dense("scale_shift_table")?;
        let table = net.graph.add(table, embedded)?;
        let [shift, scale] = [0, 1].map(|row| row..row + 1);
        let shift = net.graph.slice(table, 0, shift)?;
        let scale = net.graph.slice(table, 0, scale)?;
        let x = net.graph.modulated_norm(x, scale, shift, self.epsilon)?;
        let x = net.linear("proj_out", x)?;
        let x = self.unpatch(net, x, batch)?;
        net.graph.output("prediction", x)
    }

    /// Six modulations `[6, width]`, and the embedding `[1, width]` that they came from.
    fn modulation(&self, net: &mut Net<'_>, waves: Value) -> Result<(Value, Value)> {
        let x = net.linear("adaln_single.emb.timestep_embedder.linear_1", waves)?;
        let x = net.graph.silu(x)?;
        let embedded = net.linear("adaln_single.emb.timestep_embedder.linear_2", x)?;
        let x = net.graph.silu(embedded)?;
        let x = net.linear("adaln_single.linear", x)?;
        Ok((net.graph.reshape(x, &[6, self.width])?, embedded))
    }

    /// `[1, channels, side, side]` → `[1, patches, width]`, positions added.
    fn patches(&self, net: &mut Net<'_>, latents: Value) -> Result<Value> {
        let grid = self.side / self.patch;
        let x = net.conv("pos_embed.proj", latents, Conv::default().strided(self.patch))?;
        let x = net.graph.reshape(x, &[1, self.width, grid * grid])?;
        let x = net.graph.transpose(x)?;
        let table = positions(grid, self.width);
        let table = net.constant("pos_embed.pos_embed", &[grid * grid, self.width], &table)?;
        net.graph.add(x, table)
    }

    fn block(
        &self,
        net: &mut Net<'_>,
        block: usize,
        x: Value,
        modulation: Value,
        caption: [Value; 2],
        mask: Value,
    ) -> Result<Value> {
        let name = format!("transformer_blocks.{block}");
        let table = net.dense(&format!("{name}.scale_shift_table"))?;
        let table = net.graph.add(table, modulation)?;
        let rows = net.graph.chunk(table, 0, 6)?;
        let [shift1, scale1, gate1, shift2, scale2, gate2] = rows[..] else {
            let reason = "six modulations were expected".into();
            return Err(tintype_tensor::Error::Graph { node: name, reason });
        };
        let scale = ((self.width / self.heads) as f32).sqrt().recip();
        let n = net.graph.modulated_norm(x, scale1, shift1, self.epsilon)?;
        let mut qkv = [n; 3];
        for (slot, part) in qkv.iter_mut().zip(["to_q", "to_k", "to_v"]) {
            let projected = net.linear(&format!("{name}.attn1.{part}"), n)?;
            *slot = net.heads(projected, self.heads)?;
        }
        let y = net.attend(qkv, scale, None)?;
        let y = net.linear(&format!("{name}.attn1.to_out.0"), y)?;
        let y = net.graph.mul(y, gate1)?;
        let x = net.graph.add(x, y)?;
        let q = net.linear(&format!("{name}.attn2.to_q"), x)?;
        let q = net.heads(q, self.heads)?;
        let y = net.attend([q, caption[0], caption[1]], scale, Some(mask))?;
        let y = net.linear(&format!("{name}.attn2.to_out.0"), y)?;
        let x = net.graph.add(x, y)?;
        let n = net.graph.modulated_norm(x, scale2, shift2, self.epsilon)?;
        let h = net.linear(&format!("{name}.ff.net.0.proj"), n)?;
        let h = net.graph.gelu_tanh(h)?;
        let y = net.linear(&format!("{name}.ff.net.2"), h)?;
        let y = net.graph.mul(y, gate2)?;
        net.graph.add(x, y)
    }

    /// `[batch, patches, patch² · channels]` → `[batch, channels, side, side]`
    fn unpatch(&self, net: &mut Net<'_>, x: Value, batch: usize) -> Result<Value> {
        let (p, grid) = (self.patch, self.side / self.patch);
        let x = net.graph.reshape(x, &[batch, grid, grid, p, p, self.channels])?;
        let x = net.graph.permute(x, &[0, 5, 1, 3, 2, 4])?;
        net.graph.reshape(x, &[batch, self.channels, self.side, self.side])
    }
}

/// What the network is told of a timestep: cosines, then sines, of 128 frequencies from 1 to 1e-4.
pub(crate) fn waves(timestep: f64) -> Vec<f32> {
    let half = WAVES / 2;
    let angle = |at: usize| {
        let frequency = (-(10000f32.ln()) * (at as f32 / half as f32)).exp();
        timestep as f32 * frequency
    };
    let cosines = (0..half).map(|at| f64::from(angle(at)).cos() as f32);
    cosines.chain((0..half).map(|at| f64::from(angle(at)).sin() as f32)).collect()
}

/// `[grid², width]`: the column's sines and cosines, then the row's, patches in row-major order.
fn positions(grid: usize, width: usize) -> Vec<f32> {
    let waves = |place: usize| {
        let quarter = width / 4;
        let angle = move |at: usize| place as f64 * 10000f64.powf(-(at as f64) / quarter as f64);
        let sines = (0..quarter).map(move |at| angle(at).sin() as f32);
        sines.chain((0..quarter).map(move |at| angle(at).cos() as f32))
    };
    (0..grid * grid).flat_map(|at| waves(at % grid).chain(waves(at / grid))).collect()
}
