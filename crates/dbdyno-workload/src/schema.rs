//! What tables with secondary indexes look like: columns, indexes and the queries over them, as data that each driver
//! turns into its own statements or key encodings once, before anything is measured.
//!
//! Names are those of the tools that the workloads follow. A range query starts at a place in its index that travels
//! as one number in [`crate::Request::row`]; [`Schema::start_values`] turns it into values to bind. Start with
//! [`Schema`].

/// Second 0 of start values, and of the datasets that have a time in them: 2023-01-01 00:00:00 UTC, in Unix time.
pub const EPOCH_SECONDS: i64 = 1_672_531_200;

/// Longest [`ColumnKind::Text`], in bytes.
pub const TEXT_BYTES_MAX: u16 = 4000;

/// Parts of one of a [`ColumnKind::Real`]: such columns hold whole cents.
pub const CENTS: f64 = 100.0;

/// A table and the queries over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// The columns in order. The first is the primary key.
    pub columns: &'static [Column],
    /// The secondary indexes, none of them unique.
    pub indexes: &'static [Index],
    /// The range queries, all of them covered by their index.
    pub ranges: &'static [RangeQuery],
    /// The queries by primary key, where there are any.
    pub points: Option<PointQuery>,
}

/// One column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnKind,
}

/// What a column holds; never nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The primary key: 64 bits, given by the engine, ascending from 1.
    Key,
    /// A point in time, in whole seconds.
    Seconds,
    /// A whole number of 32 bits.
    Integer,
    /// A real number with two digits behind the point, of single precision where the engine has it.
    Real,
    /// Printable ASCII without quotes or backslashes, at most [`TEXT_BYTES_MAX`] bytes.
    Text,
}

/// One value of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ColumnValue<'a> {
    /// Of a [`ColumnKind::Integer`] or a [`ColumnKind::Key`].
    Integer(i64),
    /// Of a [`ColumnKind::Real`]: the number of double precision that is nearest to the two digits.
    Real(f64),
    /// Of a [`ColumnKind::Seconds`], in Unix time.
    Seconds(i64),
    /// Of a [`ColumnKind::Text`].
    Text(&'a [u8]),
}

/// One secondary index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// Its name without the table: a driver calls it `<table>_<name>`.
    pub name: &'static str,
    /// Its columns, as indexes into [`Schema::columns`], most significant first.
    pub columns: &'static [usize],
}

/// A query for the first entries of an index from some place on, in the order of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeQuery {
    /// Index into [`Schema::indexes`].
    pub index: usize,
    /// As many leading columns of the index are bound as there are numbers here, usually one. Entries belong to the
    /// answer when these columns, compared one after the other, are at or above the start. Each number is how many
    /// bits of [`crate::Request::row`] the column's start takes; the first column's are the highest.
    pub start_bits: &'static [u32],
    /// Entries that equal the start in all bound columns do not belong to the answer: > instead of >=.
    pub is_strict: bool,
    /// What is read, as indexes into [`Schema::columns`].
    pub columns: &'static [usize],
}

/// A query for rows by primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointQuery {
    /// Keys in each query.
    pub count: u16,
    /// What is read, as indexes into [`Schema::columns`].
    pub columns: &'static [usize],
}

impl Schema {
    /// The values to bind for the leading columns of the index of range query number `query`, when
    /// [`crate::Request::row`] is `row`: one for each number in [`RangeQuery::start_bits`].
    ///
    /// # Panics
    /// When there is no such query.
    pub fn start_values(
        &self,
        query: u8,
        row: u64,
    ) -> impl ExactSizeIterator<Item = ColumnValue<'static>> + use<> {
        let range = self.ranges[usize::from(query)];
        let (columns, index) = (self.columns, self.indexes[range.index]);
        range.start_bits.iter().enumerate().map(move |(place, &bits)| {
            let shift: u32 = range.start_bits[place + 1..].iter().sum();
            let start = (row >> shift) & (u64::MAX >> (64 - bits));
            match columns[index.columns[place]].kind {
                ColumnKind::Seconds => ColumnValue::Seconds(EPOCH_SECONDS + start as i64),
                ColumnKind::Real => ColumnValue::Real(start as f64 / CENTS),
                _ => ColumnValue::Integer(start as i64),
            }
        })
    }

    /// The value to bind for the first column: the first of [`Schema::start_values`], and for most queries the only.
    ///
    /// # Panics
    /// When there is no such query.
    #[must_use]
    pub fn start_value(&self, query: u8, row: u64) -> ColumnValue<'static> {
        self.start_values(query, row).next().expect("a range query binds a column")
    }
}

impl RangeQuery {
    /// The number that stands for this start: what [`Schema::start_values`] takes apart. Seconds are counted from
    /// [`EPOCH_SECONDS`], real numbers in [`CENTS`]; what does not fit is cut to the largest number that does.
    #[inline]
    pub(crate) fn pack_start(&self, mut start_of: impl FnMut(usize) -> u64) -> u64 {
        self.start_bits.iter().enumerate().fold(0, |row, (place, &bits)| {
            // A start of 64 bits is alone, and a shift by 64 is none that the processor has.
            (row << (bits & 63)) | start_of(place).min(u64::MAX >> (64 - bits))
        })
    }
}

#[cfg(test)]
mod tests {
    //! Shows that a start is taken apart as it was put together, and in the order of the index.
    use super::*;
    use proptest::prelude::*;

    const COLUMNS: &[Column] = &[
        Column { name: "id", kind: ColumnKind::Key },
        Column { name: "at", kind: ColumnKind::Seconds },
        Column { name: "shop", kind: ColumnKind::Integer },
        Column { name: "price", kind: ColumnKind::Real },
    ];
    const THREE: RangeQuery =
        RangeQuery { index: 0, start_bits: &[17, 30, 17], is_strict: false, columns: &[3] };
    const SCHEMA: Schema = Schema {
        columns: COLUMNS,
        indexes: &[Index { name: "by_price", columns: &[3, 1, 2] }],
        ranges: &[THREE, RangeQuery { start_bits: &[64], ..THREE }],
        points: None,
    };

    #[test]
    fn starts_are_values_of_their_columns() {
        let row = (12_345 << 47) | (86_400 << 17) | 99_999;
        let values: Vec<_> = SCHEMA.start_values(0, row).collect();
        let expected = [
            ColumnValue::Real(123.45),
            ColumnValue::Seconds(1_672_617_600), // 2023-01-02
            ColumnValue::Integer(99_999),
        ];
        assert_eq!(values, expected);
        assert_eq!(SCHEMA.start_value(0, row), expected[0]);
        assert_eq!(SCHEMA.start_values(1, 999).collect::<Vec<_>>(), [ColumnValue::Real(9.99)]);
        let largest = (0x1_ffff << 47) | 0x1_ffff;
        assert_eq!(THREE.pack_start(|place| [1 << 17, 0, 1 << 40][place]), largest);
    }

    proptest! {
        #[test]
        fn starts_are_taken_apart_as_they_were_put_together(
            one in (0..1u64 << 17, 0..1u64 << 30, 0..1u64 << 17),
            other in (0..1u64 << 17, 0..1u64 << 30, 0..1u64 << 17),
        ) {
            let pack = |(price, at, shop)| THREE.pack_start(|place| [price, at, shop][place]);
            let values: Vec<_> = SCHEMA.start_values(0, pack(one)).collect();
            prop_assert_eq!(values, [
                ColumnValue::Real(one.0 as f64 / 100.0),
                ColumnValue::Seconds(EPOCH_SECONDS + one.1 as i64),
                ColumnValue::Integer(one.2 as i64),
            ]);
            prop_assert_eq!(pack(one).cmp(&pack(other)), one.cmp(&other));
        }

        #[test]
        fn a_single_start_is_itself(row in any::<u64>()) {
            prop_assert_eq!(SCHEMA.ranges[1].pack_start(|_| row), row);
        }
    }
}
