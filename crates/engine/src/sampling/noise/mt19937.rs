//! The Mersenne Twister (Matsumoto and Nishimura 1998) as PyTorch's CPU generator uses it: 16 or more
//! float32 normals are made in blocks of sixteen, fewer come one by one from doubles.

use std::f64::consts::TAU;

const WORDS: usize = 624;
const MIDDLE: usize = 397;
/// `randn` of at least so many elements works in blocks of so many.
const BLOCK: usize = 16;

/// The state of the generator.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sampling) struct Mt19937 {
    pub(in crate::sampling) words: [u32; WORDS],
    /// The next word to give out; [`WORDS`] when all are spent.
    pub(in crate::sampling) next: usize,
    /// The second of a pair of normals, kept for the next element of a small tensor.
    pub(in crate::sampling) spare: Option<f64>,
}

impl Mt19937 {
    pub(in crate::sampling) fn new(seed: u64) -> Self {
        let mut words = [0; WORDS];
        words[0] = seed as u32;
        for i in 1..WORDS {
            let last: u32 = words[i - 1];
            words[i] = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { words, next: WORDS, spare: None }
    }

    pub(super) fn normal(&mut self, len: usize) -> Vec<f32> {
        if len < BLOCK {
            return (0..len).map(|_| self.one() as f32).collect();
        }
        let mut numbers: Vec<f32> = (0..len).map(|_| self.uniform_f32()).collect();
        let (blocks, rest) = numbers.as_chunks_mut::<BLOCK>();
        blocks.iter_mut().for_each(to_normals);
        // What is left over is drawn anew together with elements before it.
        if !rest.is_empty() {
            let mut last = [0.0; BLOCK];
            last.fill_with(|| self.uniform_f32());
            to_normals(&mut last);
            numbers[len - BLOCK..].copy_from_slice(&last);
        }
        numbers
    }

    /// Box-Muller in double precision, two normals a time.
    fn one(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let (angle, u) = (TAU * self.uniform_f64(), self.uniform_f64());
        let radius = (-2.0 * (-u).ln_1p()).sqrt();
        self.spare = Some(radius * angle.sin());
        radius * angle.cos()
    }

    /// 24 bits of one word, in [0, 1).
    fn uniform_f32(&mut self) -> f32 {
        (self.word() & 0xFF_FFFF) as f32 / 16_777_216.0
    }

    /// 53 bits of two words, the first of them the higher, in [0, 1).
    fn uniform_f64(&mut self) -> f64 {
        let (high, low) = (u64::from(self.word()), u64::from(self.word()));
        ((high << 32 | low) & ((1 << 53) - 1)) as f64 / (1_u64 << 53) as f64
    }

    fn word(&mut self) -> u32 {
        if self.next >= WORDS {
            self.twist();
        }
        let mut word = self.words[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9D2C_5680;
        word ^= (word << 15) & 0xEFC6_0000;
        word ^ (word >> 18)
    }

    fn twist(&mut self) {
        for i in 0..WORDS {
            let joined =
                (self.words[i] & 0x8000_0000) | (self.words[(i + 1) % WORDS] & 0x7FFF_FFFF);
            let odd = if joined & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.words[i] = self.words[(i + MIDDLE) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }
}

/// Sixteen uniforms into sixteen normals: element j's radius and element j + 8's angle. The kernel that
/// PyTorch picks for a processor may differ in the last bit of a logarithm or a sine.
fn to_normals(block: &mut [f32; BLOCK]) {
    for j in 0..BLOCK / 2 {
        let u = f64::from(1.0 - block[j]);
        let angle = f64::from(std::f32::consts::TAU * block[j + BLOCK / 2]);
        let radius = (-2.0 * u.ln()).sqrt();
        block[j] = (radius * angle.cos()) as f32;
        block[j + BLOCK / 2] = (radius * angle.sin()) as f32;
    }
}
