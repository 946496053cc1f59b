//! The vocabulary between a workload, which says what to do, and a driver, which does it.
//!
//! A request is a small `Copy` value: the request loop makes one per operation and never allocates. A driver maps it
//! onto prepared statements or library calls. A new kind of operation is one variant of [`Action`].

use crate::rng::{Random, Seed};

/// One operation, due once, that an engine acknowledges, refuses, or leaves unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Index into the workload's list of request classes; statistics are kept per class.
    pub class: u8,
    /// Zero-based table number.
    pub table: u16,
    /// Primary key of the row, 1 to the number of rows, or the number that the action gives another meaning to.
    pub row: u64,
    /// What to do with the row.
    pub action: Action,
}

/// What a request does with its row. Every action is one auto-commit transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Read the row's counter and filler.
    Read,
    /// Add one to the row's counter.
    Increment,
    /// Set the row's counter to this value.
    Assign(u64),
    /// Insert so many rows together. `Request::row` is the number of the first, 1-based and never used again in its
    /// table; the dataset says what is in them, and the engine gives them their primary keys.
    Insert(u16),
    /// Delete the rows with the smallest primary keys from `Request::row` on, so many. To delete fewer is not to have
    /// done it.
    Delete(u16),
    /// Read entries of a secondary index in its order, from the start that `Request::row` stands for
    /// ([`crate::Schema::start_values`]).
    Range {
        /// Index into the schema's list of range queries.
        query: u8,
        /// Entries to read; there are fewer only at the end of the index.
        limit: u16,
    },
    /// Read rows by primary key: those of [`Request::point_keys`], between `Request::row` and `last`.
    Points {
        /// Number of keys.
        count: u16,
        /// Which keys.
        seed: u32,
        /// Largest key that may be asked for.
        last: u64,
    },
}

impl Request {
    /// The primary keys that [`Action::Points`] asks for, uniformly from `row` to `last`; a key may come twice. Other
    /// actions have none.
    #[inline]
    #[must_use]
    pub fn point_keys(&self) -> PointKeys {
        let (left, seed, last) = match self.action {
            Action::Points { count, seed, last } => (count, seed, last),
            _ => (0, 0, 0),
        };
        let count = last.saturating_sub(self.row).saturating_add(1);
        PointKeys { random: Random::new(Seed(seed.into())), first: self.row, count, left }
    }
}

/// The keys of one request. See [`Request::point_keys`].
#[derive(Debug, Clone)]
pub struct PointKeys {
    random: Random,
    first: u64,
    /// Keys that there are to draw from.
    count: u64,
    left: u16,
}

impl Iterator for PointKeys {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        Some(self.first + self.random.below(self.count))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl ExactSizeIterator for PointKeys {}

#[cfg(test)]
mod tests {
    //! Shows that requests stay small, and that keys of point queries are frozen, in range and uniform.
    use super::*;
    use proptest::prelude::*;

    fn points(row: u64, count: u16, seed: u32, last: u64) -> Request {
        Request { class: 0, table: 0, row, action: Action::Points { count, seed, last } }
    }

    #[test]
    fn a_request_is_32_bytes() {
        assert_eq!(size_of::<Request>(), 32);
    }

    #[test]
    fn keys_never_change_between_versions() {
        // Computed by a separate program from the description of the stream.
        let keys: Vec<_> = points(1001, 4, 42, 1_000_000).point_keys().collect();
        assert_eq!(keys, [814_491, 319_503, 983_911, 701_435]);
    }

    #[test]
    fn keys_are_uniform_and_others_have_none() {
        for seed in 1..=5 {
            let mut counts = [0u32; 5];
            for key in points(11, 10_000, seed, 15).point_keys() {
                counts[(key - 11) as usize] += 1;
            }
            // Standard deviation of each count is 40.
            assert!(counts.iter().all(|count| count.abs_diff(2000) < 200), "{seed}: {counts:?}");
        }
        let read = Request { action: Action::Read, ..points(1, 10, 1, 5) };
        assert_eq!(read.point_keys().len(), 0);
    }

    proptest! {
        #[test]
        fn keys_are_as_many_as_asked_and_in_range(
            first in any::<u64>(), more in any::<u64>(), count in 0..300u16, seed in any::<u32>(),
        ) {
            let last = first.saturating_add(more);
            let keys = points(first, count, seed, last).point_keys();
            prop_assert_eq!(keys.len(), usize::from(count));
            let keys: Vec<_> = keys.collect();
            prop_assert_eq!(keys.len(), usize::from(count));
            prop_assert!(keys.iter().all(|key| (first..=last).contains(key)));
        }
    }
}
