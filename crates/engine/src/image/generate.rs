//! From a request to pictures: text once, then each picture's steps, then its decoding. It must not
//! know how networks are made.

use std::time::{Duration, Instant};

use tintype_registry::CancelToken;
use tintype_tensor::graph::Plan;

use super::checkpoint::{Checkpoint, Resumed};
use super::error::ImageError;
use super::parts::Parts;
use super::picture::Picture;
use super::progress::{Meter, Observer, Phase};
use super::request::{ImageRequest, Settled};
use crate::families::pixart::waves;
use crate::sampling::{Noise, Sampling};

/// Added to the scores of padding in cross-attention: far below anything a score can reach.
const MASKED: f32 = -1e9;
/// No single run of a plan takes longer, unless the device hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// Time of each phase, summed over the pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// Compiling plans that loading had not.
    pub load: Duration,
    /// Prompts to states.
    pub text: Duration,
    /// First picture to latents.
    pub encode: Duration,
    /// Noise to latents.
    pub denoise: Duration,
    /// Latents to pictures.
    pub decode: Duration,
}

/// One picture of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The picture.
    pub picture: Picture,
    /// Which of the request, from 0.
    pub index: usize,
    /// The seed that gives it alone.
    pub seed: u64,
}

/// What a request gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageResult {
    /// The pictures, in order of their seeds; those that a resumed request still had to make.
    pub images: Vec<Generated>,
    /// Steps that each took (fewer with a strength below 1).
    pub steps: usize,
    /// Guidance scale used.
    pub guidance: f32,
    /// Where the time went.
    pub timings: Timings,
}

/// Makes the pictures of a request: all, or those that are left of a resumed one.
pub(super) fn run(
    parts: &mut Parts,
    request: &ImageRequest,
    settled: Settled,
    resumed: Option<Resumed>,
    cancel: &CancelToken,
    observer: &mut dyn Observer,
) -> Result<ImageResult, ImageError> {
    let guided = settled.guidance != 1.0;
    let mut timings = Timings::default();
    let began = Instant::now();
    parts.prepare(guided, request.init.is_some(), cancel, observer)?;
    timings.load = began.elapsed();
    let first = resumed.as_ref().map_or(0, |resumed| resumed.picture);
    let mut job = Job { parts, request, settled, guided, cancel, observer, picture: first };
    let began = Instant::now();
    job.text()?;
    timings.text = began.elapsed();
    let began = Instant::now();
    let kept = job.encode()?;
    timings.encode = if kept.is_some() { began.elapsed() } else { Duration::ZERO };
    let (mut images, mut steps) = (Vec::with_capacity(request.batch - first), 0);
    let mut begun = resumed.map(|resumed| resumed.sampling);
    for index in first..request.batch {
        job.picture = index;
        let seed = request.seed + index as u64;
        let began = Instant::now();
        let sampling = match begun.take() {
            Some(sampling) => sampling,
            None => job.begin(seed, kept.as_deref())?,
        };
        let sampling = job.denoise(sampling, kept.as_deref())?;
        timings.denoise += began.elapsed();
        steps = sampling.steps();
        let began = Instant::now();
        let picture = job.decode(sampling.latents())?;
        timings.decode += began.elapsed();
        let image = Generated { picture, index, seed };
        job.observer.picture(&image);
        images.push(image);
    }
    Ok(ImageResult { images, steps, guidance: settled.guidance, timings })
}

/// One request at work.
struct Job<'a, 'b> {
    parts: &'a mut Parts,
    request: &'a ImageRequest,
    settled: Settled,
    guided: bool,
    cancel: &'a CancelToken,
    observer: &'a mut (dyn Observer + 'b),
    picture: usize,
}

impl<'b> Job<'_, 'b> {
    fn meter(&mut self, phase: Phase, total: usize) -> Meter<'_, 'b> {
        let (picture, pictures) = (self.picture, self.request.batch);
        Meter { tell: self.observer, picture, pictures, phase, total, began: Instant::now() }
    }

    /// Runs the text networks, and leaves their results with the denoiser.
    fn text(&mut self) -> Result<(), ImageError> {
        let phase = Phase::Text;
        self.meter(phase, 1).at(0);
        let (tokens, batch) = (self.parts.encoder.tokens, 1 + usize::from(self.guided));
        let (mut ids, mut bias, mut mask) = (Vec::new(), Vec::new(), Vec::new());
        for prompt in [&self.request.prompt, &self.request.negative] {
            let mut prompt_ids = self.parts.tokenizer.encode(prompt);
            prompt_ids.truncate(tokens);
            let real = prompt_ids.len();
            prompt_ids.resize(tokens, self.parts.tokenizer.padding());
            ids.extend(prompt_ids.into_iter().map(|id| id as i32));
            bias.extend(self.parts.encoder.bias(real));
            mask.extend((0..tokens).map(|at| if at < real { 0.0 } else { MASKED }));
        }
        let error = ImageError::at(phase);
        let missing = || ImageError::Model("a plan is missing".into());
        let plan = self.parts.plans.text.as_mut().ok_or_else(missing)?;
        plan.write("ids", &ids).map_err(&error)?;
        plan.write("bias", &bias).map_err(&error)?;
        run_plan(plan, phase, self.cancel)?;
        let denoiser = self.parts.plans.denoise[batch - 1].as_mut().ok_or_else(missing)?;
        let device = &self.parts.device.info().name;
        for name in self.parts.denoiser.caption_names() {
            let states: Vec<f32> = plan.read(&name).map_err(&error)?;
            check(&states, phase, device)?;
            denoiser.write(&name, &states[..states.len() / 2 * batch]).map_err(&error)?;
        }
        denoiser.write("mask", &mask[..tokens * batch]).map_err(&error)?;
        self.meter(phase, 1).at(1);
        Ok(())
    }

    /// The first picture's latents, as the denoiser sees latents.
    fn encode(&mut self) -> Result<Option<Vec<f32>>, ImageError> {
        let Some(init) = &self.request.init else { return Ok(None) };
        let phase = Phase::Encode;
        self.meter(phase, 1).at(0);
        let error = ImageError::at(phase);
        let missing = || ImageError::Model("a plan is missing".into());
        let plan = self.parts.plans.encode.as_mut().ok_or_else(missing)?;
        plan.write("picture", &init.planes()).map_err(&error)?;
        run_plan(plan, phase, self.cancel)?;
        let mut latents: Vec<f32> = plan.read("latents").map_err(&error)?;
        check(&latents, phase, &self.parts.device.info().name)?;
        let area = latents.len() / self.parts.mean.len();
        let scales = self.parts.mean.iter().zip(&self.parts.deviation);
        for (channel, (mean, deviation)) in latents.chunks_exact_mut(area).zip(scales) {
            channel.iter_mut().for_each(|x| *x = (*x - mean) / deviation);
        }
        self.meter(phase, 1).at(1);
        Ok(Some(latents))
    }

    /// How much of each latent is drawn anew, 0 to 1, if there is a mask.
    fn latent_mask(&self) -> Option<Vec<f32>> {
        let mask = self.request.mask.as_ref()?;
        let (side, channels) = (self.parts.denoiser.side, self.parts.denoiser.channels);
        let factor = mask.width() / side;
        // A latent that any white pixel needs is drawn anew; pixels are blended after the decoder.
        let brightest = |row: usize, column: usize| {
            let pixels = (0..factor * factor).map(|at| {
                let (y, x) = (row * factor + at / factor, column * factor + at % factor);
                mask.rgb()[(y * mask.width() + x) * 3]
            });
            f32::from(pixels.max().unwrap_or(0)) / 255.0
        };
        let plane: Vec<f32> = (0..side * side).map(|at| brightest(at / side, at % side)).collect();
        Some(plane.repeat(channels))
    }

    /// Noise, or the first picture with noise on it.
    fn begin(&self, seed: u64, kept: Option<&[f32]>) -> Result<Sampling, ImageError> {
        let request = self.request;
        let points = self.parts.schedule.points(request.scheduler, self.settled.steps)?;
        let noise = Noise::new(request.source, seed);
        Ok(match (kept, request.strength) {
            (Some(kept), Some(strength)) => {
                Sampling::from_latents(request.sampler, &points, kept.to_vec(), strength, noise)?
            }
            _ => {
                let len = self.parts.denoiser.latents();
                Sampling::from_noise(request.sampler, points, len, noise)?
            }
        })
    }

    fn denoise(
        &mut self,
        mut sampling: Sampling,
        kept: Option<&[f32]>,
    ) -> Result<Sampling, ImageError> {
        let phase = Phase::Denoise;
        let mask = self.latent_mask();
        let began = Instant::now();
        let total = sampling.steps();
        while let Some(point) = sampling.point() {
            let mut meter = self.meter(phase, total);
            meter.began = began;
            meter.at(sampling.done());
            let v = self.predict(&sampling.input(), point.timestep)?;
            let mut denoised = sampling.denoised_from_v(&v);
            if let (Some(mask), Some(kept)) = (&mask, kept) {
                let each = denoised.iter_mut().zip(kept).zip(mask);
                each.for_each(|((x, kept), mask)| *x = kept + mask * (*x - kept));
            }
            sampling.advance(&denoised)?;
            self.observer.step(&Checkpoint {
                request: self.request,
                settled: self.settled,
                fingerprint: self.parts.fingerprint,
                picture: self.picture,
                sampling: &sampling,
            });
        }
        let mut meter = self.meter(phase, total);
        meter.began = began;
        meter.at(total);
        Ok(sampling)
    }

    /// v with guidance in it.
    fn predict(&mut self, input: &[f32], timestep: f64) -> Result<Vec<f32>, ImageError> {
        let phase = Phase::Denoise;
        let error = ImageError::at(phase);
        let missing = || ImageError::Model("a plan is missing".into());
        let plan = self.parts.plans.denoise[usize::from(self.guided)].as_mut();
        let plan = plan.ok_or_else(missing)?;
        plan.write("latents", input).map_err(&error)?;
        plan.write("waves", &waves(timestep)).map_err(&error)?;
        run_plan(plan, phase, self.cancel)?;
        let mut v: Vec<f32> = plan.read("prediction").map_err(&error)?;
        check(&v, phase, &self.parts.device.info().name)?;
        if self.guided {
            let away = v.split_off(v.len() / 2);
            let guidance = self.settled.guidance;
            v.iter_mut().zip(away).for_each(|(v, away)| *v = away + guidance * (*v - away));
        }
        Ok(v)
    }

    fn decode(&mut self, latents: &[f32]) -> Result<Picture, ImageError> {
        let phase = Phase::Decode;
        self.meter(phase, 1).at(0);
        let error = ImageError::at(phase);
        let missing = || ImageError::Model("a plan is missing".into());
        let mut latents = latents.to_vec();
        let area = latents.len() / self.parts.mean.len();
        let scales = self.parts.mean.iter().zip(&self.parts.deviation);
        for (channel, (mean, deviation)) in latents.chunks_exact_mut(area).zip(scales) {
            channel.iter_mut().for_each(|x| *x = *x * deviation + mean);
        }
        let side = self.parts.denoiser.side;
        let plan = self.parts.plans.decode.as_mut().ok_or_else(missing)?;
        plan.write("latents", &latents).map_err(&error)?;
        run_plan(plan, phase, self.cancel)?;
        let planes: Vec<f32> = plan.read("picture").map_err(&error)?;
        check(&planes, phase, &self.parts.device.info().name)?;
        let pixels = (planes.len() / 3).isqrt();
        debug_assert!(pixels.is_multiple_of(side));
        let picture = Picture::from_planes(pixels, pixels, &planes)?;
        self.meter(phase, 1).at(1);
        Ok(match (&self.request.init, &self.request.mask) {
            (Some(init), Some(mask)) => init.clone().blended(&picture, mask),
            _ => picture,
        })
    }
}

fn run_plan(plan: &mut Plan, phase: Phase, cancel: &CancelToken) -> Result<(), ImageError> {
    plan.run(&|| cancel.is_cancelled(), PATIENCE).map_err(ImageError::at(phase))
}

/// Numbers that no sound network gives are told at once, with the phase that gave them.
fn check(numbers: &[f32], phase: Phase, device: &str) -> Result<(), ImageError> {
    let broken = |found| Err(ImageError::Broken { phase, found, device: device.into() });
    if numbers.iter().any(|x| !x.is_finite()) {
        return broken("NaN or infinity");
    }
    if numbers.windows(2).all(|pair| pair[0] == pair[1]) {
        return broken("the same number everywhere");
    }
    Ok(())
}
