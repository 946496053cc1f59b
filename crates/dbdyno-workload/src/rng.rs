//! Seeds and streams of random numbers that never change between versions.
//!
//! A [`Seed`] names a stream; [`Seed::derive`] makes the seed of a part (a client, a table, an arrival schedule) from
//! the seed of the whole, so that parts never share numbers and adding one part leaves the others as they were.
//! Not for secrets. Start with [`Random`], the generator that every other file draws from.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt;

/// 2^64 divided by the golden ratio, the increment of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The name of a stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(
    /// The number itself, as plans store it.
    pub u64,
);

impl Seed {
    /// The seed of part number `index` of the kind `label`.
    ///
    /// The state starts as this seed and takes in one 64-bit word at a time: the length of the label in bytes, the
    /// label in little-endian words of eight bytes (the last filled up with zeros), and the index. Taking in a word
    /// is one SplitMix64 step of the state, exclusive-or with the word, and the SplitMix64 output function again.
    /// (Without the first step, neighbouring seeds and label lengths would cancel out.) Stored plans rely on these
    /// values: they must never change.
    #[must_use]
    pub fn derive(self, label: &str, index: u64) -> Seed {
        let mut seed = self.absorb(label.len() as u64);
        for chunk in label.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            seed = seed.absorb(u64::from_le_bytes(word));
        }
        seed.absorb(index)
    }

    /// Takes one word into the seed. [`Seed::derive`] is the usual door; this is for hashing a few numbers.
    #[must_use]
    pub(crate) fn absorb(self, word: u64) -> Seed {
        Seed(split_mix(split_mix(self.0.wrapping_add(GOLDEN_GAMMA)) ^ word))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The output function of SplitMix64: a bijection in which every input bit affects every output bit.
fn split_mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// A stream of random numbers: xoshiro256++ (Blackman and Vigna, 2019), about a nanosecond per number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    generator: Xoshiro256PlusPlus,
}

impl Random {
    /// The stream that `seed` names.
    #[must_use]
    pub fn new(seed: Seed) -> Random {
        Random { generator: Xoshiro256PlusPlus::seed_from_u64(seed.0) }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A whole number from 0 to `n` - 1, each exactly as likely as any other. `n` must be at least 1.
    ///
    /// Multiply and reject (Lemire: "Fast random integer generation in an interval", 2019): the division is needed
    /// only when the low half of the product falls below `n`, which for the usual `n` almost never happens.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0, "there is no whole number below 0");
        let product = u128::from(self.bits()) * u128::from(n);
        if (product as u64) < n { self.below_or_reject(n, product) } else { (product >> 64) as u64 }
    }

    /// The rare rest of [`Random::below`]: draws again while the low half falls below 2^64 mod `n`.
    #[cold]
    #[inline(never)]
    fn below_or_reject(&mut self, n: u64, mut product: u128) -> u64 {
        let threshold = n.wrapping_neg() % n;
        while (product as u64) < threshold {
            product = u128::from(self.bits()) * u128::from(n);
        }
        (product >> 64) as u64
    }

    /// A real number from 0 up to but not including 1, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits() >> 11) as f64 * STEP
    }

    /// An exponentially distributed number with mean 1, for example the gap between Poisson arrivals in units of the
    /// mean gap. Never infinite: the largest value is 53 ln 2, about 36.7.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // 1 - unit lies in (0, 1] and is exact, so that the logarithm is finite.
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    //! Shows that streams are frozen, that parts differ, and that the three shapes have the moments they should.
    use super::*;

    #[test]
    fn streams_never_change_between_versions() {
        // Stored plans replay only while these numbers stand.
        let derived = [
            Seed(0).derive("", 0),
            Seed(0).derive("client", 0),
            Seed(42).derive("client", 7),
            Seed(u64::MAX).derive("a label longer than eight bytes", u64::MAX),
        ]
        .map(|seed| seed.0);
        // Computed by a separate program from the published algorithms.
        assert_eq!(
            derived,
            [
                17_082_178_867_596_717_304,
                5_980_012_501_972_887_723,
                1_497_486_612_345_901_138,
                266_812_213_035_567_241,
            ]
        );
        let mut random = Random::new(Seed(42));
        assert_eq!(
            [random.bits(), random.bits(), random.bits()],
            [15_021_278_609_987_233_951, 5_881_210_131_331_364_753, 18_149_643_915_985_481_100]
        );
        assert_eq!(
            [random.below(10), random.below(1_000_000), random.below(u64::MAX)],
            [7, 793_504, 10_848_501_901_068_131_964]
        );
        assert_eq!(random.unit(), 0.125_352_442_062_742_1);
    }

    #[test]
    fn parts_of_one_seed_differ() {
        let mut seen = std::collections::HashSet::new();
        for whole in 0..20 {
            for label in ["", "a", "b", "ab", "a\0", "client", "clients"] {
                for index in 0..50 {
                    let seed = Seed(whole).derive(label, index);
                    assert!(
                        seen.insert(seed),
                        "seed {whole}, label {label:?}, index {index} came before"
                    );
                }
            }
        }
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        for seed in 1..=5 {
            let mut random = Random::new(Seed(seed));
            // Three quarters of 2^64: a plain remainder would hit the lower third twice as often.
            let n = 3u64 << 62;
            let mut thirds = [0u32; 3];
            for _ in 0..30_000 {
                let drawn = random.below(n);
                assert!(drawn < n, "seed {seed}");
                thirds[(drawn / (1 << 62)) as usize] += 1;
            }
            // Standard deviation of each count is 82.
            assert!(
                thirds.iter().all(|&count| count.abs_diff(10_000) < 400),
                "seed {seed}: {thirds:?}"
            );
            assert_eq!(random.below(1), 0, "seed {seed}");
        }
    }

    #[test]
    fn unit_and_exponential_have_their_moments() {
        for seed in 1..=5 {
            let mut random = Random::new(Seed(seed));
            let count = 200_000;
            let (mut unit_sum, mut exponential_sum, mut exponential_squares) = (0.0, 0.0, 0.0);
            for _ in 0..count {
                let unit = random.unit();
                assert!((0.0..1.0).contains(&unit), "seed {seed}: {unit}");
                unit_sum += unit;
                let exponential = random.exponential();
                assert!((0.0..37.0).contains(&exponential), "seed {seed}: {exponential}");
                exponential_sum += exponential;
                exponential_squares += exponential * exponential;
            }
            let count = f64::from(count);
            // Five standard errors each: 0.2887, 1 and sqrt(20) over the root of the count.
            assert!((unit_sum / count - 0.5).abs() < 0.0033, "seed {seed}");
            assert!((exponential_sum / count - 1.0).abs() < 0.0112, "seed {seed}");
            assert!((exponential_squares / count - 2.0).abs() < 0.05, "seed {seed}");
        }
    }
}
