//! The samplers, each as the weights of one linear step. It must not know latents or networks.

use super::names::{Named, UnknownName, find};
use super::schedule::Point;

/// How latents go from one noise level to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sampler {
    /// Euler's method on the probability-flow equation (Karras et al. 2022).
    Euler,
    /// Euler with as much fresh noise as ancestral sampling adds (k-diffusion's `euler_ancestral`).
    EulerA,
    /// DDIM with η = 0 (Song et al. 2021); in these variables it is Euler's method.
    Ddim,
    /// DPM-Solver++ of second order, multistep (Lu et al. 2022).
    Dpmpp2m,
    /// The same for the stochastic equation, midpoint form, η = 1. The noise of each step is drawn
    /// independently, not from a Brownian tree.
    Dpmpp2mSde,
    /// Each step denoises fully and adds noise anew (latent consistency models, Luo et al. 2023).
    Lcm,
}

impl Sampler {
    const LIST: [Named<Self>; 6] = [
        (Self::Euler, "euler", "Euler"),
        (Self::EulerA, "euler_a", "Euler a"),
        (Self::Ddim, "ddim", "DDIM"),
        (Self::Dpmpp2m, "dpm++2m", "DPM++ 2M"),
        (Self::Dpmpp2mSde, "dpm++2m_sde", "DPM++ 2M SDE"),
        (Self::Lcm, "lcm", "LCM"),
    ];

    /// Every sampler, in the order of help texts.
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

    /// The weights of the step that begins at `points[step]`; there is a point after it.
    pub(super) fn weights(self, points: &[Point], step: usize) -> Weights {
        let (from, to) = (points[step].sigma, points[step + 1].sigma);
        if to == 0.0 {
            return Weights { denoised: 1.0, ..Weights::default() };
        }
        let keep = |latents: f64, noise: f64| Weights {
            latents,
            denoised: 1.0 - latents,
            previous: 0.0,
            noise,
        };
        let h = (from / to).ln();
        // Half the ratio of this step's length to the last one's, from the second step on.
        let half = (step > 0).then(|| h / (points[step - 1].sigma / from).ln() / 2.0);
        let second_order = |latents: f64, noise: f64| {
            let (step, extra) = (keep(latents, noise), half.unwrap_or(0.0) * (1.0 - latents));
            Weights { denoised: step.denoised + extra, previous: -extra, ..step }
        };
        match self {
            Self::Euler | Self::Ddim => keep(to / from, 0.0),
            Self::EulerA => {
                let up = to.min((to * to * (from * from - to * to)).sqrt() / from);
                keep((to * to - up * up).sqrt() / from, up)
            }
            Self::Dpmpp2m => second_order(to / from, 0.0),
            Self::Dpmpp2mSde => {
                second_order(to / from * (-h).exp(), to * (-(-2.0 * h).exp_m1()).sqrt())
            }
            Self::Lcm => keep(0.0, to),
        }
    }
}

impl std::fmt::Display for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Sampler {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        find("sampler", &Self::LIST, text)
    }
}

/// The next latents are the sum of these weights times what they are named after.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Weights {
    pub(super) latents: f64,
    pub(super) denoised: f64,
    /// Of the step before: its denoised latents.
    pub(super) previous: f64,
    pub(super) noise: f64,
}
