//! What is in a row: a pure function of (seed, table, row), so that nothing about it is stored or sent between threads.
//!
//! Values are distributed as in the tool that the workload follows, except for the time: the tool writes the second in
//! which it runs, and here it follows from the row's number, so that the same seed gives the same rows. Start with
//! [`PurchaseRows::write`].

use super::dialect::{CASH_REGISTERS, CUSTOMERS, Dialect, PRICES, PRODUCTS};
use crate::dataset::{RowId, write_letters};
use crate::rng::{Random, Seed};
use crate::schema::{CENTS, ColumnValue, EPOCH_SECONDS};

/// Version of everything below that decides what is in a row. It is part of the fingerprint of datasets: a change
/// needs a new number, and golden tests notice a change without one.
pub const PURCHASE_FORMAT: u32 = 1;

/// Rows that have the same second. A choice of ours, of the order of what one client inserts in a second.
const ROWS_PER_SECOND: u64 = 1000;

/// What the padding of `data` consists of.
const PADDING: u8 = b'a';

/// The rows of all tables: what a driver keeps to know what to insert. Small and `Copy`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PurchaseRows {
    pub(super) dialect: Dialect,
    /// The seed of rows alone.
    pub(super) seed: Seed,
    /// Shortest `data`, in bytes.
    pub(super) data_bytes_min: u16,
    /// Longest `data`, in bytes; not below the shortest.
    pub(super) data_bytes_max: u16,
    /// Random letters in `data`, as a fraction of its length (rounded down).
    pub(super) data_random_share: f64,
}

/// One row without its primary key, which the engine gives. Used again and again, it allocates only while its buffer
/// grows.
#[derive(Debug, Clone, PartialEq)]
pub struct Purchase {
    /// All columns between the key and `data`.
    numbers: [ColumnValue<'static>; 5],
    data: Vec<u8>,
}

impl Default for Purchase {
    fn default() -> Purchase {
        Purchase { numbers: [ColumnValue::Integer(0); 5], data: Vec::new() }
    }
}

impl Purchase {
    /// The values of columns 1 to 6 of the schema, in order.
    #[inline]
    #[must_use]
    pub fn values(&self) -> [ColumnValue<'_>; 6] {
        let [seconds, cash_register, customer, product, price] = self.numbers;
        [seconds, cash_register, customer, product, price, ColumnValue::Text(&self.data)]
    }
}

impl PurchaseRows {
    /// Makes `purchase` hold this row, replacing what was in it.
    #[inline]
    pub fn write(&self, id: RowId, purchase: &mut Purchase) {
        let mut random = Random::new(self.seed.absorb(id.table.into()).absorb(id.row));
        let cash_register = random.below(CASH_REGISTERS);
        let customer = random.below(CUSTOMERS);
        let product = random.below(PRODUCTS);
        let price = draw_price(self.dialect, customer, &mut random);
        purchase.numbers = [
            ColumnValue::Seconds(EPOCH_SECONDS + seconds_of(id.row) as i64),
            ColumnValue::Integer(cash_register as i64),
            ColumnValue::Integer(customer as i64),
            ColumnValue::Integer(product as i64),
            if self.dialect.has_whole_prices() {
                ColumnValue::Integer(price as i64)
            } else {
                ColumnValue::Real(price as f64 / CENTS)
            },
        ];
        let lengths = u64::from(self.data_bytes_max - self.data_bytes_min) + 1;
        let length = usize::from(self.data_bytes_min) + random.below(lengths) as usize;
        let letters = (length as f64 * self.data_random_share) as usize;
        // The random part comes last, as in the tool since 2023; in 2015 it was first.
        purchase.data.clear();
        purchase.data.resize(length, PADDING);
        write_letters(&mut random, &mut purchase.data[length - letters..]);
    }

    /// Whether these values, of columns 1 to 6 as they were read back, are the row's. Real numbers are compared in
    /// single precision, because that is what engines store.
    #[must_use]
    pub fn is_row(&self, id: RowId, values: &[ColumnValue<'_>]) -> bool {
        let mut expected = Purchase::default();
        self.write(id, &mut expected);
        let is_same =
            |(expected, found): (&ColumnValue<'_>, &ColumnValue<'_>)| match (expected, found) {
                (ColumnValue::Real(expected), ColumnValue::Real(found)) => {
                    *expected as f32 == *found as f32
                }
                _ => expected == found,
            };
        values.len() == expected.values().len() && expected.values().iter().zip(values).all(is_same)
    }
}

/// The second of a row, counted from [`EPOCH_SECONDS`].
#[inline]
pub(super) fn seconds_of(row: u64) -> u64 {
    row / ROWS_PER_SECOND
}

/// A price as rows have it: in cents, of which the customer's number is the greater part, or a whole number. The client
/// of 2023 sends two digits as well; that of 2015 sends all that it has drawn.
#[inline]
pub(super) fn draw_price(dialect: Dialect, customer: u64, random: &mut Random) -> u64 {
    let price = random.below(PRICES);
    if dialect.has_whole_prices() { price } else { customer + price }
}

#[cfg(test)]
mod tests {
    //! Shows that rows are frozen and distributed as they should be, and that `data` is padded in front.
    use super::*;
    use proptest::prelude::*;

    const ROWS: PurchaseRows = PurchaseRows {
        dialect: Dialect::Year2023,
        seed: Seed(42),
        data_bytes_min: 10,
        data_bytes_max: 20,
        data_random_share: 0.375,
    };

    fn row(rows: &PurchaseRows, table: u16, row: u64) -> Purchase {
        let mut purchase = Purchase::default();
        rows.write(RowId { table, row }, &mut purchase);
        purchase
    }

    fn purchase(
        numbers: (i64, i64, i64, i64),
        price: ColumnValue<'static>,
        data: &str,
    ) -> Purchase {
        let (seconds, cash_register, customer, product) = numbers;
        let integer = ColumnValue::Integer;
        Purchase {
            numbers: [
                ColumnValue::Seconds(seconds),
                integer(cash_register),
                integer(customer),
                integer(product),
                price,
            ],
            data: data.as_bytes().to_vec(),
        }
    }

    #[test]
    fn rows_never_change_without_their_format() {
        // Computed by a separate program from the description of the format.
        assert_eq!(PURCHASE_FORMAT, 1);
        let first = purchase(
            (1_672_531_200, 815, 6251, 3522),
            ColumnValue::Real(63.1),
            "aaaaaaaaaaaa7hQUsUD",
        );
        assert_eq!(row(&ROWS, 0, 1), first);
        let last = purchase(
            (1_672_551_200, 112, 74_293, 8273),
            ColumnValue::Real(746.01),
            "aaaaaaaaaja-gU",
        );
        assert_eq!(row(&ROWS, 7, 20_000_000), last);
        let whole = PurchaseRows { dialect: Dialect::Year2024, ..ROWS };
        let first = purchase(
            (1_672_531_200, 815, 6251, 3522),
            ColumnValue::Integer(59),
            "aaaaaaaaaaaa7hQUsUD",
        );
        assert_eq!(row(&whole, 0, 1), first);
    }

    #[test]
    fn rows_differ_by_seed_table_and_number() {
        let expected = row(&ROWS, 3, 5);
        assert_eq!(row(&ROWS, 3, 5), expected);
        assert_ne!(row(&ROWS, 3, 6), expected);
        assert_ne!(row(&ROWS, 4, 5), expected);
        assert_ne!(row(&PurchaseRows { seed: Seed(43), ..ROWS }, 3, 5), expected);
    }

    #[test]
    fn values_are_uniform_over_their_ranges() {
        for dialect in [Dialect::Year2023, Dialect::Year2024] {
            let rows = PurchaseRows { dialect, ..ROWS };
            let mut sums = [0.0; 5];
            let mut seconds_before = 0;
            for number in 1..=20_000 {
                let purchase = row(&rows, 0, number);
                let values = purchase.values();
                let ColumnValue::Seconds(seconds) = values[0] else { panic!("{values:?}") };
                assert!(seconds_before <= seconds, "time goes on");
                seconds_before = seconds;
                for (sum, value) in sums.iter_mut().zip(&values[1..]) {
                    *sum += match *value {
                        ColumnValue::Integer(value) => value as f64,
                        ColumnValue::Real(value) => value,
                        ColumnValue::Text(data) => data.len() as f64,
                        ColumnValue::Seconds(_) => panic!("{values:?}"),
                    };
                }
            }
            let price = if dialect == Dialect::Year2024 { 249.5 } else { 502.49 };
            let means = [499.5, 49_999.5, 4999.5, price, 15.0];
            for (sum, mean) in sums.into_iter().zip(means) {
                // A uniform value's standard error is at most 0.41 % of its mean.
                assert!((sum / 20_000.0 / mean - 1.0).abs() < 0.02, "{dialect:?}: {sums:?}");
            }
            assert_eq!(seconds_before, EPOCH_SECONDS + 20);
        }
    }

    #[test]
    fn a_price_is_mostly_its_customer() {
        for number in 1..1000 {
            let purchase = row(&ROWS, 0, number);
            let [_, _, ColumnValue::Integer(customer), _, ColumnValue::Real(price), _] =
                purchase.values()
            else {
                panic!("{purchase:?}")
            };
            let cents = (price * 100.0).round() as i64;
            assert!((customer..customer + 500).contains(&cents), "{purchase:?}");
        }
    }

    #[test]
    fn a_row_is_recognised_in_single_precision() {
        let id = RowId { table: 0, row: 9 };
        let purchase = row(&ROWS, 0, 9);
        let mut values = purchase.values();
        assert!(ROWS.is_row(id, &values));
        let ColumnValue::Real(price) = values[4] else { panic!("{values:?}") };
        values[4] = ColumnValue::Real(f64::from(price as f32));
        assert!(ROWS.is_row(id, &values));
        values[4] = ColumnValue::Real(price + 0.01);
        assert!(!ROWS.is_row(id, &values));
        assert!(!ROWS.is_row(id, &purchase.values()[..5]));
        assert!(!ROWS.is_row(RowId { row: 10, ..id }, &purchase.values()));
    }

    proptest! {
        #[test]
        fn data_is_padding_and_then_letters(
            shortest in 0..300u16, more in 0..300u16, share in 0.0..=1.0, number in any::<u64>(),
        ) {
            let rows = PurchaseRows {
                data_bytes_min: shortest,
                data_bytes_max: shortest + more,
                data_random_share: share,
                ..ROWS
            };
            let data = row(&rows, 0, number).data;
            prop_assert!((shortest..=shortest + more).contains(&(data.len() as u16)));
            let letters = (data.len() as f64 * share) as usize;
            let (padding, letters) = data.split_at(data.len() - letters);
            prop_assert!(padding.iter().all(|&byte| byte == b'a'));
            let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
            prop_assert!(letters.iter().all(is_letter));
            // Sixteen random letters are not all one letter.
            prop_assert!(letters.len() < 16 || letters.iter().any(|&byte| byte != letters[0]));
        }

        #[test]
        fn a_used_row_is_as_good_as_a_new_one(first in any::<u64>(), second in any::<u64>()) {
            let mut purchase = row(&ROWS, 0, first);
            ROWS.write(RowId { table: 0, row: second }, &mut purchase);
            prop_assert_eq!(purchase, row(&ROWS, 0, second));
        }
    }
}
