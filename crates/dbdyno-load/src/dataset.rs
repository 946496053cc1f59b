//! Puts a dataset into an engine: rows in primary key order, then ageing by random updates.
//!
//! Every step is a transaction and asks the engine first how far the last attempt came, so a load that was killed goes
//! on where it stopped and a finished one does nothing.

use crate::clock::{self, Ns};
use crate::driver::{Driver, DriverError};
use dbdyno_workload::{Dataset, RowId};

/// Rows per transaction while loading.
const ROWS_PER_TRANSACTION: u64 = 10_000;
/// Updates per transaction while ageing.
const UPDATES_PER_TRANSACTION: usize = 1_000;

/// How far a load has come, in rows inserted and updates made, of both together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadProgress {
    /// Rows and updates that are in the engine.
    pub done: u64,
    /// Rows and updates that will be.
    pub total: u64,
}

/// How long the parts of a load took, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoadTimes {
    /// Making tables and inserting rows.
    pub insert_s: f64,
    /// Random updates.
    pub age_s: f64,
    /// Bringing everything to disk and paying debts.
    pub settle_s: f64,
}

impl LoadProgress {
    /// Before anything is done.
    pub fn none(dataset: &Dataset) -> LoadProgress {
        let total = dataset.rows * u64::from(dataset.tables) + dataset.age_updates().left();
        LoadProgress { done: 0, total }
    }
}

/// Completes the dataset in the engine and settles it; `progress` is called after each transaction, and when there is
/// nothing more to do but to settle.
///
/// # Errors
/// The engine's. What was loaded until then stays and is used by the next attempt.
pub fn load<D: Driver>(
    driver: &D,
    dataset: &Dataset,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadTimes, DriverError> {
    let mut lap = Lap(clock::now());
    let LoadProgress { mut done, total } = LoadProgress::none(dataset);
    driver.create_tables(dataset.tables)?;
    let fill = |id: RowId, buffer: &mut Vec<u8>| dataset.write_filler(id, buffer);
    for table in 0..dataset.tables {
        let mut last = driver.last_row(table)?.unwrap_or(0);
        while last < dataset.rows {
            let batch_end = (last + ROWS_PER_TRANSACTION).min(dataset.rows);
            driver.insert_rows(table, last + 1..=batch_end, &fill)?;
            last = batch_end;
            progress(LoadProgress { done: done + last, total });
        }
        done += dataset.rows;
    }
    let insert_s = lap.seconds();
    let mut aged = driver.age_progress()?;
    let mut updates = dataset.age_updates().skip(aged as usize);
    loop {
        let batch: Vec<RowId> = updates.by_ref().take(UPDATES_PER_TRANSACTION).collect();
        if batch.is_empty() {
            break;
        }
        aged += batch.len() as u64;
        driver.age_rows(&batch, aged)?;
        progress(LoadProgress { done: done + aged, total });
    }
    let age_s = lap.seconds();
    progress(LoadProgress { done: total, total });
    driver.settle()?;
    Ok(LoadTimes { insert_s, age_s, settle_s: lap.seconds() })
}

/// The time since it was last asked.
struct Lap(Ns);

impl Lap {
    fn seconds(&mut self) -> f64 {
        let now = clock::now();
        let last = std::mem::replace(&mut self.0, now);
        (now - last) as f64 / clock::SECOND as f64
    }
}
