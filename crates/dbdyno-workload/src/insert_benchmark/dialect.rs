//! The three forms that the insert benchmark has had: what its table, its indexes and its queries look like in each.
//!
//! As their clients have it: mdcallag/mytools `iibench.py` before and after 2023, tmcallaghan/iibench-mongodb of 2014.
//! Start with [`Dialect::schema`].

use crate::schema::{Column, ColumnKind, Index, PointQuery, RangeQuery, Schema};

/// Numbers of the columns; 0 is the primary key.
pub(super) const KEY: usize = 0;
pub(super) const SECONDS: usize = 1;
pub(super) const CASH_REGISTER: usize = 2;
pub(super) const CUSTOMER: usize = 3;
pub(super) const PRODUCT: usize = 4;
pub(super) const PRICE: usize = 5;
pub(super) const DATA: usize = 6;

/// Values of the columns: each from 0 to one less than this, uniformly, in every client. For the price it is the
/// part that is not the customer's.
pub(super) const CASH_REGISTERS: u64 = 1000;
pub(super) const CUSTOMERS: u64 = 100_000;
pub(super) const PRODUCTS: u64 = 10_000;
pub(super) const PRICES: u64 = 500;

/// Which form of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The client for MongoDB that document 002 ran.
    Year2015,
    /// The client of document 004.
    Year2023,
    /// The client since the end of 2023: other indexes, prices in whole numbers, deletes, and queries by primary key.
    Year2024,
}

/// Where range queries start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryStart {
    /// As the client of the dialect has it. In 2023 and 2024 only the first column of the index is bound, and a cash
    /// register has 1,000 values: so many places in an index are easily cached (document 004 complains of it).
    AsPublished,
    /// All columns of the index are bound, each as rows have it, so that every entry is as likely a start as any
    /// other. For 2015 this is what was published.
    Uniform,
}

const fn columns(price: ColumnKind) -> [Column; 7] {
    const fn column(name: &'static str, kind: ColumnKind) -> Column {
        Column { name, kind }
    }
    [
        column("transactionid", ColumnKind::Key),
        column("dateandtime", ColumnKind::Seconds),
        column("cashregisterid", ColumnKind::Integer),
        column("customerid", ColumnKind::Integer),
        column("productid", ColumnKind::Integer),
        column("price", price),
        column("data", ColumnKind::Text),
    ]
}

const COLUMNS_2023: &[Column] = &columns(ColumnKind::Real);
const COLUMNS_2024: &[Column] = &columns(ColumnKind::Integer);

const MARKET_2023: &[usize] = &[PRICE, CUSTOMER];
const REGISTER_2023: &[usize] = &[CASH_REGISTER, PRICE, CUSTOMER];
const MARKET_2024: &[usize] = &[PRODUCT, CUSTOMER, PRICE];
const REGISTER_2024: &[usize] = &[CASH_REGISTER, CUSTOMER, PRICE];
const PDC: &[usize] = &[PRICE, SECONDS, CUSTOMER];

const fn indexes(market: &'static [usize], register: &'static [usize]) -> [Index; 3] {
    [
        Index { name: "marketsegment", columns: market },
        Index { name: "registersegment", columns: register },
        Index { name: "pdc", columns: PDC },
    ]
}

const INDEXES_2023: &[Index] = &indexes(MARKET_2023, REGISTER_2023);
const INDEXES_2024: &[Index] = &indexes(MARKET_2024, REGISTER_2024);

/// The queries of the published SQL clients: from a value of the first column on, for the cash register above it.
const fn from_first_column(
    market: &'static [usize],
    register: &'static [usize],
) -> [RangeQuery; 3] {
    let start_bits: &[u32] = &[64];
    [
        RangeQuery { index: 0, start_bits, is_strict: false, columns: market },
        RangeQuery { index: 1, start_bits, is_strict: true, columns: register },
        RangeQuery { index: 2, start_bits, is_strict: false, columns: PDC },
    ]
}

/// Queries that bind every column: 17 bits hold a customer or a price in cents, 30 bits 34 years.
const fn from_all_columns(
    (market, market_bits): (&'static [usize], &'static [u32]),
    (register, register_bits): (&'static [usize], &'static [u32]),
    pdc_bits: &'static [u32],
) -> [RangeQuery; 3] {
    [
        RangeQuery { index: 0, start_bits: market_bits, is_strict: false, columns: market },
        RangeQuery { index: 1, start_bits: register_bits, is_strict: false, columns: register },
        RangeQuery { index: 2, start_bits: pdc_bits, is_strict: false, columns: PDC },
    ]
}

const PUBLISHED_2023: &[RangeQuery] = &from_first_column(MARKET_2023, REGISTER_2023);
const PUBLISHED_2024: &[RangeQuery] = &from_first_column(MARKET_2024, REGISTER_2024);
const UNIFORM_2023: &[RangeQuery] =
    &from_all_columns((MARKET_2023, &[17, 17]), (REGISTER_2023, &[10, 17, 17]), &[17, 30, 17]);
const UNIFORM_2024: &[RangeQuery] =
    &from_all_columns((MARKET_2024, &[14, 17, 9]), (REGISTER_2024, &[10, 17, 9]), &[9, 30, 17]);

impl Dialect {
    /// Table, indexes and queries; `points` is the number of keys in a query by primary key, which only 2024 has.
    #[must_use]
    pub fn schema(self, start: QueryStart, points: u16) -> Schema {
        let (columns, indexes, ranges) = match (self, start) {
            (Dialect::Year2015, _) | (Dialect::Year2023, QueryStart::Uniform) => {
                (COLUMNS_2023, INDEXES_2023, UNIFORM_2023)
            }
            (Dialect::Year2023, QueryStart::AsPublished) => {
                (COLUMNS_2023, INDEXES_2023, PUBLISHED_2023)
            }
            (Dialect::Year2024, QueryStart::AsPublished) => {
                (COLUMNS_2024, INDEXES_2024, PUBLISHED_2024)
            }
            (Dialect::Year2024, QueryStart::Uniform) => (COLUMNS_2024, INDEXES_2024, UNIFORM_2024),
        };
        let points = (self == Dialect::Year2024)
            .then_some(PointQuery { count: points, columns: &[KEY, PRODUCT, DATA] });
        Schema { columns, indexes, ranges, points }
    }

    /// Whether prices are whole numbers, and the customer has no part in them.
    #[inline]
    pub(super) fn has_whole_prices(self) -> bool {
        self == Dialect::Year2024
    }

    /// Length of `data` in bytes where the experiment does not say otherwise: shortest and longest. Document 002's pad;
    /// for the others what the scripts of the client pass to it.
    pub(super) fn data_bytes(self) -> (u16, u16) {
        match self {
            Dialect::Year2015 => (256, 256),
            Dialect::Year2023 | Dialect::Year2024 => (10, 20),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Shows that every query is covered by its index, and that starts have room for every value.
    use super::*;

    const ALL: [(Dialect, QueryStart); 6] = [
        (Dialect::Year2015, QueryStart::AsPublished),
        (Dialect::Year2015, QueryStart::Uniform),
        (Dialect::Year2023, QueryStart::AsPublished),
        (Dialect::Year2023, QueryStart::Uniform),
        (Dialect::Year2024, QueryStart::AsPublished),
        (Dialect::Year2024, QueryStart::Uniform),
    ];

    #[test]
    fn queries_read_exactly_the_columns_of_their_index() {
        for (dialect, start) in ALL {
            let schema = dialect.schema(start, 10);
            assert_eq!(schema.indexes.len(), schema.ranges.len());
            for (number, range) in schema.ranges.iter().enumerate() {
                assert_eq!(range.index, number);
                assert_eq!(range.columns, schema.indexes[number].columns, "{dialect:?}");
            }
            assert_eq!(schema.columns[KEY].kind, ColumnKind::Key);
            assert_eq!(schema.points.is_some(), dialect == Dialect::Year2024);
        }
    }

    #[test]
    fn starts_have_room_for_every_value() {
        for (dialect, start) in ALL {
            let schema = dialect.schema(start, 10);
            let most = |column| match column {
                CASH_REGISTER => CASH_REGISTERS,
                CUSTOMER => CUSTOMERS,
                PRODUCT => PRODUCTS,
                PRICE if dialect.has_whole_prices() => PRICES,
                PRICE => CUSTOMERS + PRICES,
                // A trillion rows, the most that the parameter takes, at 1,000 a second.
                _ => 1_000_000_000,
            };
            for range in schema.ranges {
                let columns = schema.indexes[range.index].columns;
                for (&column, &bits) in columns.iter().zip(range.start_bits) {
                    assert!(most(column) - 1 <= u64::MAX >> (64 - bits), "{dialect:?} {column}");
                }
                assert!(range.start_bits.iter().sum::<u32>() <= 64);
                let binds_all = range.start_bits.len() == columns.len();
                let one = dialect != Dialect::Year2015 && start == QueryStart::AsPublished;
                assert_eq!((range.start_bits.len() == 1, binds_all), (one, !one), "{dialect:?}");
            }
        }
    }

    #[test]
    fn only_the_published_register_query_leaves_out_its_start() {
        let strict = |dialect: Dialect, start| -> Vec<&str> {
            let schema = dialect.schema(start, 10);
            let strict = schema.ranges.iter().filter(|range| range.is_strict);
            strict.map(|range| schema.indexes[range.index].name).collect()
        };
        assert_eq!(strict(Dialect::Year2023, QueryStart::AsPublished), ["registersegment"]);
        assert_eq!(strict(Dialect::Year2024, QueryStart::AsPublished), ["registersegment"]);
        assert!(strict(Dialect::Year2015, QueryStart::AsPublished).is_empty());
        assert!(strict(Dialect::Year2024, QueryStart::Uniform).is_empty());
    }
}
