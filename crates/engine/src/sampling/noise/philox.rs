//! Philox 4×32 with ten rounds (Salmon et al. 2011) as cuRAND and PyTorch's CUDA generator use it.

/// A seed and the number of draws so far.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sampling) struct Philox {
    pub(in crate::sampling) seed: u64,
    pub(in crate::sampling) draws: u64,
}

impl Philox {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, draws: 0 }
    }

    /// One `torch.randn` of a tensor small enough that each element has a thread of its own: the
    /// thread's number is the subsequence, it draws four numbers and keeps the first, and the call
    /// moves the offset by the four.
    pub(super) fn normal(&mut self, len: usize) -> Vec<f32> {
        let numbers = (0..len as u64).map(|thread| {
            let [x, y, ..] = block(self.seed, self.draws, thread);
            first_normal(x, y)
        });
        let numbers = numbers.collect();
        self.draws += u64::from(len > 0);
        numbers
    }
}

/// Four words at counter (low: `offset`, high: `subsequence`) under the key `seed`.
pub(in crate::sampling) fn block(seed: u64, offset: u64, subsequence: u64) -> [u32; 4] {
    const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let halves = |word: u64| [word as u32, (word >> 32) as u32];
    let ([a, b], [c, d]) = (halves(offset), halves(subsequence));
    let mut counter = [a, b, c, d];
    let mut key = halves(seed);
    for _ in 0..10 {
        let [low0, high0] = halves(MULTIPLIERS[0] * u64::from(counter[0]));
        let [low1, high1] = halves(MULTIPLIERS[1] * u64::from(counter[2]));
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// cuRAND's Box-Muller: both uniforms lie half a step above a multiple of 2⁻³², and the sine comes
/// first. Constants and products are rounded to f32 as there; the device's fast sine and logarithm are not
/// imitated, so that the last bits differ.
fn first_normal(x: u32, y: u32) -> f32 {
    const STEP: f32 = 1.0 / 4_294_967_296.0;
    const TURN: f32 = STEP * std::f32::consts::TAU;
    let u = (x as f32).mul_add(STEP, STEP / 2.0);
    let v = (y as f32).mul_add(TURN, TURN / 2.0);
    let radius = (-2.0 * f64::from(u).ln()).sqrt();
    (radius * f64::from(v).sin()) as f32
}
