//! What worker, recorder and shim add to WiredTiger: point reads through the request loop beside a hand-written loop in C
//! over the same library, database and keys. Needs an installed engine:
//! `cargo bench -p dbdyno-load --bench wiredtiger_read -- PREFIX/dbdyno/shim.so PREFIX/INCLUDE`.
//!
//! Rounds alternate, so that a host that changes its speed changes both.
#![allow(clippy::print_stdout, missing_docs)]

use dbdyno_load::arrival::{ArrivalLaw, ArrivalPlan};
use dbdyno_load::clock::{Ns, SECOND};
use dbdyno_load::driver::{Driver, OpenOptions, wiredtiger::WiredTiger};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{Shape, measure};
use dbdyno_workload::rng::Seed;
use dbdyno_workload::{Action, Request, RequestStream};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROWS: u64 = 100_000;
const ROUND_NS: Ns = 400_000_000;
const ROUNDS: usize = 9;

/// Set key, search, get value, reset: nothing else. The clock is read once in 1,000 reads.
const BY_HAND: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <wiredtiger.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **arguments)
{
    WT_CONNECTION *connection;
    WT_SESSION *session;
    WT_CURSOR *cursor;
    WT_ITEM value;
    uint64_t rows = strtoull(arguments[2], NULL, 10), row = 0, reads = 0;
    double limit = atof(arguments[3]), start, elapsed;
    if (count != 4 || wiredtiger_open(arguments[1], NULL, "cache_size=256MB,config_base=false,statistics=(fast)", &connection) != 0 ||
      connection->open_session(connection, NULL, "isolation=snapshot", &session) != 0 ||
      session->open_cursor(session, "table:t1", NULL, NULL, &cursor) != 0)
        return 1;
    start = now();
    do {
        for (int i = 0; i < 1000; i++) {
            row = (row + 61803) % rows;
            cursor->set_key(cursor, row + 1);
            if (cursor->search(cursor) != 0 || cursor->get_value(cursor, &value) != 0 || value.size < 8)
                return 2;
            __asm__ volatile("" : : "r"(*(const uint64_t *)value.data));
            cursor->reset(cursor);
        }
        reads += 1000;
        elapsed = now() - start;
    } while (elapsed < limit);
    printf("%f\n", elapsed / reads);
    return connection->close(connection, NULL) == 0 ? 0 : 3;
}
"#;

/// A multiplicative sequence that visits all rows: the same few instructions in both loops.
struct Rows(u64);

impl RequestStream for Rows {
    #[inline]
    fn next(&mut self) -> Request {
        self.0 = (self.0 + 61_803) % ROWS;
        Request { class: 0, table: 0, row: self.0 + 1, action: Action::Read }
    }

    fn acknowledged(&mut self, _: &Request) {}

    fn unknown(&mut self, _: &Request) {}
}

fn through_the_loop(driver: &WiredTiger) -> f64 {
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

/// Compiles the loop against the library that lies beside the shim.
fn compile(shim: &Path, include: &Path, directory: &Path) -> PathBuf {
    let beside = shim.parent().expect("in a directory");
    let entries = std::fs::read_dir(beside).expect("a readable directory");
    let is_library = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with("libwiredtiger.so")
    };
    let mut paths = entries.map(|entry| entry.expect("readable").path());
    let library = paths.find(is_library).expect("the library beside the shim");
    let (text, program) = (directory.join("by_hand.c"), directory.join("by_hand"));
    std::fs::write(&text, BY_HAND).expect("writes");
    let mut command = Command::new("cc");
    command.arg("-O2").arg("-I").arg(include).arg("-o").arg(&program).arg(&text).arg(library);
    command.arg(format!("-Wl,-rpath,{}", beside.display()));
    assert!(command.status().expect("a C compiler").success());
    program
}

fn by_hand(program: &Path, data: &Path) -> f64 {
    let mut command = Command::new(program);
    command.arg(data).arg(ROWS.to_string()).arg(ROUND_NS.to_string());
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn main() {
    // Cargo adds a flag of its own.
    let paths = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let Ok([shim, include]) =
        <[PathBuf; 2]>::try_from(paths.map(PathBuf::from).collect::<Vec<_>>())
    else {
        println!(
            "WiredTiger point reads are measured where two paths are given: PREFIX/dbdyno/shim.so PREFIX/INCLUDE"
        );
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    let settings = [
        ("cache_mb", "256"),
        ("log_enabled", "false"),
        ("log_file_mb", "100"),
        ("transaction_sync", "off"),
        ("checkpoint_s", "0"),
        ("eviction_threads", "4"),
        ("block_compressor", "none"),
        ("leaf_page_kb", "32"),
        ("conflict_backoff", "none"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut options = OpenOptions::of_directory(data.clone(), settings, 1);
    options.library = Some(shim.clone());
    let driver = WiredTiger::open(&options).expect("opens");
    driver.create_tables(1).expect("makes a table");
    driver.insert_rows(0, 1..=ROWS, &|_, filler| filler.resize(100, 7)).expect("inserts");
    driver.settle().expect("settles");
    drop(driver);
    let program = compile(&shim, &include, directory.path());
    let (mut ours, mut theirs, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // Only one process may hold a database open, so each side opens it in turn.
        let driver = WiredTiger::open(&options).expect("opens");
        ours.push(through_the_loop(&driver));
        drop(driver);
        theirs.push(by_hand(&program, &data));
        added.push(ours[ours.len() - 1] - theirs[theirs.len() - 1]);
    }
    println!(
        "WiredTiger point reads, {ROWS} rows, 1 client, {ROUNDS} rounds in turn, ns per read:"
    );
    for (name, mut values) in [("request loop", ours), ("by hand", theirs), ("added", added)] {
        values.sort_by(f64::total_cmp);
        let (median, last) = (values[values.len() / 2], values[values.len() - 1]);
        println!("  {name:<13} median {median:6.1}   from {:6.1} to {last:6.1}", values[0]);
    }
}
