//! What benches of point reads share: the keys, a driver's side through the request loop, and the printed result.
//!
//! Not a bench itself. The other side of each is a hand-written loop over the same library, database and keys.
#![allow(clippy::print_stdout, missing_docs)]

use dbdyno_load::arrival::ArrivalPlan;
use dbdyno_load::clock::{Ns, SECOND};
use dbdyno_load::driver::{Driver, OpenOptions};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{RoleShape, Shape, Subject, Until, measure};
use dbdyno_workload::rng::Seed;
use dbdyno_workload::{Action, Request, RequestStream};

pub const ROWS: u64 = 100_000;
pub const ROUND_NS: Ns = 400_000_000;
pub const ROUNDS: usize = 9;

/// A multiplicative sequence that visits all rows: the same few instructions in both loops.
pub struct Rows(pub u64);

impl Rows {
    #[inline]
    pub fn next_row(&mut self) -> u64 {
        self.0 = (self.0 + 61_803) % ROWS;
        self.0 + 1
    }
}

impl RequestStream for Rows {
    #[inline]
    fn next(&mut self) -> Request {
        Request { class: 0, table: 0, row: self.next_row(), action: Action::Read }
    }

    fn acknowledged(&mut self, _: &Request) {}

    fn unknown(&mut self, _: &Request) {}
}

/// Nanoseconds of a read through the request loop.
pub fn through_the_loop<D: Driver>(driver: &D) -> f64 {
    let shape = Shape {
        roles: vec![RoleShape {
            clients: 1,
            arrival: ArrivalPlan::closed(),
            classes: 0..1,
            seed: Seed(1),
        }],
        subject: Subject::Counters(1),
        warmup_ns: ROUND_NS / 10,
        until: Until::Time,
        measured_ns: ROUND_NS,
        drain_limit_ns: SECOND,
        retries_max: u32::MAX,
    };
    let mut totals = Totals::default();
    measure(driver, &shape, |_| Rows(0), &mut totals).expect("one client starts");
    ROUND_NS as f64 / totals.completed as f64
}

/// Makes the table.
pub fn load<D: Driver>(options: &OpenOptions) {
    let driver = D::open(options).expect("opens");
    driver.create_tables(1).expect("makes a table");
    driver.insert_rows(0, 1..=ROWS, &|_, filler| filler.resize(100, 7)).expect("inserts");
    driver.settle().expect("settles");
}

/// Runs the rounds in turn, so that a host that changes its speed changes both sides, and prints them.
pub fn compare<D: Driver>(engine: &str, options: &OpenOptions, by_hand: impl Fn() -> f64) {
    let (mut ours, mut theirs, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // A database may be open only once, so each side opens its own in turn.
        let driver = D::open(options).expect("opens");
        for row in 1..=ROWS {
            driver.row(0, row).expect("reads what is to be in the cache");
        }
        ours.push(through_the_loop(&driver));
        drop(driver);
        theirs.push(by_hand());
        added.push(ours[ours.len() - 1] - theirs[theirs.len() - 1]);
    }
    println!("{engine} point reads, {ROWS} rows, 1 client, {ROUNDS} rounds in turn, ns per read:");
    for (name, mut values) in [("request loop", ours), ("by hand", theirs), ("added", added)] {
        values.sort_by(f64::total_cmp);
        let (median, last) = (values[values.len() / 2], values[values.len() - 1]);
        println!("  {name:<13} median {median:6.1}   from {:6.1} to {last:6.1}", values[0]);
    }
}
