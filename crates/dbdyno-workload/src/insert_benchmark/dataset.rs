//! What is loaded before the first step: a number of equal tables, filled in the order of their keys.
//!
//! Loading belongs to the drivers; here are the facts that planning and templates need. Start with
//! [`PurchaseDataset::fingerprint`].

use super::dialect::QueryStart;
use super::purchase::{PURCHASE_FORMAT, PurchaseRows};
use crate::rng::Seed;
use crate::schema::ColumnKind;

/// Tables of purchases, empty ones included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PurchaseDataset {
    /// What is in the rows.
    pub rows: PurchaseRows,
    /// Number of tables, at least 1.
    pub tables: u16,
    /// Rows loaded into each table: those with the numbers 1 to this.
    pub rows_per_table: u64,
    /// Whether the tables have their secondary indexes.
    pub is_indexed: bool,
}

impl PurchaseDataset {
    /// Sixteen hexadecimal digits that differ for datasets that differ in format or in anything that decides what is
    /// loaded. A stored dataset is reused only when its fingerprint matches.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = Seed(u64::from(PURCHASE_FORMAT))
            .derive("purchase dataset fingerprint", self.rows.seed.0)
            .absorb(self.rows.dialect as u64)
            .absorb(self.rows.data_bytes_min.into())
            .absorb(self.rows.data_bytes_max.into())
            // Adding 0 turns -0 into 0, the same share with another bit pattern.
            .absorb((self.rows.data_random_share + 0.0).to_bits())
            .absorb(self.tables.into())
            .absorb(self.rows_per_table)
            .absorb(self.is_indexed.into());
        format!("{:016x}", hash.0)
    }

    /// Rows loaded into all tables.
    #[must_use]
    pub fn rows_total(&self) -> u64 {
        u64::from(self.tables).saturating_mul(self.rows_per_table)
    }

    /// Bytes of columns in all tables (keys and times 8, other numbers 4, `data` its mean length) and, if there are
    /// indexes, of their columns and the key in each entry. What an engine stores is larger by its page and row headers
    /// and by free space; each engine file knows its own factor.
    #[must_use]
    pub fn bytes_estimate(&self) -> u64 {
        let schema = self.rows.dialect.schema(QueryStart::AsPublished, 0);
        let data_bytes =
            (u64::from(self.rows.data_bytes_min) + u64::from(self.rows.data_bytes_max)) / 2;
        let bytes_of = |&column: &usize| match schema.columns[column].kind {
            ColumnKind::Key | ColumnKind::Seconds => 8,
            ColumnKind::Integer | ColumnKind::Real => 4,
            ColumnKind::Text => data_bytes,
        };
        let row_bytes: u64 = (0..schema.columns.len()).map(|column| bytes_of(&column)).sum();
        let entry_bytes = |columns: &[usize]| 8 + columns.iter().map(bytes_of).sum::<u64>();
        let index_bytes: u64 = schema.indexes.iter().map(|index| entry_bytes(index.columns)).sum();
        let bytes = if self.is_indexed { row_bytes + index_bytes } else { row_bytes };
        self.rows_total().saturating_mul(bytes)
    }
}

#[cfg(test)]
mod tests {
    //! Shows that the fingerprint is frozen and covers everything, and what the estimate counts.
    use super::super::dialect::Dialect;
    use super::*;
    use std::collections::BTreeSet;

    const ROWS: PurchaseRows = PurchaseRows {
        dialect: Dialect::Year2023,
        seed: Seed(42),
        data_bytes_min: 10,
        data_bytes_max: 20,
        data_random_share: 0.375,
    };
    const DATASET: PurchaseDataset =
        PurchaseDataset { rows: ROWS, tables: 4, rows_per_table: 1_000_000, is_indexed: true };

    #[test]
    fn the_fingerprint_covers_every_field() {
        // Computed by a separate program from the description of the format.
        assert_eq!(DATASET.fingerprint(), "3eee47a6b23c1711");
        let others = [
            DATASET,
            PurchaseDataset { tables: 3, ..DATASET },
            PurchaseDataset { rows_per_table: 1_000_001, ..DATASET },
            PurchaseDataset { is_indexed: false, ..DATASET },
            PurchaseDataset { rows: PurchaseRows { seed: Seed(43), ..ROWS }, ..DATASET },
            PurchaseDataset {
                rows: PurchaseRows { dialect: Dialect::Year2015, ..ROWS },
                ..DATASET
            },
            PurchaseDataset { rows: PurchaseRows { data_bytes_min: 11, ..ROWS }, ..DATASET },
            PurchaseDataset { rows: PurchaseRows { data_bytes_max: 21, ..ROWS }, ..DATASET },
            PurchaseDataset { rows: PurchaseRows { data_random_share: 0.0, ..ROWS }, ..DATASET },
        ];
        let fingerprints: BTreeSet<_> = others.iter().map(PurchaseDataset::fingerprint).collect();
        assert_eq!(fingerprints.len(), others.len());
        let negative = PurchaseRows { data_random_share: -0.0, ..ROWS };
        let negative = PurchaseDataset { rows: negative, ..DATASET };
        assert_eq!(negative.fingerprint(), others[8].fingerprint());
    }

    #[test]
    fn the_estimate_counts_columns_and_index_entries() {
        assert_eq!(DATASET.rows_total(), 4_000_000);
        let bare = PurchaseDataset { is_indexed: false, ..DATASET };
        // 8 + 8 + 3 * 4 + 4 + 15
        assert_eq!(bare.bytes_estimate(), 4_000_000 * 47);
        // Entries of 16, 20 and 24 bytes.
        assert_eq!(DATASET.bytes_estimate(), 4_000_000 * (47 + 60));
        let whole = PurchaseRows { dialect: Dialect::Year2024, ..ROWS };
        let whole = PurchaseDataset { rows: whole, ..DATASET };
        assert_eq!(whole.bytes_estimate(), 4_000_000 * (47 + 64));
        assert_eq!(PurchaseDataset { rows_per_table: 0, ..DATASET }.bytes_estimate(), 0);
        let huge = PurchaseDataset { rows_per_table: u64::MAX, ..DATASET };
        assert_eq!(huge.bytes_estimate(), u64::MAX);
    }
}
