//! One picture on its way through the noise levels. It must not know networks.

use super::error::SamplingError;
use super::noise::Noise;
use super::schedule::{Point, by_strength};
use super::step::Sampler;

/// Latents between two steps, and all that the steps to come need. A copy of it goes on bit for bit
/// as the original does; [`Sampling::save`] makes bytes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    pub(super) sampler: Sampler,
    pub(super) points: Vec<Point>,
    pub(super) step: usize,
    pub(super) latents: Vec<f32>,
    /// The denoised latents of the step before; empty before the first.
    pub(super) previous: Vec<f32>,
    pub(super) noise: Noise,
}

impl Sampling {
    /// Latents of `len` numbers that begin as noise, √(1 + σ²) times it, so that a network's first
    /// input is the noise itself.
    ///
    /// # Errors
    /// Points that do not fall to 0.
    pub fn from_noise(
        sampler: Sampler,
        points: Vec<Point>,
        len: usize,
        mut noise: Noise,
    ) -> Result<Self, SamplingError> {
        check(&points)?;
        let scale = points[0].sigma.hypot(1.0) as f32;
        let latents = noise.normal(len).into_iter().map(|n| n * scale).collect();
        Ok(Self { sampler, points, step: 0, latents, previous: vec![], noise })
    }

    /// Latents of a picture with noise added; the last ⌊steps · strength⌋ steps, at least one, are run.
    ///
    /// # Errors
    /// A strength outside (0, 1]; points that do not fall to 0.
    pub fn from_latents(
        sampler: Sampler,
        points: &[Point],
        mut latents: Vec<f32>,
        strength: f32,
        mut noise: Noise,
    ) -> Result<Self, SamplingError> {
        check(points)?;
        let points = by_strength(points, strength)?.to_vec();
        let sigma = points[0].sigma as f32;
        let added = noise.normal(latents.len());
        latents.iter_mut().zip(added).for_each(|(x, n)| *x += sigma * n);
        Ok(Self { sampler, points, step: 0, latents, previous: vec![], noise })
    }

    /// Where the network is asked next, or `None` at the end.
    pub fn point(&self) -> Option<Point> {
        (self.step < self.steps()).then(|| self.points[self.step])
    }

    /// Steps in all.
    pub fn steps(&self) -> usize {
        self.points.len() - 1
    }

    /// Steps done.
    pub fn done(&self) -> usize {
        self.step
    }

    /// The latents, x = clean + σ · noise; the finished ones at the end.
    pub fn latents(&self) -> &[f32] {
        &self.latents
    }

    /// What a network is given at the current point: x / √(1 + σ²).
    pub fn input(&self) -> Vec<f32> {
        let scale = self.points[self.step].sigma.hypot(1.0).recip() as f32;
        self.latents.iter().map(|x| x * scale).collect()
    }

    /// The denoised latents that a network's v at the current point means (Salimans and Ho 2022).
    pub fn denoised_from_v(&self, v: &[f32]) -> Vec<f32> {
        let sigma = self.points[self.step].sigma;
        let scale = sigma.hypot(1.0).recip();
        let (keep, take) = ((scale * scale) as f32, (sigma * scale) as f32);
        self.latents.iter().zip(v).map(|(x, v)| keep * x - take * v).collect()
    }

    /// The denoised latents that a network's ε at the current point means: x − σ · ε.
    pub fn denoised_from_epsilon(&self, epsilon: &[f32]) -> Vec<f32> {
        let sigma = self.points[self.step].sigma as f32;
        self.latents.iter().zip(epsilon).map(|(x, e)| x - sigma * e).collect()
    }

    /// One step, by the denoised latents at the current point. After an error the state is as before.
    ///
    /// # Errors
    /// A slice of another length, NaN or infinity in it, or no step left.
    pub fn advance(&mut self, denoised: &[f32]) -> Result<(), SamplingError> {
        let (steps, expected) = (self.steps(), self.latents.len());
        if self.step >= steps {
            return Err(SamplingError::Done(steps));
        }
        if denoised.len() != expected {
            let (what, len) = ("the denoised prediction", denoised.len());
            return Err(SamplingError::Length { what, len, expected });
        }
        if let Some(index) = denoised.iter().position(|d| !d.is_finite()) {
            let (step, what) = (self.step + 1, "the denoised prediction");
            return Err(SamplingError::NotFinite { step, steps, what, index });
        }
        let weights = self.sampler.weights(&self.points, self.step);
        let noise = if weights.noise == 0.0 { vec![] } else { self.noise.normal(expected) };
        let at = |slice: &[f32], i: usize| slice.get(i).copied().map_or(0.0, f64::from);
        for (i, x) in self.latents.iter_mut().enumerate() {
            *x = (weights.latents * f64::from(*x)
                + weights.denoised * at(denoised, i)
                + weights.previous * at(&self.previous, i)
                + weights.noise * at(&noise, i)) as f32;
        }
        self.previous = denoised.to_vec();
        self.step += 1;
        Ok(())
    }
}

/// At least one step, from noisier to cleaner, to 0.
pub(super) fn check(points: &[Point]) -> Result<(), SamplingError> {
    let falls = points.windows(2).all(|pair| pair[0].sigma > pair[1].sigma);
    let finite = points.iter().all(|p| p.sigma.is_finite() && p.timestep.is_finite());
    if points.len() < 2 || !falls || !finite || points.last().is_none_or(|p| p.sigma != 0.0) {
        return Err(SamplingError::Schedule("noise levels must fall, and end at 0".into()));
    }
    Ok(())
}
