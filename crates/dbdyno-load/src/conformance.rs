//! One body run over every driver that keeps rows: what was written is read, errors have the right class, counts match,
//! and a database that is opened again is the same. A driver that passes can be trusted with a check.
//!
//! For tests: what does not hold is a panic that says what. Engines that are fetched are tested where they can be.

use crate::driver::{Client, Driver, OpenOptions};
use crate::outcome::{Failure, FailureClass, Outcome};
use crate::tables::{OwnedValue, TableUse};
use dbdyno_workload::insert_benchmark::KeySpan;
use dbdyno_workload::{Action, ColumnValue, InsertBenchmark, Request, RowId, Seed, Setting};
use std::sync::Arc;

fn id(table: u16, row: u64) -> RowId {
    RowId { table, row }
}

fn request(table: u16, row: u64, action: Action) -> Request {
    Request { class: 0, table, row, action }
}

/// The filler of these rows.
pub fn fill(RowId { table, row }: RowId, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(format!("filler of {table}/{row}").as_bytes());
}

/// Uses an empty database in every way there is; `survives_closing` says whether it is opened again and read.
///
/// # Panics
/// If anything is not as every driver must have it.
pub fn conforms<D: Driver>(options: &OpenOptions, survives_closing: bool) {
    D::create_database(options).expect("a database, where the engine has such a thing");
    let driver = D::open(options).expect("opens");
    assert!(!driver.receipt().expect("a receipt").version.is_empty());
    driver.create_tables(2).expect("makes tables");
    driver.create_tables(2).expect("making them again changes nothing");
    assert_eq!(driver.last_row(1), Ok(None));
    driver.insert_rows(0, 1..=50, &fill).expect("inserts");
    driver.insert_rows(1, 1..=20, &fill).expect("inserts");
    driver.insert_rows(1, 21..=30, &fill).expect("goes on where it stopped");
    assert_eq!((driver.last_row(0), driver.last_row(1)), (Ok(Some(50)), Ok(Some(30))));

    assert_eq!(driver.age_progress(), Ok(0));
    driver.age_rows(&[id(0, 1), id(0, 1), id(1, 30)], 3).expect("ages");
    assert_eq!(driver.age_progress(), Ok(3));
    assert_eq!((driver.counter_sum(0), driver.counter_sum(1)), (Ok(2), Ok(1)));

    let mut one = driver.connect(2).expect("connects");
    let mut other = driver.connect(2).expect("connects twice");
    for client in [&mut one, &mut other] {
        for _ in 0..10 {
            assert_eq!(client.execute(&request(0, 7, Action::Increment)), Outcome::Acknowledged);
        }
    }
    assert_eq!(one.execute(&request(1, 9, Action::Assign(u64::MAX - 1))), Outcome::Acknowledged);
    assert_eq!(other.execute(&request(1, 9, Action::Read)), Outcome::Acknowledged);
    for action in [Action::Read, Action::Increment, Action::Assign(1)] {
        match other.execute(&request(0, 51, action)) {
            Outcome::Refused(Failure { class: FailureClass::NoSuchRow, .. }) => {}
            wrong => panic!("{action:?} of a missing row ended {wrong:?}"),
        }
    }
    drop((one, other));
    let check = |driver: &D| {
        let row = driver.row(0, 7).expect("reads").expect("is there");
        assert_eq!((row.counter, row.filler.as_slice()), (20, b"filler of 0/7".as_slice()));
        assert_eq!(driver.row(1, 9).expect("reads").expect("is there").counter, u64::MAX - 1);
        assert_eq!(driver.row(0, 51), Ok(None));
        assert_eq!(driver.counter_sum(0), Ok(22));
    };
    check(&driver);
    driver.settle().expect("settles");
    drop(driver);
    if survives_closing {
        check(&D::open(options).expect("opens again"));
    }
}

/// Uses tables of a schema in an empty database in every way there is.
///
/// # Panics
/// If anything is not as every driver with such tables must have it.
pub fn tables_conform<D: Driver>(options: &OpenOptions) {
    for dialect in ["2023", "2024"] {
        for start in ["as-published", "uniform"] {
            tables_of_a_schema_conform::<D>(options, dialect, start);
        }
    }
}

fn tables_of_a_schema_conform<D: Driver>(options: &OpenOptions, dialect: &str, start: &str) {
    let settings = [("dialect", dialect), ("query_start", start)];
    let settings = settings.map(|(name, value)| (name.to_owned(), Setting::Text(value.to_owned())));
    let workload = InsertBenchmark::from_settings(&settings.into()).expect("settings fit");
    let rows = workload.purchase_rows(Seed(3));
    let using = Arc::new(TableUse {
        schema: workload.schema(),
        rows,
        tables: 2,
        batches: vec![1, 20],
        range_limit: 10,
    });
    D::create_database(options).expect("a database, where the engine has such a thing");
    let driver = D::open(options).expect("opens");
    let tables = driver.tables().expect("it has tables");
    tables.drop(&using).expect("there may be none");
    tables.create(&using).expect("makes tables");
    tables.create(&using).expect("making them again changes nothing");
    assert_eq!(tables.bounds(&using, 0), Ok(None));

    let mut client = driver.connect_to(&using).expect("connects");
    let mut done = |row: u64, action: Action| client.execute(&request(0, row, action));
    for row in (1..=100).step_by(20) {
        assert_eq!(done(row, Action::Insert(20)), Outcome::Acknowledged);
    }
    assert_eq!(done(101, Action::Insert(1)), Outcome::Acknowledged);
    tables.create_indexes(&using).expect("makes indexes");
    let counts = |index| tables.count(&using, 0, index).expect("counts");
    assert_eq!([None, Some(0), Some(1), Some(2)].map(counts), [101; 4]);
    assert_eq!(tables.count(&using, 1, None), Ok(0), "the other table is left alone");

    let mut client = driver.connect_to(&using).expect("connects");
    let mut done = |row: u64, action: Action| client.execute(&request(0, row, action));
    assert_eq!(done(1, Action::Delete(20)), Outcome::Acknowledged);
    assert_eq!(done(1, Action::Delete(1)), Outcome::Acknowledged);
    assert_eq!(tables.bounds(&using, 0), Ok(Some(KeySpan { first: 22, last: 101 })));
    assert_eq!([None, Some(0), Some(1), Some(2)].map(counts), [80; 4]);
    for key in [22, 60, 101] {
        let values = tables.row(&using, 0, key).expect("reads").expect("is there");
        let values: Vec<ColumnValue<'_>> = values.iter().map(OwnedValue::as_column).collect();
        assert!(rows.is_row(id(0, key), &values), "row {key}: {values:?}");
    }
    assert_eq!(tables.row(&using, 0, 21), Ok(None));
    for query in 0..using.schema.ranges.len() as u8 {
        for start in [0, 1 << 8, 1 << 20, u64::MAX >> 34] {
            let range = Action::Range { query, limit: 10 };
            assert_eq!(done(start, range), Outcome::Acknowledged, "{dialect} {query} {start}");
        }
    }
    let points = Action::Points { count: 10, seed: 9, last: 101 };
    let expected = using.schema.points.is_some();
    assert!(!expected || done(22, points) == Outcome::Acknowledged);
    match done(1_000, Action::Delete(1)) {
        Outcome::Unknown(Failure { class: FailureClass::NoSuchRow, .. }) => {}
        wrong => panic!("a delete behind the last row ended {wrong:?}"),
    }
    tables.drop(&using).expect("drops");
}

/// Lets many threads update one row: none of the updates is lost, none is made twice. The database may hold rows.
///
/// # Panics
/// If the counter is not what was acknowledged.
pub fn counts<D: Driver>(options: &OpenOptions) {
    let driver = D::open(options).expect("opens");
    driver.create_tables(1).expect("makes a table");
    let first = driver.last_row(0).expect("reads").unwrap_or(0) + 1;
    driver.insert_rows(0, first..=first + 9, &fill).expect("inserts");
    let before = driver.counter_sum(0).expect("adds up");
    let clients: Vec<D::Client> = (0..8).map(|_| driver.connect(1).expect("connects")).collect();
    let acknowledged: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(move || {
                    (0..50)
                        .filter(|_| {
                            let increment = request(0, 1, Action::Increment);
                            client.execute(&increment) == Outcome::Acknowledged
                        })
                        .count() as u64
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    assert!(acknowledged > 0);
    assert_eq!(driver.counter_sum(0), Ok(before + acknowledged));
}
