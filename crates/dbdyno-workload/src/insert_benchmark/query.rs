//! Which range query a client asks next, and where it starts.
//!
//! Every value of a start is drawn as rows have it, so that popular places of an index are asked for as often as rows
//! are put there. The dialect decides how many columns a start has. Start with [`Queries::next`].

use super::dialect::{
    CASH_REGISTER, CASH_REGISTERS, CUSTOMER, CUSTOMERS, Dialect, PRICE, PRODUCT, PRODUCTS,
};
use super::purchase::{draw_price, seconds_of};
use super::{InsertBenchmark, KeySpan, TableSpan};
use crate::request::{Action, Request};
use crate::rng::Random;
use crate::schema::Schema;

/// The class of the first range query in [`super::REQUEST_CLASSES`]; the others follow.
const FIRST_RANGE: u8 = 2;

/// The queries of one client.
#[derive(Debug)]
pub(super) struct Queries {
    dialect: Dialect,
    schema: Schema,
    limit: u16,
    /// The next query of a client that takes them in turn.
    turn: u8,
    random: Random,
}

impl Queries {
    #[inline]
    pub(super) fn next(&mut self, table: u16, span: &TableSpan) -> Request {
        let queries = self.schema.ranges.len() as u8;
        // The client of 2015 takes its queries in turn, the others at random.
        let query = if self.dialect == Dialect::Year2015 {
            let turn = self.turn;
            self.turn = (turn + 1) % queries;
            turn
        } else {
            self.random.below(queries.into()) as u8
        };
        let row = self.start(query, span);
        let action = Action::Range { query, limit: self.limit };
        Request { class: FIRST_RANGE + query, table, row, action }
    }

    /// A start with the values of a row that might be there. Times are those of the rows in the table, as if their keys
    /// were their numbers.
    #[inline]
    fn start(&mut self, query: u8, span: &TableSpan) -> u64 {
        let Queries { dialect, random, .. } = self;
        let range = &self.schema.ranges[usize::from(query)];
        let columns = self.schema.indexes[range.index].columns;
        let customer = random.below(CUSTOMERS);
        range.pack_start(|place| match columns[place] {
            CASH_REGISTER => random.below(CASH_REGISTERS),
            CUSTOMER => customer,
            PRODUCT => random.below(PRODUCTS),
            PRICE => draw_price(*dialect, customer, random),
            _ => {
                let keys = span.keys().unwrap_or(KeySpan { first: 0, last: 0 });
                seconds_of(keys.first + random.below(keys.rows_max()))
            }
        })
    }
}

impl InsertBenchmark {
    /// The queries that this stream of random numbers decides.
    pub(super) fn queries(&self, random: Random) -> Queries {
        let schema = self.schema();
        Queries { dialect: self.dialect, schema, limit: self.query_limit, turn: 0, random }
    }
}

#[cfg(test)]
mod tests {
    //! Shows that starts are distributed as rows are, and in which order queries come.
    use super::*;
    use crate::parameter::{Setting, Settings};
    use crate::rng::Seed;
    use crate::schema::{ColumnValue, EPOCH_SECONDS};

    fn workload(dialect: &str, query_start: &str) -> InsertBenchmark {
        let settings = [("dialect", dialect), ("query_start", query_start)]
            .map(|(name, value)| (name.to_owned(), Setting::Text(value.to_owned())));
        InsertBenchmark::from_settings(&Settings::from(settings)).expect("valid")
    }

    /// Asks many queries of a table with rows of 5,000 seconds.
    fn check(dialect: &str, query_start: &str) {
        let context = format!("{dialect} {query_start}");
        let workload = workload(dialect, query_start);
        let schema = workload.schema();
        let span = TableSpan::new(Some(KeySpan { first: 1, last: 4_999_999 }), 5_000_000);
        let mut queries = workload.queries(Random::new(Seed(7)));
        let mut sums = [[0.0; 7]; 3];
        let mut counts = [0.0; 3];
        for _ in 0..30_000 {
            let request = queries.next(0, &span);
            let Action::Range { query, limit: 10 } = request.action else { panic!("{request:?}") };
            assert_eq!((request.class, request.table), (FIRST_RANGE + query, 0));
            let number = usize::from(query);
            counts[number] += 1.0;
            let columns = schema.indexes[number].columns;
            for (&column, value) in columns.iter().zip(schema.start_values(query, request.row)) {
                sums[number][column] += match value {
                    ColumnValue::Integer(value) => value as f64,
                    ColumnValue::Real(value) => value,
                    ColumnValue::Seconds(value) => (value - EPOCH_SECONDS) as f64,
                    ColumnValue::Text(_) => panic!("{value:?}"),
                };
            }
        }
        let price = if dialect == "2024" { 249.5 } else { 502.49 };
        // Key, second of a row, cash register, customer, product, price, data.
        let means = [0.0, 2499.5, 499.5, 49_999.5, 4999.5, price, 0.0];
        for (query, range) in schema.ranges.iter().enumerate() {
            // Standard deviation 82.
            assert!((counts[query] - 10_000.0_f64).abs() < 400.0, "{context}: {counts:?}");
            for &column in &schema.indexes[query].columns[..range.start_bits.len()] {
                let mean: f64 = sums[query][column] / counts[query];
                // A uniform value's standard error is 0.58 % of its mean.
                assert!((mean / means[column] - 1.0).abs() < 0.03, "{context} {query}: {mean}");
            }
        }
    }

    #[test]
    fn starts_are_values_that_rows_have() {
        check("2015", "as-published");
        check("2023", "as-published");
        check("2023", "uniform");
        check("2024", "as-published");
        check("2024", "uniform");
    }

    #[test]
    fn the_client_of_2015_takes_queries_in_turn() {
        let mut queries = workload("2015", "uniform").queries(Random::new(Seed(1)));
        let empty = TableSpan::new(None, 1);
        let classes: Vec<_> = (0..6).map(|_| queries.next(0, &empty).class).collect();
        assert_eq!(classes, [2, 3, 4, 2, 3, 4]);
    }
}
