//! Counts of durations while a thread is recording: the HdrHistogram layout with nothing but counters.
//!
//! Buckets are those of an HdrHistogram from 1 ns to [`LARGEST`] with three significant digits, so that merging into
//! the library's type loses nothing. Only octaves that were hit are ever touched (one octave is one page of memory),
//! which is what lets a thousand threads record within a few megabytes. Not for reading: see `recorder`.

use crate::clock::Ns;
use crate::lazy_zeros::LazyZeros;
use hdrhistogram::Histogram;

/// Largest duration that is counted in a bucket: 100 s. Larger ones are counted apart.
pub const LARGEST: Ns = 100_000_000_000;

/// log2 of the sub-buckets for three significant digits: 2 x 10^3 rounded up to a power of two, half of them used per
/// octave (G. Tene, HdrHistogram: "sub_bucket_count" and "sub_bucket_half_count").
pub const THREE_DIGITS: u32 = 11;
/// The same for two digits, which take an eighth of the memory.
pub const TWO_DIGITS: u32 = 8;

/// Durations of one kind, counted by one thread during one interval, to `LOG2` sub-buckets.
pub struct DurationCounts<const LOG2: u32 = THREE_DIGITS> {
    counts: LazyZeros,
    lowest: usize,
    highest: usize,
    over_range: u64,
}

/// An empty histogram of the library's type with our range and precision.
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LARGEST, 3).expect("1 ns to 100 s at 3 digits is a valid range")
}

impl<const LOG2: u32> DurationCounts<LOG2> {
    const HALF: usize = 1 << (LOG2 - 1);

    #[inline]
    fn index_of(duration: Ns) -> usize {
        let octave = (64 - LOG2) - (duration | (2 * Self::HALF as u64 - 1)).leading_zeros();
        ((octave as usize) << (LOG2 - 1)) + (duration >> octave) as usize
    }

    /// Smallest duration that falls into the bucket.
    fn lowest_value_of(index: usize) -> Ns {
        let octave = (index / Self::HALF).saturating_sub(1);
        ((index - octave * Self::HALF) as Ns) << octave
    }
}

impl<const LOG2: u32> Default for DurationCounts<LOG2> {
    fn default() -> Self {
        DurationCounts {
            counts: LazyZeros::new(Self::index_of(LARGEST) + 1),
            lowest: usize::MAX,
            highest: 0,
            over_range: 0,
        }
    }
}

impl<const LOG2: u32> DurationCounts<LOG2> {
    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, duration: Ns) {
        let index = Self::index_of(duration);
        // One test does two jobs: it keeps the index in bounds and sends what is over the range to the cold side.
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
            self.lowest = self.lowest.min(index);
            self.highest = self.highest.max(index);
        } else {
            self.over_range += 1;
        }
    }

    /// Adds everything to `total`, forgets it here, and returns how many durations were over the range.
    pub fn move_into(&mut self, total: &mut Histogram<u64>) -> u64 {
        if self.lowest <= self.highest {
            for index in self.lowest..=self.highest {
                let count = self.counts[index];
                if count > 0 {
                    // Only what was counted is written to: clearing the octaves between would touch their pages.
                    self.counts[index] = 0;
                    total
                        .record_n(Self::lowest_value_of(index), u64::from(count))
                        .expect("every bucket of ours lies in the range of the histogram");
                }
            }
        }
        self.lowest = usize::MAX;
        self.highest = 0;
        std::mem::take(&mut self.over_range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every duration lands in the bucket in which the library puts it.
    fn check(duration: Ns) {
        let library = empty_histogram();
        let mut ours = DurationCounts::<THREE_DIGITS>::default();
        ours.record(duration);
        let mut merged = empty_histogram();
        assert_eq!(ours.move_into(&mut merged), 0, "{duration} ns is within the range");
        assert_eq!(merged.len(), 1);
        assert!(
            library.equivalent(merged.max(), duration),
            "{duration} ns became {}",
            merged.max()
        );
        assert_eq!(ours.move_into(&mut merged), 0);
        assert_eq!(merged.len(), 1, "what was moved is forgotten");
    }

    /// The edges of octaves and of the range agree with the library.
    #[test]
    fn edges_agree_with_the_library() {
        for octave in 0..36 {
            for near in [0, 1, 2] {
                check(((1u64 << octave) + near).saturating_sub(1));
            }
        }
        check(LARGEST);
        let mut counts = DurationCounts::<TWO_DIGITS>::default();
        counts.record(2 * LARGEST);
        counts.record(u64::MAX);
        assert_eq!(counts.move_into(&mut empty_histogram()), 2, "larger values are counted apart");
    }

    proptest! {
        /// Any duration agrees with the library.
        #[test]
        fn any_duration_agrees_with_the_library(duration in 0..=LARGEST) {
            check(duration);
        }

        /// Percentiles are within 0.1 % of the exact ones of the same samples.
        #[test]
        fn percentiles_are_within_a_thousandth(
            samples in proptest::collection::vec(1_000..LARGEST, 1..400),
            percentile in 0.0..=100.0f64,
        ) {
            let mut counts = DurationCounts::<THREE_DIGITS>::default();
            samples.iter().for_each(|&sample| counts.record(sample));
            let mut histogram = empty_histogram();
            counts.move_into(&mut histogram);
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let rank = ((percentile / 100.0 * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            let exact = sorted[rank - 1] as f64;
            let found = histogram.value_at_percentile(percentile) as f64;
            prop_assert!((found - exact).abs() <= exact * 0.001, "found {found}, exact {exact}");
        }
    }
}
