//! The check finds what it is there to find: engines that lose updates, apply them twice, or lose answers, through the
//! whole path of a trial. The faults are put in front of the memory engine, because no real one makes them on demand.

use dbdyno_load::arrival::ArrivalPlan;
use dbdyno_load::clock::SECOND;
use dbdyno_load::dataset;
use dbdyno_load::driver::memory::{Memory, MemoryClient};
use dbdyno_load::driver::{Client, Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{RoleShape, Shape, Subject, Until};
use dbdyno_load::outcome::{Failure, FailureClass, Outcome};
use dbdyno_load::trial::hot_row::{self, Trial};
use dbdyno_workload::hot_row::CheckReport;
use dbdyno_workload::{HotRow, Request, RowId, Seed, Setting, Settings};
use std::ops::RangeInclusive;

/// What goes wrong, and in one request of how many.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// Acknowledged and not done.
    LosesUpdate(u64),
    /// Done twice, acknowledged once.
    AppliesTwice(u64),
    /// Done, but the answer never comes.
    LosesAnswer(u64),
    /// Not done, and the answer never comes.
    LosesRequest(u64),
}

struct Faulty {
    memory: Memory,
    fault: Fault,
}

struct FaultyClient {
    memory: MemoryClient,
    fault: Fault,
    requests: u64,
}

impl Client for FaultyClient {
    fn execute(&mut self, request: &Request) -> Outcome {
        self.requests += 1;
        let lost = Outcome::Unknown(Failure { class: FailureClass::Other, code: 0 });
        let now = |each: u64| self.requests.is_multiple_of(each);
        match self.fault {
            Fault::LosesUpdate(each) if now(each) => Outcome::Acknowledged,
            Fault::AppliesTwice(each) if now(each) => {
                self.memory.execute(request);
                self.memory.execute(request)
            }
            Fault::LosesAnswer(each) if now(each) => {
                self.memory.execute(request);
                lost
            }
            Fault::LosesRequest(each) if now(each) => lost,
            _ => self.memory.execute(request),
        }
    }
}

impl Driver for Faulty {
    type Client = FaultyClient;

    fn open(options: &OpenOptions) -> Result<Self, DriverError> {
        Ok(Faulty { memory: Memory::open(options)?, fault: Fault::None })
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        self.memory.receipt()
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        self.memory.create_tables(tables)
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        self.memory.last_row(table)
    }

    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        self.memory.insert_rows(table, rows, fill)
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        self.memory.age_rows(rows, progress)
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        self.memory.age_progress()
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        self.memory.row(table, row)
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        self.memory.counter_sum(table)
    }

    fn settle(&self) -> Result<(), DriverError> {
        self.memory.settle()
    }

    fn connect(&self, tables: u16) -> Result<FaultyClient, DriverError> {
        Ok(FaultyClient { memory: self.memory.connect(tables)?, fault: self.fault, requests: 0 })
    }
}

/// A fifth of a second on two tables with four clients, at 400,000 requests a second at most.
fn check_of(fault: Fault, changed: &[(&str, &str)]) -> CheckReport {
    let mut settings = Settings::new();
    settings.insert("tables".to_owned(), Setting::Integer(2));
    settings.insert("rows".to_owned(), Setting::Integer(300));
    for (name, value) in changed {
        settings.insert((*name).to_owned(), Setting::Text((*value).to_owned()));
    }
    let workload = HotRow::from_settings(&settings).expect("valid settings");
    let seed = Seed(3);
    let options = OpenOptions::of_directory(std::env::temp_dir(), Default::default(), 4);
    let mut driver = Faulty::open(&options).expect("opens");
    driver.fault = fault;
    let dataset = workload.dataset(seed);
    dataset::load(&driver, &dataset, &mut |_| ()).expect("loads");
    let shape = Shape {
        roles: vec![RoleShape {
            clients: workload.clients(4),
            arrival: ArrivalPlan::closed(),
            classes: 0..1,
            seed,
        }],
        subject: Subject::Counters(workload.tables()),
        warmup_ns: SECOND / 20,
        until: Until::Time,
        measured_ns: SECOND / 5,
        drain_limit_ns: SECOND,
        retries_max: u32::MAX,
    };
    let trial = Trial { workload, dataset, dop: 4, seed, shape };
    let trialed = hot_row::run(&driver, &trial, &mut Totals::default()).expect("runs");
    trialed.check.expect("memory keeps rows")
}

fn check(fault: Fault, changed: &[(&str, &str)], passes: bool, with_unknown: bool) {
    let report = check_of(fault, changed);
    assert!(report.acknowledged > 50_000, "{fault:?}: only {} requests", report.acknowledged);
    assert_eq!(report.passed(), passes, "{fault:?} {changed:?}: {report:#?}");
    assert_eq!(report.unknown > 0, with_unknown, "{fault:?} {changed:?}");
}

/// An honest engine passes, whatever the keys and the assignment.
#[test]
fn an_honest_engine_passes() {
    for keys in ["single", "uniform", "zipfian(0.9)", "hotspot(0.1,0.9)", "latest"] {
        check(Fault::None, &[("keys", keys)], true, false);
    }
    for assignment in ["pinned", "roaming", "divided"] {
        check(Fault::None, &[("assignment", assignment)], true, false);
    }
    check(Fault::None, &[("update", "assign")], true, false);
}

/// One update in 10,000 that is acknowledged and not done fails the check, and so does one that is done twice.
#[test]
fn lost_and_double_updates_fail() {
    for keys in ["single", "uniform"] {
        check(Fault::LosesUpdate(10_000), &[("keys", keys)], false, false);
        check(Fault::AppliesTwice(10_000), &[("keys", keys)], false, false);
    }
}

/// One lost answer in 1,000, done or not done, passes; it is unknown, which a trial warns about.
#[test]
fn lost_answers_pass_as_unknown() {
    check(Fault::LosesAnswer(1_000), &[], true, true);
    check(Fault::LosesRequest(1_000), &[], true, true);
    check(Fault::LosesAnswer(1_000), &[("update", "assign")], true, true);
}
