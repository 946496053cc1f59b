//! One body run over every driver that keeps rows: what was written is read, errors have the right class, counts match,
//! and a database that is opened again is the same. A driver that passes can be trusted with a check.
//!
//! For tests: what does not hold is a panic that says what. Engines that are fetched are tested where they can be.

use crate::driver::{Client, Driver, OpenOptions};
use crate::outcome::{Failure, FailureClass, Outcome};
use dbdyno_workload::{Action, Request, RowId};

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
