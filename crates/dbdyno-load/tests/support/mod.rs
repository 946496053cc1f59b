//! Shared by the tests of this crate: a stream that only counts, and a driver made of a function.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod ferretdb_server;
pub mod mysql_server;
pub mod postgres_server;
pub mod schedule;

use dbdyno_load::driver::null::Null;
use dbdyno_load::driver::{Client, Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use dbdyno_load::outcome::Outcome;
use dbdyno_workload::{Action, Request, RequestStream, RowId};
use std::ops::RangeInclusive;

/// The same request for ever; counts what it is told.
#[derive(Default)]
pub struct Counting {
    pub made: u64,
    pub acknowledged: u64,
    pub unknown: u64,
}

impl RequestStream for Counting {
    fn next(&mut self) -> Request {
        self.made += 1;
        Request { class: 0, table: 0, row: 1, action: Action::Increment }
    }

    fn acknowledged(&mut self, _: &Request) {
        self.acknowledged += 1;
    }

    fn unknown(&mut self, _: &Request) {
        self.unknown += 1;
    }
}

/// A stream that ends after so many requests.
pub struct Ending {
    pub class: u8,
    pub left: u64,
    pub counting: Counting,
}

impl RequestStream for Ending {
    fn next(&mut self) -> Request {
        self.left -= 1;
        Request { class: self.class, ..self.counting.next() }
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }

    fn acknowledged(&mut self, request: &Request) {
        self.counting.acknowledged(request);
    }

    fn unknown(&mut self, request: &Request) {
        self.counting.unknown(request);
    }
}

/// A driver on a server with one table of ten rows, in a database that is made if it is not there.
pub fn loaded<D: Driver>(options: &OpenOptions) -> D {
    D::create_database(options).expect("a database");
    let driver = D::open(options).expect("opens");
    driver.create_tables(1).expect("makes a table");
    if driver.last_row(0).expect("reads").is_none() {
        driver.insert_rows(0, 1..=10, &|_, filler| filler.resize(100, b'x')).expect("inserts");
    }
    driver
}

/// A driver that keeps nothing and answers as the function says. A double for faults that no engine makes on demand.
pub struct Double<F>(pub F);

/// A connection of a [`Double`].
pub struct DoubleClient<F>(F);

impl<F: Fn(&Request) -> Outcome + Clone + Send + Sync> Driver for Double<F> {
    type Client = DoubleClient<F>;
    const KEEPS_ROWS: bool = false;

    fn open(_: &OpenOptions) -> Result<Self, DriverError> {
        Err(DriverError::new("a double is made, not opened"))
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        Null.receipt()
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        Null.create_tables(tables)
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        Null.last_row(table)
    }

    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        Null.insert_rows(table, rows, fill)
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        Null.age_rows(rows, progress)
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        Null.age_progress()
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        Null.row(table, row)
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        Null.counter_sum(table)
    }

    fn settle(&self) -> Result<(), DriverError> {
        Null.settle()
    }

    fn connect(&self, _: u16) -> Result<Self::Client, DriverError> {
        Ok(DoubleClient(self.0.clone()))
    }
}

impl<F: Fn(&Request) -> Outcome> Client for DoubleClient<F> {
    fn execute(&mut self, request: &Request) -> Outcome {
        (self.0)(request)
    }
}
