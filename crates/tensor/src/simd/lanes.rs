//! Sixteen f32 lanes in whatever registers the processor has. The operations are the same on each, and
//! so are results, bit for bit: every step rounds once, sums end in one tree.

/// Number of lanes.
pub(super) const LANES: usize = 16;

/// Sixteen lanes. Methods that take slices read their first sixteen items (fewer is a panic).
pub(super) trait Lanes: Copy {
    /// Sixteen lanes are one register of thirty-two: tiles may be large.
    const WIDE: bool;
    fn zero() -> Self;
    fn splat(x: f32) -> Self;
    fn load(from: &[f32]) -> Self;
    /// Sixteen numbers from an address.
    ///
    /// # Safety
    /// They are there.
    unsafe fn read(from: *const f32) -> Self;
    /// Sixteen numbers to an address.
    ///
    /// # Safety
    /// There is room for them.
    unsafe fn write(self, to: *mut f32);
    /// Signed bytes as numbers.
    fn signed(from: &[u8]) -> Self;
    /// `(low >> low_shift & 15) + 16·(high >> high_shift & 3) − 32` of thirty-two bytes each.
    fn six_bits(low: &[u8], low_shift: i32, high: &[u8], high_shift: i32) -> [Self; 2];
    /// Unsigned bytes as numbers.
    fn unsigned(from: &[u8]) -> Self;
    /// f16, from bits.
    fn half(from: &[u16]) -> Self;
    /// One f16, from bits, in all lanes.
    fn splat_half(bits: u16) -> Self;
    /// `table[byte >> shift & 15]` for sixteen bytes.
    fn lookup(bytes: &[u8], shift: i32, table: Self) -> Self;
    /// The same from `set` where the lane's bit of `mask` is set, else from `clear`.
    fn lookup_two(bytes: &[u8], shift: i32, mask: u16, clear: Self, set: Self) -> Self;
    fn store(self, to: &mut [f32]);
    fn mul(self, other: Self) -> Self;
    /// `self·a + b`, rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Halves on halves: lane i joins lane i + 8, then + 4, + 2, + 1.
    fn sum(self) -> f32;
}

/// Plain arrays: any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; LANES]);

impl Lanes for Portable {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn read(from: *const f32) -> Self {
        // SAFETY: sixteen numbers are there, says the caller.
        Portable(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut f32) {
        // SAFETY: there is room for sixteen, says the caller.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    fn zero() -> Self {
        Portable([0.0; LANES])
    }

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Portable([x; LANES])
    }

    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        let from = &from[..LANES];
        Portable(std::array::from_fn(|lane| from[lane]))
    }

    #[inline(always)]
    fn signed(from: &[u8]) -> Self {
        let from = &from[..LANES];
        Portable(std::array::from_fn(|lane| f32::from(from[lane] as i8)))
    }

    #[inline(always)]
    fn six_bits(low: &[u8], low_shift: i32, high: &[u8], high_shift: i32) -> [Self; 2] {
        let (low, high) = (&low[..2 * LANES], &high[..2 * LANES]);
        let value = |at: usize| {
            let q = low[at] >> low_shift & 15 | (high[at] >> high_shift & 3) << 4;
            f32::from(q as i8 - 32)
        };
        [0, LANES].map(|first| Portable(std::array::from_fn(|lane| value(first + lane))))
    }

    #[inline(always)]
    fn unsigned(from: &[u8]) -> Self {
        let from = &from[..LANES];
        Portable(std::array::from_fn(|lane| f32::from(from[lane])))
    }

    #[inline(always)]
    fn splat_half(bits: u16) -> Self {
        Self::splat(super::quant::f16(bits))
    }

    #[inline(always)]
    fn half(from: &[u16]) -> Self {
        let from = &from[..LANES];
        Portable(std::array::from_fn(|lane| super::quant::f16(from[lane])))
    }

    #[inline(always)]
    fn lookup(bytes: &[u8], shift: i32, table: Self) -> Self {
        let bytes = &bytes[..LANES];
        Portable(std::array::from_fn(|lane| table.0[usize::from(bytes[lane] >> shift & 15)]))
    }

    #[inline(always)]
    fn lookup_two(bytes: &[u8], shift: i32, mask: u16, clear: Self, set: Self) -> Self {
        let bytes = &bytes[..LANES];
        Portable(std::array::from_fn(|lane| {
            let table = if mask >> lane & 1 == 1 { &set.0 } else { &clear.0 };
            table[usize::from(bytes[lane] >> shift & 15)]
        }))
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        to[..LANES].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Portable(std::array::from_fn(|lane| self.0[lane] * other.0[lane]))
    }

    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        Portable(std::array::from_fn(|lane| self.0[lane].mul_add(a.0[lane], b.0[lane])))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let mut lanes = self.0;
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
            half /= 2;
        }
        lanes[0]
    }
}

/// Asks for the cache line at `at`, which need not be there.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64; a prefetch does not fault, wherever it points.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_hint = at;
}

/// Bit `bit` of each of the first sixteen bytes.
#[inline(always)]
pub(super) fn bits(bytes: &[u8], bit: usize) -> u16 {
    let bytes = &bytes[..LANES];
    #[cfg(target_arch = "x86_64")]
    return x86::top_bits(bytes, 7 - (bit & 7) as i32);
    #[cfg(not(target_arch = "x86_64"))]
    bytes.iter().rev().fold(0, |mask, byte| mask << 1 | u16::from(byte >> (bit & 7) & 1))
}

/// Something to compute on lanes of any kind.
pub(super) trait OnLanes {
    fn run<L: Lanes>(self);
}

/// Runs `work` on the best lanes of this processor.
#[inline]
pub(super) fn dispatch(work: impl OnLanes) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has what the function is compiled for (just asked).
            return unsafe { x86::on_avx512(work) };
        }
        let fma = std::is_x86_feature_detected!("fma") && std::is_x86_feature_detected!("f16c");
        if std::is_x86_feature_detected!("avx2") && fma {
            // SAFETY: as above.
            return unsafe { x86::on_avx2(work) };
        }
    }
    super::vectorize(
        #[inline(always)]
        || work.run::<Portable>(),
    );
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Lanes of x86-64. These types are only made by code that `dispatch` runs after asking the
    //! processor; that is the fact every block here relies on, besides slices checked to be long
    //! enough for the load beside them.

    use std::arch::x86_64::*;

    use super::{LANES, Lanes, OnLanes};

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    pub(super) fn on_avx512(work: impl OnLanes) {
        work.run::<Avx512>();
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn on_avx2(work: impl OnLanes) {
        work.run::<Avx2>();
    }

    /// Sixteen bytes.
    #[inline(always)]
    fn bytes(from: &[u8]) -> __m128i {
        assert!(from.len() >= LANES);
        // SAFETY: sixteen bytes are there (asserted); SSE2 is part of x86-64.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    /// The top bit of each of sixteen bytes that are shifted left first.
    #[inline(always)]
    pub(super) fn top_bits(from: &[u8], shift: i32) -> u16 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_movemask_epi8(_mm_sll_epi16(bytes(from), _mm_cvtsi32_si128(shift))) as u16 }
    }

    /// Thirty-two six-bit values less 32, as bytes.
    #[inline(always)]
    fn six(low: &[u8], low_shift: i32, high: &[u8], high_shift: i32) -> [__m128i; 2] {
        assert!(low.len() >= 2 * LANES && high.len() >= 2 * LANES);
        // SAFETY: module rule; thirty-two bytes of both are there (asserted).
        unsafe {
            let low = _mm256_loadu_si256(low.as_ptr().cast());
            let high = _mm256_loadu_si256(high.as_ptr().cast());
            let low = _mm256_srl_epi16(low, _mm_cvtsi32_si128(low_shift));
            let low = _mm256_and_si256(low, _mm256_set1_epi8(15));
            let high = _mm256_srl_epi16(high, _mm_cvtsi32_si128(high_shift));
            let high = _mm256_slli_epi16::<4>(_mm256_and_si256(high, _mm256_set1_epi8(3)));
            let all = _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
            [_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all)]
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Avx512(__m512);

    impl Avx512 {
        #[inline(always)]
        fn of_bytes(bytes: __m128i) -> Self {
            // SAFETY: module rule.
            Avx512(unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)) })
        }
    }

    impl Lanes for Avx512 {
        const WIDE: bool = true;

        #[inline(always)]
        unsafe fn read(from: *const f32) -> Self {
            // SAFETY: module rule; sixteen numbers are there, says the caller.
            Avx512(unsafe { _mm512_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn write(self, to: *mut f32) {
            // SAFETY: module rule; there is room for sixteen, says the caller.
            unsafe { _mm512_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        fn zero() -> Self {
            // SAFETY: module rule.
            Avx512(unsafe { _mm512_setzero_ps() })
        }

        #[inline(always)]
        fn splat(x: f32) -> Self {
            // SAFETY: module rule.
            Avx512(unsafe { _mm512_set1_ps(x) })
        }

        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            assert!(from.len() >= LANES);
            // SAFETY: module rule; sixteen numbers are there (asserted).
            Avx512(unsafe { _mm512_loadu_ps(from.as_ptr()) })
        }

        #[inline(always)]
        fn signed(from: &[u8]) -> Self {
            Self::of_bytes(bytes(from))
        }

        #[inline(always)]
        fn six_bits(low: &[u8], low_shift: i32, high: &[u8], high_shift: i32) -> [Self; 2] {
            let [first, second] = six(low, low_shift, high, high_shift);
            [Self::of_bytes(first), Self::of_bytes(second)]
        }

        #[inline(always)]
        fn unsigned(from: &[u8]) -> Self {
            // SAFETY: module rule.
            Avx512(unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes(from))) })
        }

        #[inline(always)]
        fn splat_half(bits: u16) -> Self {
            // SAFETY: module rule.
            Avx512(unsafe { _mm512_cvtph_ps(_mm256_set1_epi16(bits as i16)) })
        }

        #[inline(always)]
        fn half(from: &[u16]) -> Self {
            assert!(from.len() >= LANES);
            // SAFETY: module rule; sixteen halves are there (asserted).
            Avx512(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) })
        }

        #[inline(always)]
        fn lookup(from: &[u8], shift: i32, table: Self) -> Self {
            let bytes = bytes(from);
            // SAFETY: module rule. A permutation takes the low four bits of its index.
            unsafe {
                let at = _mm512_cvtepu8_epi32(bytes);
                let at = _mm512_srl_epi32(at, _mm_cvtsi32_si128(shift));
                Avx512(_mm512_permutexvar_ps(at, table.0))
            }
        }

        #[inline(always)]
        fn lookup_two(from: &[u8], shift: i32, mask: u16, clear: Self, set: Self) -> Self {
            let bytes = bytes(from);
            // SAFETY: as above.
            unsafe {
                let at = _mm512_cvtepu8_epi32(bytes);
                let at = _mm512_srl_epi32(at, _mm_cvtsi32_si128(shift));
                let clear = _mm512_permutexvar_ps(at, clear.0);
                Avx512(_mm512_mask_permutexvar_ps(clear, mask, at, set.0))
            }
        }

        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            assert!(to.len() >= LANES);
            // SAFETY: module rule; there is room for sixteen numbers (asserted).
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
        }

        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            // SAFETY: module rule.
            Avx512(unsafe { _mm512_mul_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            // SAFETY: module rule.
            Avx512(unsafe { _mm512_fmadd_ps(self.0, a.0, b.0) })
        }

        #[inline(always)]
        fn sum(self) -> f32 {
            // SAFETY: module rule.
            unsafe {
                let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self.0)));
                sum_8(_mm256_add_ps(_mm512_castps512_ps256(self.0), upper))
            }
        }
    }

    /// The last three steps of a sum.
    #[inline(always)]
    fn sum_8(lanes: __m256) -> f32 {
        // SAFETY: module rule.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Avx2(__m256, __m256);

    impl Avx2 {
        /// Sixteen bytes, shifted, as indices.
        #[inline(always)]
        fn indices(from: &[u8], shift: i32) -> [__m256i; 2] {
            let bytes = bytes(from);
            // SAFETY: module rule.
            unsafe {
                let shift = _mm_cvtsi32_si128(shift);
                let low = _mm256_cvtepu8_epi32(bytes);
                let high = _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes));
                [_mm256_srl_epi32(low, shift), _mm256_srl_epi32(high, shift)]
            }
        }

        /// Of sixteen entries those that the low four bits of each index name.
        #[inline(always)]
        fn at(self, index: __m256i) -> __m256 {
            // SAFETY: module rule. A permutation takes the low three bits; the fourth chooses the half.
            unsafe {
                let low = _mm256_permutevar8x32_ps(self.0, index);
                let high = _mm256_permutevar8x32_ps(self.1, index);
                let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index));
                _mm256_blendv_ps(low, high, upper)
            }
        }

        #[inline(always)]
        fn of_bytes(bytes: __m128i) -> Self {
            // SAFETY: module rule.
            unsafe {
                let upper = _mm_srli_si128::<8>(bytes);
                Avx2(
                    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(upper)),
                )
            }
        }
    }

    impl Lanes for Avx2 {
        const WIDE: bool = false;

        #[inline(always)]
        unsafe fn read(from: *const f32) -> Self {
            // SAFETY: module rule; sixteen numbers are there, says the caller.
            unsafe { Avx2(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
        }

        #[inline(always)]
        unsafe fn write(self, to: *mut f32) {
            // SAFETY: module rule; there is room for sixteen, says the caller.
            unsafe {
                _mm256_storeu_ps(to, self.0);
                _mm256_storeu_ps(to.add(8), self.1);
            }
        }

        #[inline(always)]
        fn zero() -> Self {
            Self::splat(0.0)
        }

        #[inline(always)]
        fn splat(x: f32) -> Self {
            // SAFETY: module rule.
            unsafe { Avx2(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
        }

        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            assert!(from.len() >= LANES);
            // SAFETY: module rule; sixteen numbers are there (asserted).
            unsafe { Avx2(_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))) }
        }

        #[inline(always)]
        fn signed(from: &[u8]) -> Self {
            Self::of_bytes(bytes(from))
        }

        #[inline(always)]
        fn six_bits(low: &[u8], low_shift: i32, high: &[u8], high_shift: i32) -> [Self; 2] {
            let [first, second] = six(low, low_shift, high, high_shift);
            [Self::of_bytes(first), Self::of_bytes(second)]
        }

        #[inline(always)]
        fn unsigned(from: &[u8]) -> Self {
            let [low, high] = Self::indices(from, 0);
            // SAFETY: module rule.
            unsafe { Avx2(_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)) }
        }

        #[inline(always)]
        fn splat_half(bits: u16) -> Self {
            // SAFETY: module rule.
            let half = unsafe { _mm256_cvtph_ps(_mm_set1_epi16(bits as i16)) };
            Avx2(half, half)
        }

        #[inline(always)]
        fn half(from: &[u16]) -> Self {
            assert!(from.len() >= LANES);
            let from = from.as_ptr().cast::<__m128i>();
            // SAFETY: module rule; sixteen halves are there (asserted).
            unsafe {
                let (low, high) = (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
                Avx2(_mm256_cvtph_ps(low), _mm256_cvtph_ps(high))
            }
        }

        #[inline(always)]
        fn lookup(from: &[u8], shift: i32, table: Self) -> Self {
            let [low, high] = Self::indices(from, shift);
            Avx2(table.at(low), table.at(high))
        }

        #[inline(always)]
        fn lookup_two(from: &[u8], shift: i32, mask: u16, clear: Self, set: Self) -> Self {
            let [low, high] = Self::indices(from, shift);
            // SAFETY: module rule.
            unsafe {
                let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
                let picks = |mask: i32| {
                    let own = _mm256_and_si256(_mm256_set1_epi32(mask), bits);
                    _mm256_castsi256_ps(_mm256_cmpeq_epi32(own, bits))
                };
                let pick = |at, mask| _mm256_blendv_ps(clear.at(at), set.at(at), picks(mask));
                Avx2(pick(low, i32::from(mask)), pick(high, i32::from(mask >> 8)))
            }
        }

        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            assert!(to.len() >= LANES);
            // SAFETY: module rule; there is room for sixteen numbers (asserted).
            unsafe {
                _mm256_storeu_ps(to.as_mut_ptr(), self.0);
                _mm256_storeu_ps(to.as_mut_ptr().add(8), self.1);
            }
        }

        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            // SAFETY: module rule.
            unsafe { Avx2(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1)) }
        }

        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            // SAFETY: module rule.
            unsafe { Avx2(_mm256_fmadd_ps(self.0, a.0, b.0), _mm256_fmadd_ps(self.1, a.1, b.1)) }
        }

        #[inline(always)]
        fn sum(self) -> f32 {
            // SAFETY: module rule.
            sum_8(unsafe { _mm256_add_ps(self.0, self.1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation once, into bits.
    struct Everything<'a>(&'a [u8], &'a [f32], &'a mut Vec<u32>);

    impl OnLanes for Everything<'_> {
        fn run<L: Lanes>(self) {
            let Everything(bytes, x, out) = self;
            let halves: Vec<u16> =
                bytes[..32].chunks(2).map(|b| u16::from(b[0]) << 6 | 1).collect();
            let mut show = |lanes: L| {
                let mut all = [0.0; LANES];
                lanes.store(&mut all);
                out.extend(all.map(f32::to_bits));
                out.push(lanes.sum().to_bits());
            };
            let (a, b) = (L::load(x), L::load(&x[LANES..]));
            show(a.mul_add(b, L::zero()));
            show(a.mul(b).mul_add(L::splat(0.3), a));
            show(L::signed(bytes));
            show(L::half(&halves));
            for shift in [0, 2, 4, 6] {
                show(L::lookup(bytes, shift, a));
                show(L::lookup_two(bytes, shift, 0b1011_0010_1110_0101, a, b));
            }
            for group in 0..4 {
                let both = L::six_bits(bytes, 4 * (group / 2), &bytes[16..], 2 * group);
                both.into_iter().for_each(&mut show);
            }
            show(L::unsigned(bytes));
            show(L::splat_half(halves[3]));
        }
    }

    #[test]
    fn all_lanes_give_the_same_bits() {
        let mut random = fastrand::Rng::new();
        let bytes: Vec<u8> = (0..64).map(|_| random.u8(..)).collect();
        let x: Vec<f32> = (0..64).map(|_| random.f32() - 0.5).collect();
        let (mut best, mut plain) = (Vec::new(), Vec::new());
        dispatch(Everything(&bytes, &x, &mut best));
        Everything(&bytes, &x, &mut plain).run::<Portable>();
        assert_eq!(best, plain);
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            let mut avx2 = Vec::new();
            // SAFETY: the processor has AVX2 and FMA (asked), and with them F16C.
            unsafe { x86::on_avx2(Everything(&bytes, &x, &mut avx2)) };
            assert_eq!(avx2, plain);
        }
    }
}
