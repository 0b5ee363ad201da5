//! Normal noise from a seed, equal to PyTorch's generators. It must not know what the noise is for.

mod mt19937;
mod philox;

pub(super) use mt19937::Mt19937;
pub(super) use philox::Philox;
#[cfg(test)]
pub(super) use philox::block as philox_block;

use super::names::{Named, UnknownName, find};

/// Which generator draws the noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RandomSource {
    /// Philox 4×32-10, as `torch.randn(..., device="cuda")` draws.
    Philox,
    /// The Mersenne Twister, as `torch.randn` on a CPU draws.
    Mt19937,
}

impl RandomSource {
    const LIST: [Named<Self>; 2] =
        [(Self::Philox, "cuda", "Philox"), (Self::Mt19937, "cpu", "MT19937")];

    /// The name that users type: the device whose PyTorch generator it equals.
    pub fn name(self) -> &'static str {
        match self {
            Self::Philox => Self::LIST[0].1,
            Self::Mt19937 => Self::LIST[1].1,
        }
    }
}

impl std::fmt::Display for RandomSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for RandomSource {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        find("random source", &Self::LIST, text)
    }
}

/// A generator and where it stands. Each call of [`Noise::normal`] is one `torch.randn`.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise(pub(super) Inner);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Inner {
    Philox(Philox),
    Mt19937(Box<Mt19937>),
}

impl Noise {
    /// `torch.Generator("cuda").manual_seed(seed)`.
    ///
    /// Equal to PyTorch's for tensors of at most (multiprocessors × resident threads) elements, such as
    /// 43 008 on a card with 28 multiprocessors of 1 536 threads; a larger tensor's noise depends on the
    /// card in PyTorch, and here goes on by the rule of small ones.
    pub fn philox(seed: u64) -> Self {
        Self(Inner::Philox(Philox::new(seed)))
    }

    /// `torch.Generator("cpu").manual_seed(seed)`; of the seed it takes the lower 32 bits, as PyTorch does.
    pub fn mt19937(seed: u64) -> Self {
        Self(Inner::Mt19937(Box::new(Mt19937::new(seed))))
    }

    /// The generator of this kind, at its beginning.
    pub fn new(source: RandomSource, seed: u64) -> Self {
        match source {
            RandomSource::Philox => Self::philox(seed),
            RandomSource::Mt19937 => Self::mt19937(seed),
        }
    }

    /// `len` numbers of mean 0 and deviation 1, as one call of `torch.randn(len)` (float32) draws them.
    pub fn normal(&mut self, len: usize) -> Vec<f32> {
        match &mut self.0 {
            Inner::Philox(philox) => philox.normal(len),
            Inner::Mt19937(twister) => twister.normal(len),
        }
    }
}
