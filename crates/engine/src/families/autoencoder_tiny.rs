//! TAESD's autoencoder: plain convolutions around identity skips, an eighth of the size
//! (madebyollin/taesd; diffusers' `AutoencoderTiny`). Layers are numbered as in the checkpoint.

use tintype_gpu::DType;
use tintype_tensor::Result;
use tintype_tensor::graph::Value;
use tintype_tensor::ops::conv::Conv;
use tintype_tensor::ops::pointwise::Unary;

use super::Settings;
use crate::image::ImageError;
use crate::nn::Net;
use crate::weights::Weights;

/// Latents beyond this many deviations saturate.
const LATENT_BOUND: f32 = 3.0;

/// The autoencoder's shape.
#[derive(Debug, Clone)]
pub(crate) struct AutoencoderTiny {
    channels: usize,
    encoder: Vec<usize>,
    decoder: Vec<usize>,
}

impl AutoencoderTiny {
    pub(crate) fn read(weights: &Weights) -> std::result::Result<Self, ImageError> {
        let settings = Settings::new(weights, "autoencoder_tiny");
        let model = AutoencoderTiny {
            channels: settings.size("latent_channels")?,
            encoder: settings.counts("num_encoder_blocks")?,
            decoder: settings.counts("num_decoder_blocks")?,
        };
        if model.encoder.len() != model.decoder.len() || model.decoder.len() > 6 {
            return Err(ImageError::Model(format!(
                "an autoencoder of {} encoder and {} decoder stages; as many of each, at most 6, are \
                 supported",
                model.encoder.len(),
                model.decoder.len()
            )));
        }
        Ok(model)
    }

    /// How many pixels a latent stands for, along each axis.
    pub(crate) fn factor(&self) -> usize {
        1 << (self.decoder.len() - 1)
    }

    /// Input `latents` `[1, channels, side, side]` → output `picture` `[1, 3, pixels, pixels]`, 0 to 1
    /// but not clamped.
    pub(crate) fn build_decoder(&self, net: &mut Net<'_>, side: usize) -> Result<()> {
        let x = net.graph.input("latents", DType::F32, &[1, self.channels, side, side])?;
        let x = net.graph.softcap(x, LATENT_BOUND)?;
        let mut layers = Layers { half: "decoder", at: 0 };
        let mut x = layers.conv(net, x, 1, Unary::Relu)?;
        layers.at += 1; // its ReLU is a layer of its own
        for (stage, &blocks) in self.decoder.iter().enumerate() {
            for _ in 0..blocks {
                x = layers.block(net, x)?;
            }
            if stage + 1 < self.decoder.len() {
                x = net.graph.upsample_nearest(x, 2)?;
                layers.at += 1;
            }
            x = layers.conv(net, x, 1, Unary::Identity)?;
        }
        net.graph.output("picture", x)
    }

    /// Input `picture` `[1, 3, pixels, pixels]`, 0 to 1 → output `latents`.
    pub(crate) fn build_encoder(&self, net: &mut Net<'_>, pixels: usize) -> Result<()> {
        let mut x = net.graph.input("picture", DType::F32, &[1, 3, pixels, pixels])?;
        let mut layers = Layers { half: "encoder", at: 0 };
        for (stage, &blocks) in self.encoder.iter().enumerate() {
            let stride = if stage == 0 { 1 } else { 2 };
            x = layers.conv(net, x, stride, Unary::Identity)?;
            for _ in 0..blocks {
                x = layers.block(net, x)?;
            }
        }
        let x = layers.conv(net, x, 1, Unary::Identity)?;
        net.graph.output("latents", x)
    }
}

/// The layers of one half, in order.
struct Layers {
    half: &'static str,
    at: usize,
}

impl Layers {
    fn name(&mut self) -> String {
        self.at += 1;
        format!("{}.layers.{}", self.half, self.at - 1)
    }

    fn conv(
        &mut self,
        net: &mut Net<'_>,
        x: Value,
        stride: usize,
        activation: Unary,
    ) -> Result<Value> {
        let conv = Conv { activation, ..Conv::default() }.padded(1).strided(stride);
        net.conv(&self.name(), x, conv)
    }

    /// Three convolutions around an identity.
    fn block(&mut self, net: &mut Net<'_>, x: Value) -> Result<Value> {
        let name = self.name();
        let conv = |activation| Conv { activation, ..Conv::default() }.padded(1);
        let y = net.conv(&format!("{name}.conv.0"), x, conv(Unary::Relu))?;
        let y = net.conv(&format!("{name}.conv.2"), y, conv(Unary::Relu))?;
        let y = net.conv(&format!("{name}.conv.4"), y, conv(Unary::Identity))?;
        let y = net.graph.add(y, x)?;
        net.graph.relu(y)
    }
}
