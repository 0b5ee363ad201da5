//! A sampling as bytes and back, bit for bit. It must not know files.

use super::error::SamplingError;
use super::noise::{Inner, Mt19937, Noise, Philox};
use super::schedule::Point;
use super::state::{Sampling, check};
use super::step::Sampler;

const MAGIC: &[u8; 8] = b"ttsampl1";

impl Sampling {
    /// The state as bytes, little-endian.
    pub fn save(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut word = |value: u64| bytes.extend(value.to_le_bytes());
        word(self.sampler as u64);
        word(self.step as u64);
        for length in [self.points.len(), self.latents.len(), self.previous.len()] {
            word(length as u64);
        }
        for point in &self.points {
            word(point.sigma.to_bits());
            word(point.timestep.to_bits());
        }
        for number in self.latents.iter().chain(&self.previous) {
            word(u64::from(number.to_bits()));
        }
        match &self.noise.0 {
            Inner::Philox(philox) => [0, philox.seed, philox.draws].into_iter().for_each(&mut word),
            Inner::Mt19937(twister) => {
                let spare = twister.spare.map_or([0, 0], |spare| [1, spare.to_bits()]);
                [1, twister.next as u64, spare[0], spare[1]].into_iter().for_each(&mut word);
                twister.words.iter().for_each(|w| word(u64::from(*w)));
            }
        }
        bytes
    }

    /// The state that [`Sampling::save`] wrote.
    ///
    /// # Errors
    /// Bytes that are no such state, or one that cannot be.
    pub fn restore(bytes: &[u8]) -> Result<Self, SamplingError> {
        let bad = |what: &str| SamplingError::Checkpoint(what.into());
        let body = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("it does not begin as one"))?;
        let (words, rest) = body.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(bad("it is cut off"));
        }
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let left = words.len();
        let mut word = || words.next().ok_or_else(|| bad("it is cut off"));
        let index = word()?;
        let sampler = Sampler::all().find(|s| *s as u64 == index);
        let sampler = sampler.ok_or_else(|| bad("its sampler is unknown"))?;
        let mut size = || match usize::try_from(word()?) {
            // Each number takes a word, so a length past the file's is known before it is allocated.
            Ok(size) if size <= left => Ok(size),
            _ => Err(bad("a length is larger than the whole")),
        };
        let [step, points, latents, previous] = [size()?, size()?, size()?, size()?];
        let mut point =
            |_| Ok(Point { sigma: f64::from_bits(word()?), timestep: f64::from_bits(word()?) });
        let points = (0..points).map(&mut point).collect::<Result<Vec<_>, SamplingError>>()?;
        check(&points)?;
        let mut number = |_| {
            let bits = u32::try_from(word()?).map_err(|_| bad("a number is too wide"))?;
            Ok(f32::from_bits(bits))
        };
        let latents = (0..latents).map(&mut number).collect::<Result<Vec<_>, SamplingError>>()?;
        let previous = (0..previous).map(&mut number).collect::<Result<Vec<_>, SamplingError>>()?;
        let expected = if step == 0 { 0 } else { latents.len() };
        if step >= points.len() || previous.len() != expected {
            return Err(bad("its parts contradict each other"));
        }
        let noise = match word()? {
            0 => Inner::Philox(Philox { seed: word()?, draws: word()? }),
            1 => {
                let next = usize::try_from(word()?).map_err(|_| bad("a length is too wide"))?;
                let spare = match (word()?, word()?) {
                    (0, _) => None,
                    (_, bits) => Some(f64::from_bits(bits)),
                };
                let mut state = Mt19937 { next, spare, ..Mt19937::new(0) };
                for slot in &mut state.words {
                    *slot = word()? as u32;
                }
                Inner::Mt19937(Box::new(state))
            }
            _ => return Err(bad("its generator is unknown")),
        };
        if word().is_ok() {
            return Err(bad("something follows its end"));
        }
        Ok(Self { sampler, points, step, latents, previous, noise: Noise(noise) })
    }
}
