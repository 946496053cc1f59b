//! RocksDB in its oldest and its newest version: it conforms with both kinds of transactions, syncs as often as it says,
//! and what it cannot open is refused with what to do. And one experiment over two versions.
//!
//! Two versions in one process would share C++ symbols, as two engines in one trial never do; so each version is tested
//! in a process of its own.

mod common;
mod support;

use common::Place;
use dbdyno_load::arrival::ArrivalPlan;
use dbdyno_load::clock::SECOND;
use dbdyno_load::conformance::{conforms, counts, fill};
use dbdyno_load::driver::rocksdb::Rocksdb;
use dbdyno_load::driver::{Client, Driver, OpenOptions};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{ClientId, RoleShape, Shape, Subject, Until, measure};
use dbdyno_load::outcome::{FailureClass, Outcome};
use dbdyno_load::sync_counter;
use dbdyno_provision::Cache;
use dbdyno_workload::{Action, HotRow, Request, Seed, Settings};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{cache_directory, engine_file};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct CountingAllocator;

// SAFETY: everything is passed on to the system's allocator; the counter is a plain cell that never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps to the contract of GlobalAlloc.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of GlobalAlloc.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const OLDEST: &str = "rocksdb-6.29";
const NEWEST: &str = "rocksdb-11";
/// Set in a process that has one test to itself.
const ALONE: &str = "DBDYNO_TEST_ALONE";

/// Runs the test named `name` in a process of its own, which gets there again and does `body`.
fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let program = std::env::current_exe().expect("this test");
    let mut command = Command::new(program);
    let output = command.args([name, "--exact", "--nocapture"]).env(ALONE, "1").output();
    let output = output.expect("starts again");
    let words = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{words}\n{errors}", output.status);
    assert!(words.contains("1 passed"), "{name} was not found\n{words}");
}

fn library(engine: &str) -> PathBuf {
    let engine = engine_file(engine);
    let recipe = engine.library.expect("a library");
    let cache = Cache::open(cache_directory()).expect("a cache");
    let installed = cache.install(&engine.name, recipe.package(), false, &mut |_| ());
    installed.expect("installs").prefix.join(recipe.file)
}

fn options(engine: &str, directory: &Path, changed: &[(&str, &str)]) -> OpenOptions {
    let file = engine_file(engine);
    let defaults = file.settings.iter();
    let mut settings: std::collections::BTreeMap<String, String> =
        defaults.map(|(name, setting)| (name.clone(), setting.default.to_string())).collect();
    settings.insert("cache_mb".to_owned(), "8".to_owned());
    settings.extend(changed.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    OpenOptions {
        library: Some(library(engine)),
        ..OpenOptions::of_directory(directory.to_owned(), settings, 8)
    }
}

fn keeps_its_promises(engine: &str) {
    for concurrency in ["pessimistic", "optimistic"] {
        for (wal, sync) in [("true", "false"), ("false", "false")] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let changed = [("concurrency", concurrency), ("wal", wal), ("sync", sync)];
            let options = options(engine, directory.path(), &changed);
            conforms::<Rocksdb>(&options, true);
            counts::<Rocksdb>(&options);
        }
    }
    waits_and_conflicts(engine);
    reads_its_settings_back(engine);
    reads_its_lock_settings_back(engine);
    counts_what_clients_do(engine);
    syncs_as_it_says(engine);
    allocates_nothing(engine);
}

fn request(action: Action) -> Request {
    Request { class: 0, table: 0, row: 1, action }
}

fn opened(options: &OpenOptions) -> Rocksdb {
    let driver = Rocksdb::open(options).expect("opens");
    driver.create_tables(1).expect("makes a table");
    if driver.last_row(0) == Ok(None) {
        driver.insert_rows(0, 1..=10, &fill).expect("inserts");
    }
    driver
}

/// Many clients on one row, none of which waits for its lock: what is not acknowledged is refused, never unknown.
fn waits_and_conflicts(engine: &str) {
    let cases = [
        ("pessimistic", "false", FailureClass::LockTimeout),
        ("pessimistic", "true", FailureClass::LockTimeout),
        ("optimistic", "false", FailureClass::Serialization),
    ];
    for (concurrency, deadlock_detect, expected) in cases {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let changed = [
            ("concurrency", concurrency),
            ("deadlock_detect", deadlock_detect),
            ("lock_timeout_ms", "0"),
        ];
        let driver = opened(&options(engine, directory.path(), &changed));
        let update = |mut client: dbdyno_load::driver::rocksdb::RocksdbClient| {
            let mut acknowledged = 0;
            for _ in 0..2_000 {
                match client.execute(&request(Action::Increment)) {
                    Outcome::Acknowledged => acknowledged += 1,
                    Outcome::Refused(failure) => assert_eq!(failure.class, expected),
                    Outcome::Unknown(failure) => panic!("{concurrency}: unknown {failure:?}"),
                }
            }
            acknowledged
        };
        let clients: Vec<_> = (0..8).map(|_| driver.connect(1).expect("connects")).collect();
        let acknowledged: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> =
                clients.into_iter().map(|client| scope.spawn(|| update(client))).collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
        });
        assert!(acknowledged > 0);
        assert_eq!(driver.counter_sum(0), Ok(acknowledged), "{concurrency}");
    }
}

/// Settings that were asked for are in the receipt, and counters where they were asked for.
fn reads_its_settings_back(engine: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let changed = [
        ("write_buffer_mb", "3"),
        ("background_jobs", "4"),
        ("compaction", "universal"),
        ("compression", "lz4"),
        ("statistics", "true"),
        ("sync", "true"),
    ];
    let driver = opened(&options(engine, directory.path(), &changed));
    let receipt = driver.receipt().expect("a receipt");
    let series = engine_file(engine).library.expect("a library").series;
    assert!(receipt.version.starts_with(&series), "{}", receipt.version);
    let cache_and_wal = [("cache_mb", "8"), ("wal", "true")];
    for (name, value) in
        changed.iter().chain(&cache_and_wal).filter(|(name, _)| *name != "statistics")
    {
        assert_eq!(receipt.settings.get(*name).map(String::as_str), Some(*value), "{name}");
    }
    let written =
        |driver: &Rocksdb| driver.statistics().expect("counters")["rocksdb.number.keys.written"];
    let before = written(&driver);
    let mut client = driver.connect(1).expect("connects");
    assert_eq!(client.execute(&request(Action::Increment)), Outcome::Acknowledged);
    assert_eq!(written(&driver), before + 1);
}

/// How rows are locked is what transactions begin with, or is said not to be known; without locks there is nothing to say.
fn reads_its_lock_settings_back(engine: &str) {
    let receipt = |changed: &[(&str, &str)]| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        opened(&options(engine, directory.path(), changed)).receipt().expect("a receipt").settings
    };
    for (deadlock_detect, lock_timeout_ms) in [("true", "17"), ("false", "0")] {
        let changed = [("deadlock_detect", deadlock_detect), ("lock_timeout_ms", lock_timeout_ms)];
        let found = receipt(&changed);
        for (name, value) in changed {
            let expected = if engine == OLDEST { "not readable" } else { value };
            assert_eq!(found.get(name).map(String::as_str), Some(expected), "{engine} {name}");
        }
    }
    let optimistic = receipt(&[("concurrency", "optimistic")]);
    assert!(
        !optimistic.contains_key("deadlock_detect") && !optimistic.contains_key("lock_timeout_ms")
    );
}

/// Four clients on the hot row for a tenth of a second, with threads of their own as in a trial.
fn acknowledged_by_four_clients(driver: &Rocksdb) -> u64 {
    let shape = Shape {
        roles: vec![RoleShape {
            clients: 4,
            arrival: ArrivalPlan::closed(),
            classes: 0..1,
            seed: Seed(1),
        }],
        subject: Subject::Counters(1),
        until: Until::Time,
        warmup_ns: 0,
        measured_ns: SECOND / 10,
        drain_limit_ns: SECOND,
        retries_max: 0,
    };
    let workload = HotRow::from_settings(&Settings::new()).expect("fits together");
    let stream_of = |id: ClientId| workload.stream(Seed(1), id.client);
    let measured = measure(driver, &shape, stream_of, &mut Totals::default()).expect("measures");
    measured.streams.into_iter().map(|stream| stream.into_ledger().acknowledged_total()).sum()
}

/// Every request of every client is in the sums of the perf context, and nothing else; times where they were asked for.
fn counts_what_clients_do(engine: &str) {
    let counted = |level: &str| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let driver = opened(&options(engine, directory.path(), &[("perf_context", level)]));
        assert!(driver.statistics().expect("counters").is_empty(), "{level} before any request");
        let acknowledged = acknowledged_by_four_clients(&driver);
        assert_eq!(driver.counter_sum(0), Ok(acknowledged), "nothing was left unknown");
        (driver.statistics().expect("counters"), acknowledged)
    };
    assert!(counted("off").0.is_empty());
    for level in ["counts", "times"] {
        let (found, acknowledged) = counted(level);
        assert!(found.keys().all(|name| name.starts_with("perf_context.")), "{found:?}");
        let reads = found.get("perf_context.get_from_memtable_count");
        assert_eq!(reads, Some(&acknowledged), "{engine} {level}: {found:?}");
        let is_timed = found.contains_key("perf_context.write_memtable_time");
        assert_eq!(is_timed, level == "times", "{engine} {level}: {found:?}");
    }
}

/// The library allocates as it likes; this side does not.
fn allocates_nothing(engine: &str) {
    for concurrency in ["pessimistic", "optimistic"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let driver = opened(&options(engine, directory.path(), &[("concurrency", concurrency)]));
        let mut client = driver.connect(1).expect("connects");
        let count = || ALLOCATIONS.with(Cell::get);
        let before = count();
        drop(std::hint::black_box(vec![1u8; 100]));
        assert_eq!(count(), before + 1, "a test that cannot fail shows nothing");
        for number in 0..100 {
            for action in [Action::Read, Action::Increment, Action::Assign(number)] {
                assert_eq!(client.execute(&request(action)), Outcome::Acknowledged);
            }
        }
        assert_eq!(count(), before + 1, "{concurrency}");
    }
}

fn syncs_of_100_updates(options: &OpenOptions) -> u64 {
    let driver = opened(options);
    let mut client = driver.connect(1).expect("connects");
    let before = sync_counter::syncs();
    for _ in 0..100 {
        assert_eq!(client.execute(&request(Action::Increment)), Outcome::Acknowledged);
    }
    sync_counter::syncs() - before
}

/// A synced commit is one sync, and other commits are none, as long as no memtable is full.
fn syncs_as_it_says(engine: &str) {
    for concurrency in ["pessimistic", "optimistic"] {
        let syncs = |wal: &str, sync: &str| {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let changed = [("concurrency", concurrency), ("wal", wal), ("sync", sync)];
            syncs_of_100_updates(&options(engine, directory.path(), &changed))
        };
        assert_eq!(syncs("false", "false"), 0, "{concurrency} without a log");
        assert_eq!(syncs("true", "false"), 0, "{concurrency} with a log");
        let synced = syncs("true", "true");
        assert!((100..=103).contains(&synced), "{concurrency}: {synced}");
    }
}

/// The oldest version does without what came later.
#[test]
fn the_oldest_version_keeps_its_promises() {
    alone("the_oldest_version_keeps_its_promises", || keeps_its_promises(OLDEST));
}

/// The newest version.
#[test]
fn the_newest_version_keeps_its_promises() {
    alone("the_newest_version_keeps_its_promises", || keeps_its_promises(NEWEST));
}

fn refusal(options: &OpenOptions) -> String {
    Rocksdb::open(options).err().expect("is refused").to_string()
}

/// A file that is not a library for this machine, or not of this engine, is named with what to do.
#[test]
fn wrong_libraries_are_named() {
    alone("wrong_libraries_are_named", || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let good = options(OLDEST, &directory.path().join("data"), &[]);
        let file = directory.path().join("library.so");
        let with = |bytes: &[u8]| {
            std::fs::write(&file, bytes).expect("writes");
            refusal(&OpenOptions { library: Some(file.clone()), ..good.clone() })
        };
        let mut bytes = std::fs::read(good.library.as_ref().expect("a library")).expect("reads");
        // s390x, at `e_machine`.
        bytes[18..20].copy_from_slice(&22u16.to_le_bytes());
        let message = with(&bytes);
        assert!(message.contains("library.so is for s390x, and this host is"), "{message}");
        assert!(message.contains("a source for this machine"), "{message}");
        let message = with(b"not a library at all");
        assert!(message.contains("library.so is no shared library (ELF)"), "{message}");
        bytes[18..20].copy_from_slice(&62u16.to_le_bytes());
        let message = with(&bytes[..4096]);
        assert!(message.contains("library.so is cut short: it has 4096 of "), "{message}");
        let source = directory.path().join("empty.c");
        std::fs::write(&source, "int nothing;\n").expect("writes");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&file).arg(&source);
        assert!(compiler.status().expect("runs the C compiler, which Rust needs too").success());
        let message = refusal(&OpenOptions { library: Some(file.clone()), ..good.clone() });
        assert!(message.contains("is no RocksDB library of version 6.29 or later"), "{message}");
        let message = refusal(&OpenOptions { library: None, ..good.clone() });
        assert!(message.contains("no shared library was given"), "{message}");
        let message = refusal(&OpenOptions {
            library: Some(directory.path().join("gone.so")),
            ..good.clone()
        });
        assert!(message.contains("gone.so: No such file"), "{message}");
    });
}

/// Another engine's directory is left alone.
#[test]
fn a_directory_of_another_engine_is_refused() {
    alone("a_directory_of_another_engine_is_refused", || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join("data.mdb"), "LMDB's").expect("writes");
        let message = refusal(&options(OLDEST, directory.path(), &[]));
        assert!(message.contains("no RocksDB database but \"data.mdb\""), "{message}");
        assert_eq!(std::fs::read_dir(directory.path()).expect("reads").count(), 1);
    });
}

/// What the newest version has written, with a compaction and a format of its own, is nothing for the oldest.
#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let kept = match std::env::var_os(ALONE) {
        Some(path) if path != "1" => PathBuf::from(path),
        _ => directory.path().join("data"),
    };
    if std::env::var_os(ALONE).is_some() {
        let driver = opened(&options(NEWEST, &kept, &[]));
        return driver.settle().expect("settles");
    }
    let program = std::env::current_exe().expect("this test");
    let mut newest = Command::new(program);
    newest.args(["a_newer_format_is_refused", "--exact"]).env(ALONE, &kept);
    assert!(newest.status().expect("starts again").success());
    let message = refusal(&options(OLDEST, &kept, &[]));
    println!("{message}");
    assert!(
        message.contains("has written there last; an older version may not read it"),
        "{message}"
    );
}

/// One experiment over the oldest version and 10: every trial is measured and its check passed.
#[test]
fn an_experiment_runs_over_two_versions() {
    let place = Place::with("");
    let arguments = "run biebermarks --engine rocksdb-6.29,rocksdb-10 --scale smoke";
    let mut command = place.command(arguments);
    command.env("DBDYNO_CACHE", cache_directory());
    let ended = common::Ended::of(command.output().expect("starts"));
    let ended = ended.expect(0, arguments);
    let shown = place.run(&format!("show {} --json", place.only_run())).expect(0, "show").json();
    let cells = common::cells(&shown);
    let run = cells.into_iter().filter(|(_, (_, ends))| ends.iter().any(|end| end != "NotRun"));
    let run: Vec<_> = run.collect();
    assert_eq!(run.len(), 44, "{ended:?}");
    for (cell, (_, ends)) in run {
        assert!(ends.iter().all(|end| end == "Measured"), "{cell}: {ends:?}");
    }
}
