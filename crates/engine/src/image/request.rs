//! What is asked for. What is left out comes from the model's own settings; what cannot be is refused
//! before any work. It must not know how pictures are made.

use super::error::ImageError;
use super::model::ImageModelInfo;
use super::picture::Picture;
use crate::sampling::{RandomSource, Sampler, Scheduler};

/// Most pictures of one request.
const MOST_PICTURES: usize = 1024;
/// Longest prompt, in bytes; models read far less.
const LONGEST_PROMPT: usize = 1 << 16;

/// A request for pictures.
///
/// ```
/// use tintype::ImageRequest;
/// use tintype::sampling::Sampler;
///
/// let request = ImageRequest::new("a red apple").seed(7).steps(12).sampler(Sampler::EulerA);
/// assert_eq!(request.prompt(), "a red apple");
/// ```
#[derive(Debug, Clone)]
pub struct ImageRequest {
    pub(super) prompt: String,
    pub(super) negative: String,
    pub(super) steps: Option<usize>,
    pub(super) guidance: Option<f32>,
    pub(super) seed: u64,
    pub(super) batch: usize,
    pub(super) size: Option<(usize, usize)>,
    pub(super) sampler: Sampler,
    pub(super) scheduler: Scheduler,
    pub(super) source: RandomSource,
    pub(super) init: Option<Picture>,
    pub(super) strength: Option<f32>,
    pub(super) mask: Option<Picture>,
}

impl ImageRequest {
    /// One picture of `prompt`, seed 0, everything else as the model prefers it.
    pub fn new(prompt: impl Into<String>) -> Self {
        ImageRequest {
            prompt: prompt.into(),
            negative: String::new(),
            steps: None,
            guidance: None,
            seed: 0,
            batch: 1,
            size: None,
            sampler: Sampler::Ddim,
            scheduler: Scheduler::Trailing,
            source: RandomSource::Philox,
            init: None,
            strength: None,
            mask: None,
        }
    }

    /// What is asked for.
    pub fn prompt(&self) -> &str {
        &self.prompt
    }

    /// How many pictures it asks for.
    pub fn pictures(&self) -> usize {
        self.batch
    }

    /// What the pictures shall not be like; empty for nothing.
    pub fn negative_prompt(&self) -> &str {
        &self.negative
    }

    /// What the pictures shall not be like.
    pub fn negative(mut self, negative: impl Into<String>) -> Self {
        self.negative = negative.into();
        self
    }

    /// Steps from noise to picture.
    pub fn steps(mut self, steps: usize) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Guidance scale: how far predictions are pushed from the negative prompt's towards the prompt's.
    /// 1 asks the prompt alone, in half the time.
    pub fn guidance(mut self, guidance: f32) -> Self {
        self.guidance = Some(guidance);
        self
    }

    /// Where noise begins. Picture `n` of a batch is what seed + `n` alone gives.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Pictures to make.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Width and height in pixels.
    pub fn size(mut self, width: usize, height: usize) -> Self {
        self.size = Some((width, height));
        self
    }

    /// How latents go from one noise level to the next.
    pub fn sampler(mut self, sampler: Sampler) -> Self {
        self.sampler = sampler;
        self
    }

    /// Which noise levels are passed through.
    pub fn scheduler(mut self, scheduler: Scheduler) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Whose generator draws the noise.
    pub fn random_source(mut self, source: RandomSource) -> Self {
        self.source = source;
        self
    }

    /// A picture to begin from, of the model's size, and how much of it is drawn anew: above 0, at
    /// most 1.
    pub fn init(mut self, picture: Picture, strength: f32) -> Self {
        self.init = Some(picture);
        self.strength = Some(strength);
        self
    }

    /// Which parts of the first picture are drawn anew: white is, black is kept.
    pub fn mask(mut self, mask: Picture) -> Self {
        self.mask = Some(mask);
        self
    }

    /// The request with the model's settings for what it leaves out, if the model can meet it.
    ///
    /// # Errors
    /// [`ImageError::Request`], which says what is allowed.
    pub fn validate(&self, model: &ImageModelInfo) -> Result<Settled, ImageError> {
        let refuse = |what, reason: String| Err(ImageError::request(what, reason));
        for (what, text) in [("prompt", &self.prompt), ("negative prompt", &self.negative)] {
            if text.len() > LONGEST_PROMPT {
                let reason = format!("{} bytes; at most {LONGEST_PROMPT} are read", text.len());
                return refuse(what, reason);
            }
        }
        let (width, height) = self.size.unwrap_or((model.width, model.height));
        if (width, height) != (model.width, model.height) {
            let reason = format!(
                "{width}×{height}: this model makes {}×{} pictures only",
                model.width, model.height
            );
            return refuse("size", reason);
        }
        let steps = self.steps.unwrap_or(model.default_steps);
        if !(1..=model.timesteps).contains(&steps) {
            return refuse("steps", format!("{steps}; 1 to {} are possible", model.timesteps));
        }
        let guidance = self.guidance.unwrap_or(model.default_guidance);
        if !(1.0..=100.0).contains(&guidance) {
            return refuse("guidance", format!("{guidance}; 1 (off) to 100 are possible"));
        }
        if !(1..=MOST_PICTURES).contains(&self.batch) {
            return refuse("batch", format!("{}; 1 to {MOST_PICTURES} are possible", self.batch));
        }
        if self.seed.checked_add(self.batch as u64 - 1).is_none() {
            return refuse("seed", "seed + batch is beyond 64 bits; take a smaller seed".into());
        }
        if let Some(strength) = self.strength
            && !(strength > 0.0 && strength <= 1.0)
        {
            let reason = format!("{strength}; above 0 (keep the picture) to 1 (draw it anew)");
            return refuse("strength", reason);
        }
        if self.mask.is_some() && self.init.is_none() {
            return refuse("mask", "there is no first picture that it could be a mask of".into());
        }
        for (what, picture) in [("first picture", &self.init), ("mask", &self.mask)] {
            let Some(picture) = picture else { continue };
            let size = (picture.width(), picture.height());
            if size != (width, height) {
                let reason = format!("{}×{} pixels; {width}×{height} are needed", size.0, size.1);
                return refuse(what, reason);
            }
        }
        let (sampler, scheduler, source) = (self.sampler, self.scheduler, self.source);
        Ok(Settled { steps, guidance, sampler, scheduler, source })
    }
}

/// What a request and a model agreed on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settled {
    /// Steps from noise to picture.
    pub steps: usize,
    /// Guidance scale.
    pub guidance: f32,
    /// How latents go from one noise level to the next.
    pub sampler: Sampler,
    /// Which noise levels are passed through.
    pub scheduler: Scheduler,
    /// Whose generator draws the noise.
    pub source: RandomSource,
}
