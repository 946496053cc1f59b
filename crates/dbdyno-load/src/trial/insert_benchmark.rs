//! A trial of `insert_benchmark`: steps that go on with the tables that the one before left.
//!
//! Between steps only the ends of tables are looked at, so that the next step measures what it would have measured
//! without; everything is read once, after the last. Start with [`InsertTrial::begin`].

use super::Trialed;
use crate::arrival::ArrivalPlan;
use crate::clock::{Ns, SECOND};
use crate::driver::{Driver, DriverError};
use crate::measure::{
    Boundary, ClientId, Measured, Observer, RoleShape, Shape, Subject, Until, measure,
};
use crate::recorder::Interval;
use crate::tables::{OwnedValue, SharedUse, TableUse, Tables, no_tables};
use dbdyno_workload::insert_benchmark::{
    InsertBenchmarkStream, KeySpan, Ledger, Role, SampledPurchase, StepClient, StepEvidence,
    TableAccount, TableReading, TableSpan, WholeEvidence, check_step, check_whole, sample_keys,
};
use dbdyno_workload::{CheckReport, ColumnValue, InsertBenchmark, RowId, Seed};
use std::sync::Arc;

/// Rows of a commit while loading: large enough that commits cost little, small enough for a statement's parameters,
/// of which SQLite and PostgreSQL take 32,766 and 65,535.
pub const LOAD_ROWS_PER_COMMIT: u16 = 1_000;
/// The longest that loading may take.
const LOAD_LIMIT_NS: Ns = 200_000 * SECOND;
/// Rows that are compared with what was inserted, at the end.
const SAMPLED_ROWS: usize = 100;

/// Clients of a step that do the same.
#[derive(Debug, Clone)]
pub struct StepRole {
    /// What they do.
    pub role: Role,
    /// How many they are.
    pub clients: u32,
    /// When their requests are due.
    pub arrival: ArrivalPlan,
    /// Rows in a commit of inserters and deleters.
    pub rows_per_commit: u16,
    /// Rows after which an inserter is over.
    pub rows_max: Option<u64>,
}

impl StepRole {
    /// Classes of their requests, as indexes into the workload's list.
    fn classes(&self) -> std::ops::Range<usize> {
        match self.role {
            Role::Insert => 0..1,
            Role::Delete => 1..2,
            Role::Query => 2..5,
            Role::Points => 5..6,
        }
    }

    /// Numbers of rows that an insert may have: full ones, and the last, which may be smaller.
    fn batches(&self) -> Vec<u16> {
        let rest = self.rows_max.map_or(0, |rows| (rows % u64::from(self.rows_per_commit)) as u16);
        match self.role {
            Role::Insert => {
                [self.rows_per_commit, rest].into_iter().filter(|&rows| rows > 0).collect()
            }
            Role::Delete | Role::Query | Role::Points => Vec::new(),
        }
    }
}

/// A step with clients.
#[derive(Debug, Clone)]
pub struct Step {
    /// Who does what.
    pub roles: Vec<StepRole>,
    /// What ends it.
    pub until: Until,
    /// How long it lasts; the longest that it may, if rows are to end it.
    pub limit_ns: Ns,
    /// How long after the end requests that were due before it may still be sent or retried.
    pub drain_limit_ns: Ns,
    /// How often a request that was refused is tried again, where that can help.
    pub retries_max: u32,
    /// Seed of this step alone.
    pub seed: Seed,
}

/// A trial between its steps.
pub struct InsertTrial<'d, D> {
    driver: &'d D,
    tables: &'d dyn Tables,
    workload: InsertBenchmark,
    using: TableUse,
    accounts: Vec<TableAccount>,
    /// Keys that attempts took which were tried again, in all steps so far.
    keys_spent: u64,
    has_indexes: bool,
}

/// Counts attempts that are tried again, and hands everything on.
struct Retries<'o> {
    observer: &'o mut dyn Observer,
    retries: u64,
}

impl Observer for Retries<'_> {
    fn boundary(&mut self, boundary: Boundary, threads: &[u32]) {
        self.observer.boundary(boundary, threads);
    }

    fn interval(&mut self, interval: Interval) {
        self.retries += interval.classes.iter().map(|class| class.retries).sum::<u64>();
        self.observer.interval(interval);
    }
}

impl<'d, D: Driver> InsertTrial<'d, D> {
    /// On an engine that has the rows which the workload begins with, for so many clients of the role that has most. Tables
    /// are made if there are none.
    ///
    /// # Errors
    /// The engine's, and if its driver has no such tables.
    pub fn begin(
        driver: &'d D,
        workload: InsertBenchmark,
        seed: Seed,
        clients: u16,
    ) -> Result<Self, DriverError> {
        let dataset = workload.dataset(seed, clients);
        let using = TableUse {
            schema: workload.schema(),
            rows: dataset.rows,
            tables: dataset.tables,
            batches: Vec::new(),
            range_limit: workload.query_limit(),
        };
        let tables = driver.tables().ok_or_else(no_tables)?;
        tables.create(&using)?;
        let accounts = vec![TableAccount::of_loaded(dataset.rows_per_table); using.tables.into()];
        let has_indexes = dataset.is_indexed;
        Ok(InsertTrial { driver, tables, workload, using, accounts, keys_spent: 0, has_indexes })
    }

    /// Loads what a trial begins with into an engine, from the beginning. Returns how many rows that is.
    ///
    /// # Errors
    /// The engine's, and if a row was not taken.
    pub fn load(
        driver: &'d D,
        workload: InsertBenchmark,
        seed: Seed,
        clients: u16,
        observer: &mut dyn Observer,
    ) -> Result<u64, DriverError> {
        let mut trial = InsertTrial::begin(driver, workload, seed, clients)?;
        // What an interrupted load left has no ledger.
        trial.tables.drop(&trial.using)?;
        trial.tables.create(&trial.using)?;
        let dataset = workload.dataset(seed, clients);
        trial.accounts.fill(TableAccount::of_loaded(0));
        trial.has_indexes = false;
        if dataset.rows_per_table > 0 {
            let inserters = StepRole {
                role: Role::Insert,
                clients: dataset.tables.into(),
                arrival: ArrivalPlan::closed(),
                rows_per_commit: LOAD_ROWS_PER_COMMIT,
                rows_max: Some(dataset.rows_per_table),
            };
            trial.step(
                &Step {
                    roles: vec![inserters],
                    until: Until::StreamsOver,
                    limit_ns: LOAD_LIMIT_NS,
                    drain_limit_ns: SECOND,
                    retries_max: u32::MAX,
                    seed,
                },
                observer,
            )?;
        }
        let (rows, wanted) = (trial.rows(), dataset.rows_total());
        if rows != wanted {
            return Err(DriverError::new(format!("the engine took {rows} of {wanted} rows")));
        }
        if dataset.is_indexed {
            trial.make_indexes()?;
        }
        Ok(rows)
    }

    /// Makes the secondary indexes.
    ///
    /// # Errors
    /// The engine's.
    pub fn make_indexes(&mut self) -> Result<(), DriverError> {
        self.tables.create_indexes(&self.using)?;
        self.has_indexes = true;
        Ok(())
    }

    /// Number of tables.
    pub fn tables(&self) -> u16 {
        self.using.tables
    }

    /// Rows inserted and deleted for certain, in all tables, in all steps so far.
    pub fn rows_changed(&self) -> (u64, u64) {
        let sum = |of: fn(&TableAccount) -> u64| self.accounts.iter().map(of).sum();
        (sum(|account| account.inserted), sum(|account| account.deleted))
    }

    /// Rows in all tables, as far as acknowledgements tell.
    pub fn rows(&self) -> u64 {
        self.accounts.iter().map(TableAccount::rows_min).sum()
    }

    /// Runs a step and checks what can be checked without disturbing the next.
    ///
    /// # Errors
    /// The engine's, if it cannot be read or a client cannot connect.
    pub fn step(
        &mut self,
        step: &Step,
        observer: &mut dyn Observer,
    ) -> Result<Trialed, DriverError> {
        let before = self.spans()?;
        let spans: Vec<Arc<TableSpan>> = before
            .iter()
            .zip(&self.accounts)
            .map(|(keys, account)| Arc::new(TableSpan::new(*keys, account.next_row)))
            .collect();
        let keeps_size = step.roles.iter().any(|role| role.role == Role::Delete);
        let stream_of = |ClientId { role, client }: ClientId| -> InsertBenchmarkStream {
            let role = &step.roles[role];
            let client = StepClient {
                role: role.role,
                number: client,
                clients: role.clients,
                rows_per_commit: role.rows_per_commit,
                rows_max: role.rows_max,
                keeps_size,
            };
            self.workload.stream(step.seed, &client, &spans)
        };
        let mut observer = Retries { observer, retries: 0 };
        let measured = measure(self.driver, &self.shape(step), stream_of, &mut observer)?;
        let most = step.roles.iter().map(|role| role.rows_per_commit).max().unwrap_or(0);
        self.keys_spent += observer.retries * u64::from(most);
        let after = self.spans()?;
        let Measured { timeline, drained, streams, counters, unsent } = measured;
        let ledgers: Vec<Ledger> = streams.into_iter().map(|stream| stream.into_ledger()).collect();
        let check = check_step(&StepEvidence {
            accounts: &self.accounts,
            before: &before,
            after: &after,
            gaps_max: self.keys_spent,
            clients: step.roles.iter().map(|role| role.clients).sum(),
            ledgers: &ledgers,
            // A driver refuses a wrong answer under a class of failure of its own, which makes the step Invalid.
            wrong_answers: 0,
        });
        for (table, account) in (0..).zip(&mut self.accounts) {
            *account = account.after(table, &ledgers);
        }
        Ok(Trialed {
            measured: Measured { timeline, drained, streams: Vec::new(), counters, unsent },
            active_clients: check.active_clients,
            acknowledged: ledgers.iter().map(Ledger::acknowledged_total).sum(),
            check: Some(check),
        })
    }

    /// Reads everything and judges the whole trial.
    ///
    /// # Errors
    /// The engine's.
    pub fn check_whole(&self) -> Result<CheckReport, DriverError> {
        let spans = self.spans()?;
        let indexes = if self.has_indexes { self.using.schema.indexes.len() } else { 0 };
        let mut entries: Vec<Vec<u64>> = Vec::new();
        let mut rows = Vec::new();
        for table in 0..self.using.tables {
            let count = |index| self.tables.count(&self.using, table, index);
            rows.push(count(None)?);
            entries.push((0..indexes).map(|index| count(Some(index))).collect::<Result<_, _>>()?);
        }
        let readings: Vec<TableReading<'_>> = spans
            .iter()
            .zip(&rows)
            .zip(&entries)
            .map(|((&keys, &rows), entries)| TableReading { keys, rows, index_entries: entries })
            .collect();
        let sampled = sample_keys(Seed(1), &spans, SAMPLED_ROWS);
        let sampled =
            sampled.into_iter().map(|id| self.sampled(id)).collect::<Result<Vec<_>, _>>()?;
        Ok(check_whole(
            &self.using.schema,
            &WholeEvidence {
                accounts: &self.accounts,
                tables: &readings,
                sampled: &sampled,
                wrong_answers: 0,
            },
        ))
    }

    fn sampled(&self, id: RowId) -> Result<SampledPurchase, DriverError> {
        let values = self.tables.row(&self.using, id.table, id.row)?;
        let is_as_inserted = values.is_some_and(|values| {
            let values: Vec<ColumnValue<'_>> = values.iter().map(OwnedValue::as_column).collect();
            self.using.rows.is_row(id, &values)
        });
        Ok(SampledPurchase { id, is_as_inserted })
    }

    fn spans(&self) -> Result<Vec<Option<KeySpan>>, DriverError> {
        (0..self.using.tables).map(|table| self.tables.bounds(&self.using, table)).collect()
    }

    fn shape(&self, step: &Step) -> Shape {
        let mut batches: Vec<u16> = step.roles.iter().flat_map(StepRole::batches).collect();
        batches.sort_unstable();
        batches.dedup();
        let using: SharedUse = Arc::new(TableUse { batches, ..self.using.clone() });
        let role = |role: &StepRole| RoleShape {
            clients: role.clients,
            arrival: role.arrival.clone(),
            classes: role.classes(),
            seed: step.seed,
        };
        Shape {
            roles: step.roles.iter().map(role).collect(),
            subject: Subject::Schema(using),
            warmup_ns: 0,
            until: step.until,
            measured_ns: step.limit_ns,
            drain_limit_ns: step.drain_limit_ns,
            retries_max: step.retries_max,
        }
    }
}
