//! Diffusion sampling apart from any network: noise that equals PyTorch's, schedules of sigmas,
//! samplers as states that can be saved between steps. It must not know models, devices or pictures.
//!
//! Latents are kept as k-diffusion keeps them, x = clean + σ · noise, where σ = √((1 − ᾱ) / ᾱ);
//! a network sees x / √(1 + σ²). One [`Sampling`] carries one picture:
//!
//! ```
//! use tintype::sampling::{Noise, Sampler, Sampling, Schedule, Scheduler};
//!
//! let schedule = Schedule::linear(1000, 1e-4, 0.02)?;
//! let points = schedule.points(Scheduler::Trailing, 20)?;
//! assert_eq!(points[0].timestep, 999.0);
//! let noise = Noise::philox(900);
//! let mut sampling = Sampling::from_noise(Sampler::Ddim, points, 4 * 16 * 16, noise)?;
//! while let Some(point) = sampling.point() {
//!     let input = sampling.input();
//!     let v = vec![0.0; input.len()]; // the network at `input` and `point.timestep`
//!     sampling.advance(&sampling.denoised_from_v(&v))?;
//! }
//! # Ok::<(), tintype::sampling::SamplingError>(())
//! ```

mod checkpoint;
mod error;
mod names;
mod noise;
mod schedule;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub use error::SamplingError;
pub use names::UnknownName;
pub use noise::{Noise, RandomSource};
pub use schedule::{Point, Schedule, Scheduler};
pub use state::Sampling;
pub use step::Sampler;
