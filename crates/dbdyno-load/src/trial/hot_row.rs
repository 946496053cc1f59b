//! A trial of `hot_row`: read the counters, measure, read them again, and let the workload judge.

use super::Trialed;
use crate::driver::{Driver, DriverError};
use crate::measure::{ClientId, Measured, Observer, Shape, measure};
use dbdyno_workload::hot_row::{
    CheckReport, CounterScope, Evidence, Ledger, SampledRow, TableState,
};
use dbdyno_workload::{Dataset, HotRow, RowId, Seed};

/// Rows that are looked at for damage after each trial.
const SAMPLED_ROWS: usize = 100;

/// What to run.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The workload with its settings.
    pub workload: HotRow,
    /// What is loaded.
    pub dataset: Dataset,
    /// The DOP of the cell; the shape's clients may be fewer where the workload says so.
    pub dop: u32,
    /// Seed of the request streams.
    pub seed: Seed,
    /// Clients, arrivals and times.
    pub shape: Shape,
}

/// What is read before the warm-up and again after the drain.
struct Reading {
    tables: Vec<TableState>,
    sampled: Vec<(u64, bool)>,
}

/// Runs the trial and its check.
///
/// # Errors
/// The engine's, if it cannot be read or a client cannot connect.
pub fn run<D: Driver>(
    driver: &D,
    trial: &Trial,
    observer: &mut dyn Observer,
) -> Result<Trialed, DriverError> {
    let ids = if D::KEEPS_ROWS { trial.dataset.sample_rows(SAMPLED_ROWS) } else { Vec::new() };
    let before = read::<D>(driver, trial, &ids)?;
    let stream_of = |id: ClientId| trial.workload.stream(trial.seed, id.client);
    let measured = measure(driver, &trial.shape, stream_of, observer)?;
    let after = read::<D>(driver, trial, &ids)?;
    let Measured { timeline, drained, streams, counters, unsent } = measured;
    let ledgers: Vec<Ledger> = streams.into_iter().map(|stream| stream.into_ledger()).collect();
    let did = |ledger: &&Ledger| ledger.acknowledged_total() + ledger.unknown_total() > 0;
    let active_clients = ledgers.iter().filter(did).count() as u32;
    let acknowledged = ledgers.iter().map(Ledger::acknowledged_total).sum();
    let check = match (before, after) {
        (Some(before), Some(after)) => Some(judge(trial, &ids, &before, &after, &ledgers)),
        _ => None,
    };
    let measured = Measured { timeline, drained, streams: Vec::new(), counters, unsent };
    Ok(Trialed { measured, check, active_clients, acknowledged })
}

fn read<D: Driver>(
    driver: &D,
    trial: &Trial,
    ids: &[RowId],
) -> Result<Option<Reading>, DriverError> {
    if !D::KEEPS_ROWS {
        return Ok(None);
    }
    let missing = |id: RowId| {
        DriverError::new(format!("row {} of table {} is missing", id.row, id.table + 1))
    };
    let row_of = |id: RowId| driver.row(id.table, id.row)?.ok_or_else(|| missing(id));
    let counter = |table| match trial.workload.counter_scope() {
        CounterScope::Row1 => row_of(RowId { table, row: 1 }).map(|row| row.counter),
        CounterScope::WholeTable => driver.counter_sum(table),
    };
    let tables = (0..trial.dataset.tables)
        .map(|table| counter(table).map(|counter| TableState { counter }))
        .collect::<Result<_, _>>()?;
    let sampled = ids
        .iter()
        .map(|&id| row_of(id).map(|row| (row.counter, trial.dataset.is_filler(id, &row.filler))))
        .collect::<Result<_, _>>()?;
    Ok(Some(Reading { tables, sampled }))
}

fn judge(
    trial: &Trial,
    ids: &[RowId],
    before: &Reading,
    after: &Reading,
    ledgers: &[Ledger],
) -> CheckReport {
    let aged = trial.dataset.age_updates_for(ids);
    let sampled: Vec<SampledRow> = ids
        .iter()
        .zip(aged)
        .zip(before.sampled.iter().zip(&after.sampled))
        .map(|((&id, aged), (&(before, _), &(after, filler_intact)))| SampledRow {
            id,
            aged,
            before,
            after,
            filler_intact,
        })
        .collect();
    trial.workload.check(&Evidence {
        dop: trial.dop,
        before: &before.tables,
        after: &after.tables,
        ledgers,
        sampled: &sampled,
    })
}
