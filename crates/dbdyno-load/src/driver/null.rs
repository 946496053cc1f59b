//! The canary: acknowledges everything and does nothing, so that what is measured is dbdyno itself.

use super::{Client, Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use crate::outcome::Outcome;
use dbdyno_workload::{Request, RowId};
use std::ops::RangeInclusive;

/// The engine that is not there.
pub struct Null;

impl Driver for Null {
    type Client = NullClient;
    const KEEPS_FILES: bool = false;
    const KEEPS_ROWS: bool = false;

    fn open(_: &OpenOptions) -> Result<Self, DriverError> {
        Ok(Null)
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        Ok(Receipt { version: env!("CARGO_PKG_VERSION").to_owned(), ..Receipt::default() })
    }

    fn create_tables(&self, _: u16) -> Result<(), DriverError> {
        Ok(())
    }

    fn last_row(&self, _: u16) -> Result<Option<u64>, DriverError> {
        Ok(None)
    }

    fn insert_rows(
        &self,
        _: u16,
        _: RangeInclusive<u64>,
        _: FillRow<'_>,
    ) -> Result<(), DriverError> {
        Ok(())
    }

    fn age_rows(&self, _: &[RowId], _: u64) -> Result<(), DriverError> {
        Ok(())
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        Ok(0)
    }

    fn row(&self, _: u16, _: u64) -> Result<Option<Row>, DriverError> {
        Ok(None)
    }

    fn counter_sum(&self, _: u16) -> Result<u64, DriverError> {
        Ok(0)
    }

    fn settle(&self) -> Result<(), DriverError> {
        Ok(())
    }

    fn connect(&self, _: u16) -> Result<NullClient, DriverError> {
        Ok(NullClient)
    }
}

/// A connection to nothing.
pub struct NullClient;

impl Client for NullClient {
    #[inline]
    fn execute(&mut self, request: &Request) -> Outcome {
        // The optimiser must not see that nobody uses the request, or the generator's cost would vanish.
        std::hint::black_box(request);
        Outcome::Acknowledged
    }
}
