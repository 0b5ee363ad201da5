//! Which noise levels a picture passes through: a model's schedule of training, and the ways to pick
//! steps from it. It must not know samplers.

use super::error::SamplingError;
use super::names::{Named, UnknownName, find};

/// One noise level on the way: where the network is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Noise per signal, √((1 − ᾱ) / ᾱ); 0 at the end.
    pub sigma: f64,
    /// The network's timestep, fractional between two of training.
    pub timestep: f64,
}

/// How steps are spread over a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Equal steps in time, from the last timestep to the first, then 0 (k-diffusion's own; "normal").
    Discrete,
    /// Equal steps in σ^(1/7) (Karras et al. 2022, equation 5).
    Karras,
    /// Every (timesteps / steps)-th timestep from the last, rounded down (ComfyUI's "simple").
    Simple,
    /// As discrete with one step more, whose last is dropped (Stability's generative models).
    SgmUniform,
    /// Every (timesteps / steps)-th timestep from the last, rounded to the nearest (diffusers'
    /// "trailing"; Lin et al. 2024).
    Trailing,
}

impl Scheduler {
    const LIST: [Named<Self>; 5] = [
        (Self::Discrete, "discrete", "Normal"),
        (Self::Karras, "karras", "Karras"),
        (Self::Simple, "simple", "Simple"),
        (Self::SgmUniform, "sgm_uniform", "SGM Uniform"),
        (Self::Trailing, "trailing", "DDIM Trailing"),
    ];

    /// Every scheduler, in the order of help texts.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::LIST.iter().map(|row| row.0)
    }

    /// The name that users type.
    pub fn name(self) -> &'static str {
        Self::LIST[self as usize].1
    }

    /// What A1111's parameters call it.
    pub fn label(self) -> &'static str {
        Self::LIST[self as usize].2
    }
}

impl std::fmt::Display for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Scheduler {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        find("scheduler", &Self::LIST, text)
    }
}

/// The noise levels that a model was trained on, one a timestep, rising.
///
/// Computed in float64; PyTorch code that cumulates in float32 differs by up to about 2e-5.
#[derive(Debug, Clone)]
pub struct Schedule {
    log_sigmas: Vec<f64>,
}

impl Schedule {
    /// Betas that rise in equal steps, as DDPM's and PixArt's do (1e-4 to 0.02).
    ///
    /// # Errors
    /// Fewer than two timesteps, or betas outside (0, 1).
    pub fn linear(timesteps: usize, first: f64, last: f64) -> Result<Self, SamplingError> {
        Self::from_betas(timesteps, |part| first + (last - first) * part)
    }

    /// Betas whose square roots rise in equal steps, as Stable Diffusion's do (0.00085 to 0.012).
    ///
    /// # Errors
    /// As [`Schedule::linear`].
    pub fn scaled_linear(timesteps: usize, first: f64, last: f64) -> Result<Self, SamplingError> {
        let (first, last) = (first.sqrt(), last.sqrt());
        Self::from_betas(timesteps, |part| (first + (last - first) * part).powi(2))
    }

    fn from_betas(count: usize, beta: impl Fn(f64) -> f64) -> Result<Self, SamplingError> {
        if !(2..=1_000_000).contains(&count) {
            let message = format!("{count} timesteps; 2 to 1000000 are allowed");
            return Err(SamplingError::Schedule(message));
        }
        let mut alphas_cumprod = Vec::with_capacity(count);
        let mut product = 1.0;
        for t in 0..count {
            let beta = beta(t as f64 / (count - 1) as f64);
            if !(beta > 0.0 && beta < 1.0) {
                let message = format!("beta {beta} at timestep {t}; it must lie between 0 and 1");
                return Err(SamplingError::Schedule(message));
            }
            product *= 1.0 - beta;
            alphas_cumprod.push(product);
        }
        Self::from_alphas_cumprod(&alphas_cumprod)
    }

    /// A schedule by its cumulated alphas ᾱ, one a timestep.
    ///
    /// # Errors
    /// Fewer than two, or numbers that do not fall within (0, 1).
    pub fn from_alphas_cumprod(alphas: &[f64]) -> Result<Self, SamplingError> {
        let inside = alphas.iter().all(|a| *a > 0.0 && *a < 1.0);
        if alphas.len() < 2 || !inside || alphas.windows(2).any(|pair| pair[0] <= pair[1]) {
            let message = "cumulated alphas must be two or more, within (0, 1), and fall".into();
            return Err(SamplingError::Schedule(message));
        }
        Ok(Self { log_sigmas: alphas.iter().map(|a| ((1.0 - a) / a).ln() / 2.0).collect() })
    }

    /// How many timesteps the model was trained on.
    pub fn timesteps(&self) -> usize {
        self.log_sigmas.len()
    }

    /// The noise level at a timestep; between two, log σ is interpolated.
    pub fn sigma(&self, timestep: f64) -> f64 {
        let last = self.timesteps() - 1;
        let timestep = timestep.clamp(0.0, last as f64);
        let below = (timestep as usize).min(last - 1);
        let part = timestep - below as f64;
        ((1.0 - part) * self.log_sigmas[below] + part * self.log_sigmas[below + 1]).exp()
    }

    /// The timestep of a noise level, the inverse of [`Schedule::sigma`]; clamped to the schedule.
    pub fn timestep(&self, sigma: f64) -> f64 {
        let log = sigma.ln();
        let above = self.log_sigmas.partition_point(|l| *l <= log);
        let below = above.saturating_sub(1).min(self.timesteps() - 2);
        let (low, high) = (self.log_sigmas[below], self.log_sigmas[below + 1]);
        below as f64 + ((log - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// `steps` points and the end (σ = 0), from the noisiest on. Each but karras' begins exactly at the last
    /// timestep, and so does karras' up to rounding.
    ///
    /// # Errors
    /// No step, or more steps than timesteps.
    pub fn points(&self, scheduler: Scheduler, steps: usize) -> Result<Vec<Point>, SamplingError> {
        let timesteps = self.timesteps();
        if !(1..=timesteps).contains(&steps) {
            return Err(SamplingError::Steps { steps, timesteps });
        }
        let last = (timesteps - 1) as f64;
        let stride = timesteps as f64 / steps as f64;
        let at = |timestep: f64| Point { sigma: self.sigma(timestep), timestep };
        let part = |step: usize, of: usize| step as f64 / of.max(1) as f64;
        let point = |step: usize| match scheduler {
            Scheduler::Discrete => at(last * (1.0 - part(step, steps - 1))),
            Scheduler::SgmUniform => at(last * (1.0 - part(step, steps))),
            Scheduler::Simple => at(last - (step as f64 * stride).floor()),
            Scheduler::Trailing => {
                at((timesteps as f64 - step as f64 * stride).round_ties_even() - 1.0)
            }
            Scheduler::Karras => {
                const RHO: f64 = 7.0;
                let root = |timestep: f64| self.sigma(timestep).powf(1.0 / RHO);
                let (max, min) = (root(last), root(0.0));
                let sigma = (max + (min - max) * part(step, steps - 1)).powf(RHO);
                Point { sigma, timestep: self.timestep(sigma) }
            }
        };
        let mut points: Vec<Point> = (0..steps).map(point).collect();
        points.push(Point { sigma: 0.0, timestep: 0.0 });
        Ok(points)
    }
}

/// The end of `points` that repaints a picture with `strength`: ⌊steps · strength⌋ steps, at least one.
///
/// # Errors
/// A strength outside (0, 1].
pub(super) fn by_strength(points: &[Point], strength: f32) -> Result<&[Point], SamplingError> {
    if !(strength > 0.0 && strength <= 1.0) {
        return Err(SamplingError::Strength(strength));
    }
    let steps = points.len().saturating_sub(1);
    // In f32, where 10 · 0.9 is 9; in f64, the f32 nearest to 0.9 would give 8.
    let kept = ((steps as f32 * strength) as usize).max(1).min(steps);
    Ok(&points[steps - kept..])
}
