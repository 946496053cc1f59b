//! The insert benchmark in small, on engines that keep rows: tables have what was acknowledged after every step, and the
//! whole check finds what is not as it should be.

mod support;

use dbdyno_load::arrival::{ArrivalLaw, ArrivalPlan};
use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::{Driver, OpenOptions, mysql::Mysql, postgres::Postgres, sqlite::Sqlite};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::Until;
use dbdyno_load::server::ClientOptions;
use dbdyno_load::trial::Trialed;
use dbdyno_load::trial::insert_benchmark::{InsertTrial, Step, StepRole};
use dbdyno_workload::insert_benchmark::Role;
use dbdyno_workload::{InsertBenchmark, Seed, Setting};
use std::path::Path;
use support::mysql_server::MysqlServer;
use support::postgres_server::PostgresServer;

fn workload(dialect: &str) -> InsertBenchmark {
    let settings = [("dialect".to_owned(), Setting::Text(dialect.to_owned()))];
    InsertBenchmark::from_settings(&settings.into()).expect("settings fit")
}

fn role(role: Role, clients: u32, rows_per_commit: u16, rows_max: Option<u64>) -> StepRole {
    StepRole { role, clients, arrival: ArrivalPlan::closed(), rows_per_commit, rows_max }
}

fn step(number: u64, roles: Vec<StepRole>, until: Until, limit_ns: u64) -> Step {
    Step {
        roles,
        until,
        limit_ns,
        drain_limit_ns: 10 * SECOND,
        retries_max: 1_000_000,
        seed: Seed(number),
    }
}

/// Runs a step, whose check must be passed, and adds up what was done in it.
fn run<D: Driver>(trial: &mut InsertTrial<'_, D>, step: &Step) -> (Trialed, Totals) {
    let mut totals = Totals::default();
    let trialed = trial.step(step, &mut totals).expect("runs");
    let check = trialed.check.as_ref().expect("it is checked");
    assert_eq!(check.failures, Vec::<String>::new(), "{:?}", check.statements);
    (trialed, totals)
}

/// Loads, indexes, replaces rows, and asks while rows come in at a rate.
fn goes_through_its_steps<D: Driver>(options: &OpenOptions, clients: u32) {
    D::create_database(options).expect("a database, where the engine has such a thing");
    let driver = D::open(options).expect("opens");
    let workload = workload("2024");
    let mut trial = InsertTrial::begin(&driver, workload, Seed(7), clients as u16).expect("begins");
    let each = u64::from(clients);

    let load = vec![role(Role::Insert, clients, 100, Some(1_030))];
    let (_, totals) = run(&mut trial, &step(1, load, Until::StreamsOver, 100 * SECOND));
    // Ten commits of a hundred rows, and one with the rest.
    assert_eq!(totals.completed, 11 * each);
    assert_eq!(trial.rows(), 1_030 * each);

    trial.make_indexes().expect("makes indexes");
    let replace =
        vec![role(Role::Insert, clients, 50, Some(520)), role(Role::Delete, clients, 50, None)];
    let (replaced, _) = run(&mut trial, &step(2, replace, Until::StreamsOver, 1_000 * SECOND));
    let took = replaced.measured.timeline.end - replaced.measured.timeline.measure_start;
    assert!(took < 1_000 * SECOND, "it ended by its limit and not with the last row");
    assert_eq!(trial.rows(), 1_030 * each, "as many rows left as came in");

    let rate = ArrivalPlan { law: ArrivalLaw::Uniform, rates_per_s: vec![10.0 * each as f64] };
    let ask = vec![
        StepRole { arrival: rate, ..role(Role::Insert, clients, 10, None) },
        role(Role::Query, clients, 1, None),
        role(Role::Points, clients, 1, None),
    ];
    let (_, totals) = run(&mut trial, &step(3, ask, Until::Time, 2 * SECOND));
    assert_eq!(trial.rows(), (1_030 + 200) * each, "a hundred rows a second");
    assert!(totals.completed > 100 * each, "{}", totals.completed);
    assert_eq!(totals.due_in_measured.refused + totals.due_in_measured.unknown, 0);

    let check = trial.check_whole().expect("reads");
    assert_eq!(check.failures, Vec::<String>::new());
    assert_eq!(check.difference, Some(1_230 * each as i64));
    let sampled = check.statements.iter().filter(|said| said.contains("as they were inserted"));
    assert_eq!(sampled.count(), clients as usize, "{:?}", check.statements);
}

fn sqlite(directory: &Path) -> OpenOptions {
    let settings = [
        ("synchronous", "NORMAL"),
        ("cache_mb", "2"),
        ("wal_autocheckpoint_pages", "1000"),
        ("page_size", "4096"),
        ("busy_handler", "backoff"),
        ("busy_timeout_ms", "10000"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    OpenOptions::of_directory(directory.to_owned(), settings.into(), 16)
}

#[test]
fn sqlite_goes_through_its_steps() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    goes_through_its_steps::<Sqlite>(&sqlite(directory.path()), 2);
}

#[test]
fn postgres_goes_through_its_steps() {
    let server = PostgresServer::start(None);
    goes_through_its_steps::<Postgres>(&server.options(), 3);
}

#[test]
fn mysql_goes_through_its_steps() {
    let server = MysqlServer::start(&[]);
    goes_through_its_steps::<Mysql>(&server.options(ClientOptions::default()), 3);
}

/// Rows that are changed or taken away behind the trial's back are found at its end.
#[test]
fn the_whole_check_finds_what_is_wrong() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let driver = Sqlite::open(&sqlite(directory.path())).expect("opens");
    let mut trial = InsertTrial::begin(&driver, workload("2023"), Seed(7), 1).expect("begins");
    let load = vec![role(Role::Insert, 1, 100, Some(1_000))];
    run(&mut trial, &step(1, load, Until::StreamsOver, 100 * SECOND));
    trial.make_indexes().expect("makes indexes");
    assert!(trial.check_whole().expect("reads").failures.is_empty());

    let behind = rusqlite::Connection::open(directory.path().join("dbdyno.sqlite"));
    let behind = behind.expect("opens beside it");
    behind.execute("UPDATE pi1 SET customerid = customerid + 1", []).expect("changes");
    let failures = trial.check_whole().expect("reads").failures;
    assert!(
        failures.len() == 1 && failures[0].contains("not as they were inserted"),
        "{failures:?}"
    );
    behind.execute("DELETE FROM pi1 WHERE transactionid % 100 = 3", []).expect("deletes");
    let failures = trial.check_whole().expect("reads").failures;
    assert!(failures[0].contains("10 rows are lost"), "{failures:?}");
}
