//! The tables below a workload: every row is a pure function of (seed, table, row), so nothing about it is stored.
//!
//! A row has a primary key (1 to the number of rows), a counter that starts at 0, and a filler of printable bytes.
//! Ageing is a replayable list of increments that follows loading. Loading and reading belong to the drivers; start
//! with [`Dataset::write_filler`] and [`Dataset::age_updates`].

use crate::DatasetFacts;
use crate::rng::{Random, Seed};
use std::collections::{BTreeMap, BTreeSet};

/// Version of everything below that decides what is in the tables. It is part of the fingerprint: a change of rows,
/// ageing or the order of either needs a new number, and golden tests notice a change without one.
pub const DATASET_FORMAT: u32 = 1;

/// Filler letters: 64 of them, so that six random bits make eight bits of text and a compressor can save a quarter.
const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// Fills `text` with random letters.
pub(crate) fn write_letters(random: &mut Random, text: &mut [u8]) {
    // Ten letters take 60 of the 64 bits.
    for chunk in text.chunks_mut(10) {
        let mut bits = random.bits();
        for letter in chunk {
            *letter = LETTERS[(bits & 63) as usize];
            bits >>= 6;
        }
    }
}

/// One row of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId {
    /// Zero-based table number.
    pub table: u16,
    /// Primary key, 1 to the number of rows.
    pub row: u64,
}

/// A number of equal tables, loaded in primary-key order and then aged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dataset {
    /// Decides filler, ageing and sample.
    pub seed: Seed,
    /// Number of tables, at least 1.
    pub tables: u16,
    /// Rows in each table, at least 1.
    pub rows: u64,
    /// Length of each row's filler.
    pub filler_bytes: u32,
    /// Random increments after loading, per row: 0.2 means one row in five on average, some twice.
    pub age: f64,
}

impl Dataset {
    /// Makes `buffer` hold the filler of this row, replacing what was in it. Allocates only while the buffer grows.
    pub fn write_filler(&self, id: RowId, buffer: &mut Vec<u8>) {
        buffer.resize(self.filler_bytes as usize, 0);
        let row_seed = self.seed.derive("dataset filler", u64::from(id.table)).absorb(id.row);
        write_letters(&mut Random::new(row_seed), buffer);
    }

    /// Whether `filler` is what [`Dataset::write_filler`] gives for this row.
    #[must_use]
    pub fn is_filler(&self, id: RowId, filler: &[u8]) -> bool {
        let mut expected = Vec::new();
        self.write_filler(id, &mut expected);
        expected == filler
    }

    /// What planning needs to know of it.
    #[must_use]
    pub fn facts(&self) -> DatasetFacts {
        DatasetFacts {
            fingerprint: self.fingerprint(),
            rows: self.rows * u64::from(self.tables),
            bytes: self.bytes_estimate(),
            aging_updates: self.age_updates().left(),
        }
    }

    /// Sixteen hexadecimal digits that differ for datasets that differ in format or in any field. A stored dataset
    /// is reused only when its fingerprint matches.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = Seed(u64::from(DATASET_FORMAT))
            .derive("dataset fingerprint", self.seed.0)
            .absorb(u64::from(self.tables))
            .absorb(self.rows)
            .absorb(u64::from(self.filler_bytes))
            // Adding 0 turns -0 into 0, the same age with another bit pattern.
            .absorb((self.age + 0.0).to_bits());
        format!("{:016x}", hash.0)
    }

    /// Bytes of keys (8), counters (8) and fillers in all tables. What an engine stores is larger by its page and row
    /// headers and by free space; each engine file knows its own factor.
    #[must_use]
    pub fn bytes_estimate(&self) -> u64 {
        let row_bytes = 16 + u64::from(self.filler_bytes);
        u64::from(self.tables).saturating_mul(self.rows).saturating_mul(row_bytes)
    }

    /// The rows to increment once each, in this order, after loading; a row may come several times. Row 1 is aged
    /// like any other. There are `round(age * rows * tables)` of them, and the order never changes, so that an
    /// interrupted ageing goes on with `skip`.
    #[must_use]
    pub fn age_updates(&self) -> AgeUpdates {
        let count = (self.age * self.rows as f64 * f64::from(self.tables)).round();
        AgeUpdates {
            random: Random::new(self.seed.derive("dataset age", 0)),
            tables: u64::from(self.tables),
            rows: self.rows,
            left: count as u64,
        }
    }

    /// How many times each of these rows was aged, in their order. Replays all of [`Dataset::age_updates`], a few
    /// nanoseconds per update when the sample is small.
    #[must_use]
    pub fn age_updates_for(&self, sampled: &[RowId]) -> Vec<u64> {
        let mut counts: BTreeMap<RowId, u64> = sampled.iter().map(|&id| (id, 0)).collect();
        // Most updates are of rows that share not even the low bits of a sampled one; a flag tells at once.
        let low_bits = |row: u64| (row % 4096) as usize;
        let mut is_near = [false; 4096];
        for id in sampled {
            is_near[low_bits(id.row)] = true;
        }
        for id in self.age_updates().filter(|id| is_near[low_bits(id.row)]) {
            if let Some(count) = counts.get_mut(&id) {
                *count += 1;
            }
        }
        sampled.iter().map(|id| counts[id]).collect()
    }

    /// `count` different rows drawn from all tables, always the same ones, in order of table and row. Row 1 is left
    /// out because workloads write to it; there are fewer than `count` when the tables hold fewer.
    #[must_use]
    pub fn sample_rows(&self, count: usize) -> Vec<RowId> {
        let per_table = self.rows.saturating_sub(1);
        let population = u64::from(self.tables) * per_table;
        let count = population.min(count as u64);
        let mut random = Random::new(self.seed.derive("dataset sample", 0));
        let mut places = BTreeSet::new();
        // Robert Floyd's sampling without repetition (Bentley, "Programming pearls", CACM 30(9), 1987).
        for last in population - count..population {
            if !places.insert(random.below(last + 1)) {
                places.insert(last);
            }
        }
        let id = |place| RowId { table: (place / per_table) as u16, row: 2 + place % per_table };
        places.into_iter().map(id).collect()
    }
}

/// The increments that age a dataset. See [`Dataset::age_updates`].
#[derive(Debug, Clone)]
pub struct AgeUpdates {
    random: Random,
    tables: u64,
    rows: u64,
    left: u64,
}

impl AgeUpdates {
    /// How many are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Iterator for AgeUpdates {
    type Item = RowId;

    #[inline]
    fn next(&mut self) -> Option<RowId> {
        self.left = self.left.checked_sub(1)?;
        let table = self.random.below(self.tables) as u16;
        Some(RowId { table, row: 1 + self.random.below(self.rows) })
    }
}

#[cfg(test)]
mod tests {
    //! Shows that rows, ageing, sample and fingerprint are frozen, and that each depends on what it should.
    use super::*;
    use proptest::prelude::*;

    const DATASET: Dataset =
        Dataset { seed: Seed(42), tables: 8, rows: 100_000, filler_bytes: 24, age: 0.2 };

    fn filler(dataset: &Dataset, table: u16, row: u64) -> String {
        let mut buffer = Vec::new();
        dataset.write_filler(RowId { table, row }, &mut buffer);
        String::from_utf8(buffer).expect("it is ASCII")
    }

    #[test]
    fn the_format_never_changes_without_its_number() {
        // Computed by a separate program from the description of the format.
        assert_eq!(DATASET_FORMAT, 1);
        assert_eq!(filler(&DATASET, 0, 1), "SjyueuOz5pM6PVZPSjufp3M9");
        assert_eq!(filler(&DATASET, 0, 2), "a4DYNdrot3zLF_KcpYYGbX_q");
        assert_eq!(filler(&DATASET, 7, 100_000), "EPTiRZQCSdz4jqWhodzgZvXW");
        assert_eq!(DATASET.fingerprint(), "8d1dd4340875b41b");
        let aged: Vec<_> = DATASET.age_updates().take(3).map(|id| (id.table, id.row)).collect();
        assert_eq!(aged, [(1, 69_474), (2, 87_837), (3, 85_599)]);
        let sampled: Vec<_> = DATASET.sample_rows(3).iter().map(|id| (id.table, id.row)).collect();
        assert_eq!(sampled, [(0, 80_895), (6, 36_507), (6, 41_680)]);
    }

    #[test]
    fn a_shorter_filler_is_a_prefix_and_other_rows_differ() {
        let longer = Dataset { filler_bytes: 1000, ..DATASET };
        assert!(filler(&longer, 3, 5).starts_with(&filler(&DATASET, 3, 5)));
        let mut seen = BTreeSet::new();
        for table in 0..8 {
            for row in 1..200 {
                assert!(seen.insert(filler(&DATASET, table, row)), "table {table}, row {row}");
            }
        }
        assert!(seen.insert(filler(&Dataset { seed: Seed(43), ..DATASET }, 0, 1)));
        let id = RowId { table: 3, row: 5 };
        assert!(DATASET.is_filler(id, filler(&DATASET, 3, 5).as_bytes()));
        assert!(!DATASET.is_filler(id, filler(&DATASET, 3, 6).as_bytes()));
        assert!(!DATASET.is_filler(id, b""));
        assert_eq!(filler(&Dataset { filler_bytes: 0, ..DATASET }, 0, 1), "");
    }

    #[test]
    fn the_fingerprint_covers_every_field() {
        let others = [
            DATASET,
            Dataset { seed: Seed(43), ..DATASET },
            Dataset { tables: 7, ..DATASET },
            Dataset { rows: 100_001, ..DATASET },
            Dataset { filler_bytes: 25, ..DATASET },
            Dataset { age: 0.21, ..DATASET },
            Dataset { age: 0.0, ..DATASET },
        ];
        let fingerprints: BTreeSet<_> = others.iter().map(Dataset::fingerprint).collect();
        assert_eq!(fingerprints.len(), others.len());
        assert_eq!(Dataset { age: -0.0, ..DATASET }.fingerprint(), others[6].fingerprint());
    }

    #[test]
    fn the_estimate_counts_keys_counters_and_fillers() {
        assert_eq!(DATASET.bytes_estimate(), 8 * 100_000 * 40);
        let huge = Dataset { rows: u64::MAX, ..DATASET };
        assert_eq!(huge.bytes_estimate(), u64::MAX);
    }

    #[test]
    fn ageing_is_rounded_and_uniform() {
        let small = Dataset { tables: 3, rows: 5, age: 0.1, ..DATASET };
        assert_eq!(small.age_updates().left(), 2); // 1.5
        assert_eq!(Dataset { age: 0.0, ..small }.age_updates().count(), 0);
        let aged = Dataset { age: 4000.0, ..small };
        assert_eq!(aged.age_updates().count(), 60_000);
        let all: Vec<_> =
            (0..3).flat_map(|table| (1..=5).map(move |row| RowId { table, row })).collect();
        let counts = aged.age_updates_for(&all);
        assert_eq!(counts.iter().sum::<u64>(), 60_000);
        // Standard deviation 61.
        assert!(counts.iter().all(|count| count.abs_diff(4000) < 300), "{counts:?}");
        // Rows may be asked for in any order and twice.
        assert_eq!(
            aged.age_updates_for(&[all[4], all[0], all[4]]),
            [counts[4], counts[0], counts[4]]
        );
    }

    proptest! {
        #[test]
        fn samples_are_different_rows_in_order_without_row_one(
            seed in any::<u64>(), tables in 1..9u16, rows in 1..50u64, count in 0..100usize,
        ) {
            let dataset = Dataset { seed: Seed(seed), tables, rows, filler_bytes: 0, age: 0.0 };
            let sampled = dataset.sample_rows(count);
            prop_assert_eq!(sampled.len(), count.min(usize::from(tables) * (rows as usize - 1)));
            prop_assert!(sampled.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(sampled.iter().all(|id| id.table < tables && (2..=rows).contains(&id.row)));
        }
    }
}
