//! What worker and recorder add to an engine: LMDB point reads through the request loop beside a hand-written loop over
//! the same library, database and keys. `cargo bench -p dbdyno-load --bench lmdb_read`.
//!
//! Rounds alternate, so that a host that changes its speed changes both.
#![allow(clippy::print_stdout, missing_docs)]

use dbdyno_load::arrival::{ArrivalLaw, ArrivalPlan};
use dbdyno_load::clock::{self, Ns, SECOND};
use dbdyno_load::driver::{Driver, OpenOptions, lmdb::Lmdb};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{Shape, measure};
use dbdyno_workload::rng::Seed;
use dbdyno_workload::{Action, Request, RequestStream};
use lmdb_master_sys as ffi;
use std::ffi::CString;
use std::path::Path;
use std::ptr;

const ROWS: u64 = 100_000;
const ROUND_NS: Ns = 400_000_000;
const ROUNDS: usize = 9;

/// A multiplicative sequence that visits all rows: the same few instructions in both loops.
struct Rows(u64);

impl Rows {
    #[inline]
    fn next_row(&mut self) -> u64 {
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

fn through_the_loop(driver: &Lmdb) -> f64 {
    let shape = Shape {
        clients: 1,
        tables: 1,
        classes: 1,
        arrival: ArrivalPlan { law: ArrivalLaw::Closed, rates_per_s: Vec::new() },
        warmup_ns: ROUND_NS / 10,
        measured_ns: ROUND_NS,
        drain_limit_ns: SECOND,
        retries_max: u32::MAX,
        seed: Seed(1),
    };
    let mut totals = Totals::default();
    measure(driver, &shape, |_| Rows(0), &mut totals).expect("one client starts");
    ROUND_NS as f64 / totals.completed as f64
}

/// Renew, get, reset: nothing else. The clock is read once in 1,000 reads.
fn by_hand(directory: &Path) -> f64 {
    let path = CString::new(directory.to_str().expect("UTF-8")).expect("no zero byte");
    let (mut environment, mut reader, mut table) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: the calls follow LMDB's documented order; every pointer is live where it is used, and results are checked.
    unsafe {
        assert_eq!(ffi::mdb_env_create(&mut environment), 0);
        assert_eq!(ffi::mdb_env_set_maxdbs(environment, 8), 0);
        let flags = ffi::MDB_RDONLY | ffi::MDB_NOTLS;
        assert_eq!(ffi::mdb_env_open(environment, path.as_ptr(), flags, 0o600), 0);
        assert_eq!(ffi::mdb_txn_begin(environment, ptr::null_mut(), flags, &mut reader), 0);
        assert_eq!(ffi::mdb_dbi_open(reader, c"t1".as_ptr(), ffi::MDB_INTEGERKEY, &mut table), 0);
        assert_eq!(ffi::mdb_txn_commit(reader), 0);
        assert_eq!(ffi::mdb_txn_begin(environment, ptr::null_mut(), flags, &mut reader), 0);
        ffi::mdb_txn_reset(reader);
        let mut rows = Rows(0);
        let (start, mut reads) = (clock::now(), 0u64);
        let ns = loop {
            for _ in 0..1_000 {
                let row = rows.next_row();
                let mut key =
                    ffi::MDB_val { mv_size: 8, mv_data: (&raw const row).cast_mut().cast() };
                let mut value = ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() };
                assert_eq!(ffi::mdb_txn_renew(reader), 0);
                assert_eq!(ffi::mdb_get(reader, table, &mut key, &mut value), 0);
                std::hint::black_box(value.mv_data);
                ffi::mdb_txn_reset(reader);
            }
            reads += 1_000;
            let elapsed = clock::now() - start;
            if elapsed >= ROUND_NS {
                break elapsed as f64 / reads as f64;
            }
        };
        ffi::mdb_txn_abort(reader);
        ffi::mdb_env_close(environment);
        ns
    }
}

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = [("no_sync", "true"), ("write_map", "false"), ("map_size_mb", "256")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = OpenOptions::of_directory(directory.path().to_owned(), settings, 1);
    let driver = Lmdb::open(&options).expect("opens");
    driver.create_tables(1).expect("makes a table");
    driver.insert_rows(0, 1..=ROWS, &|_, filler| filler.resize(100, 7)).expect("inserts");
    driver.settle().expect("settles");
    drop(driver);
    let (mut ours, mut theirs, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // One process may hold an environment open only once, so each side opens its own in turn.
        let driver = Lmdb::open(&options).expect("opens");
        ours.push(through_the_loop(&driver));
        drop(driver);
        theirs.push(by_hand(directory.path()));
        added.push(ours[ours.len() - 1] - theirs[theirs.len() - 1]);
    }
    println!("LMDB point reads, {ROWS} rows, 1 client, {ROUNDS} rounds in turn, ns per read:");
    for (name, mut values) in [("request loop", ours), ("by hand", theirs), ("added", added)] {
        values.sort_by(f64::total_cmp);
        let (median, last) = (values[values.len() / 2], values[values.len() - 1]);
        println!("  {name:<13} median {median:6.1}   from {:6.1} to {last:6.1}", values[0]);
    }
}
