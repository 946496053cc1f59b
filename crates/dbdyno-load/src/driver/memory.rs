//! Tables in this process's memory, for tests: correct, quick, gone when it is dropped. Never behind a published figure.

use super::{Client, Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use crate::outcome::{Failure, FailureClass, NOT_MADE_FOR, Outcome};
use dbdyno_workload::{Action, Request, RowId};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// Rows of one table: primary key minus one is the index.
type Table = Vec<(AtomicU64, Vec<u8>)>;

/// All tables; shared by connections.
#[derive(Default)]
pub struct Memory {
    tables: Arc<RwLock<Vec<Table>>>,
    age_progress: AtomicU64,
}

fn poisoned<T>(_: T) -> DriverError {
    DriverError::new("a thread that used the memory engine panicked")
}

impl Driver for Memory {
    type Client = MemoryClient;
    const KEEPS_FILES: bool = false;

    fn open(_: &OpenOptions) -> Result<Self, DriverError> {
        Ok(Memory::default())
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        Ok(Receipt { version: env!("CARGO_PKG_VERSION").to_owned(), ..Receipt::default() })
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        let mut all = self.tables.write().map_err(poisoned)?;
        let wanted = all.len().max(usize::from(tables));
        all.resize_with(wanted, Vec::new);
        Ok(())
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        let rows = self.tables.read().map_err(poisoned)?[usize::from(table)].len() as u64;
        Ok(Some(rows).filter(|&rows| rows > 0))
    }

    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        let mut all = self.tables.write().map_err(poisoned)?;
        for row in rows {
            let mut filler = Vec::new();
            fill(RowId { table, row }, &mut filler);
            all[usize::from(table)].push((AtomicU64::new(0), filler));
        }
        Ok(())
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        let all = self.tables.read().map_err(poisoned)?;
        for &RowId { table, row } in rows {
            all[usize::from(table)][row as usize - 1].0.fetch_add(1, Ordering::Relaxed);
        }
        self.age_progress.store(progress, Ordering::Relaxed);
        Ok(())
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        Ok(self.age_progress.load(Ordering::Relaxed))
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        let all = self.tables.read().map_err(poisoned)?;
        Ok(all[usize::from(table)].get(row as usize - 1).map(|(counter, filler)| Row {
            counter: counter.load(Ordering::Relaxed),
            filler: filler.clone(),
        }))
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        let all = self.tables.read().map_err(poisoned)?;
        Ok(all[usize::from(table)]
            .iter()
            .fold(0, |sum, (counter, _)| sum.wrapping_add(counter.load(Ordering::Relaxed))))
    }

    fn settle(&self) -> Result<(), DriverError> {
        Ok(())
    }

    fn connect(&self, _: u16) -> Result<MemoryClient, DriverError> {
        Ok(MemoryClient { tables: Arc::clone(&self.tables) })
    }
}

/// A connection.
pub struct MemoryClient {
    tables: Arc<RwLock<Vec<Table>>>,
}

impl Client for MemoryClient {
    fn execute(&mut self, request: &Request) -> Outcome {
        let Ok(tables) = self.tables.read() else {
            return Outcome::Unknown(Failure { class: FailureClass::Other, code: 0 });
        };
        let found = tables
            .get(usize::from(request.table))
            .and_then(|table| table.get((request.row as usize).wrapping_sub(1)));
        let Some((counter, filler)) = found else {
            return Outcome::Refused(Failure { class: FailureClass::NoSuchRow, code: 0 });
        };
        match request.action {
            Action::Read => {
                std::hint::black_box((counter.load(Ordering::Relaxed), filler.as_slice()));
            }
            Action::Increment => {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            Action::Assign(value) => counter.store(value, Ordering::Relaxed),
            _ => return NOT_MADE_FOR,
        }
        Outcome::Acknowledged
    }
}
