//! The networks of an image model and their plans, compiled on first use. It must not know requests.

use std::time::Instant;

use tintype_gpu::Device;
use tintype_registry::CancelToken;
use tintype_tensor::graph::{Plan, PlanOptions};

use super::error::ImageError;
use super::progress::{Meter, Observer, Phase};
use crate::families::autoencoder_tiny::AutoencoderTiny;
use crate::families::pixart::PixArt;
use crate::families::t5::T5;
use crate::nn::{Net, Parameters};
use crate::sampling::Schedule;
use crate::tokenizer::Unigram;
use crate::weights::Weights;

/// The networks and plans.
pub(super) struct Parts {
    pub(super) device: Device,
    pub(super) tokenizer: Unigram,
    pub(super) schedule: Schedule,
    pub(super) encoder: T5,
    pub(super) denoiser: PixArt,
    pub(super) autoencoder: AutoencoderTiny,
    pub(super) mean: Vec<f32>,
    pub(super) deviation: Vec<f32>,
    pub(super) weights: Weights,
    pub(super) fingerprint: u64,
    pub(super) plans: Plans,
}

/// Compiled on first use, then replayed.
#[derive(Default)]
pub(super) struct Plans {
    pub(super) text: Option<Plan>,
    /// With guidance, and without.
    pub(super) denoise: [Option<Plan>; 2],
    pub(super) encode: Option<Plan>,
    pub(super) decode: Option<Plan>,
}

impl Parts {
    /// Compiles the plans that a request needs and that are not there yet.
    pub(super) fn prepare(
        &mut self,
        guided: bool,
        encodes: bool,
        cancel: &CancelToken,
        observer: &mut dyn Observer,
    ) -> Result<(), ImageError> {
        let at = usize::from(guided);
        let plans = &self.plans;
        let wanted = [
            plans.text.is_none(),
            plans.denoise[at].is_none(),
            plans.decode.is_none(),
            encodes && plans.encode.is_none(),
        ];
        let total = wanted.iter().filter(|&&wanted| wanted).count();
        if total == 0 {
            return Ok(());
        }
        let (phase, began) = (Phase::Load, Instant::now());
        let mut meter = Meter { tell: observer, picture: 0, pictures: 1, phase, total, began };
        let parameters = Parameters::new(&self.weights, &self.device);
        let batch = 1 + at;
        let mut done = 0;
        for (what, _) in wanted.into_iter().enumerate().filter(|(_, wanted)| *wanted) {
            meter.at(done);
            cancel.check().map_err(|_| ImageError::Cancelled(phase))?;
            let built = match what {
                0 => self.text_plan(&parameters),
                1 => self.plan(&parameters, "transformer.", "denoise", |net| {
                    self.denoiser.build(net, batch, self.encoder.tokens)
                }),
                2 => self.plan(&parameters, "vae.", "decode", |net| {
                    self.autoencoder.build_decoder(net, self.denoiser.side)
                }),
                _ => self.plan(&parameters, "vae.", "encode", |net| {
                    let pixels = self.denoiser.side * self.autoencoder.factor();
                    self.autoencoder.build_encoder(net, pixels)
                }),
            };
            let plan = Some(built.map_err(ImageError::at(phase))?);
            match what {
                0 => self.plans.text = plan,
                1 => self.plans.denoise[at] = plan,
                2 => self.plans.decode = plan,
                _ => self.plans.encode = plan,
            }
            done += 1;
        }
        meter.at(done);
        Ok(())
    }

    fn plan(
        &self,
        parameters: &Parameters<'_>,
        prefix: &'static str,
        label: &str,
        build: impl FnOnce(&mut Net<'_>) -> tintype_tensor::Result<()>,
    ) -> tintype_tensor::Result<Plan> {
        let mut net = Net::new(parameters, prefix);
        build(&mut net)?;
        let options = PlanOptions { label: label.into(), ..PlanOptions::default() };
        Plan::compile(&net.graph, &self.device, options)
    }

    /// Prompt and negative prompt together: tokens in, what every step of the denoiser reads out.
    fn text_plan(&self, parameters: &Parameters<'_>) -> tintype_tensor::Result<Plan> {
        self.plan(parameters, "text_encoder.", "text", |net| {
            let states = self.encoder.build(net, 2)?;
            net.enter("transformer.");
            self.denoiser.build_caption(net, states)
        })
    }
}
