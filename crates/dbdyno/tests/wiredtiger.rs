//! Both versions of WiredTiger that are shipped: fetched, with the shim compiled, held to what every driver must do, to
//! what its durability settings say, and measured by the command.
//!
//! Engines come from the command's own cache. Syncs are counted for the whole process, so tests run one at a time.

mod common;
mod support;

use common::Place;
use dbdyno_load::conformance::{conforms, counts, fill};
use dbdyno_load::driver::{Client, Driver, OpenOptions, wiredtiger::WiredTiger};
use dbdyno_load::outcome::{FailureClass, Outcome};
use dbdyno_load::sync_counter;
use dbdyno_plan::{Durability, DurabilityMapping};
use dbdyno_provision::Cache;
use dbdyno_workload::{Action, Request};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use support::{cache_directory, engine_file};

const VERSIONS: [&str; 2] = ["wiredtiger-3.2", "wiredtiger-11.3"];

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The shared object of an engine, installed first if need be.
fn library(engine: &str) -> PathBuf {
    let recipe = engine_file(engine).library.expect("a library");
    let cache = Cache::open(cache_directory()).expect("a cache");
    let installed = cache.install(engine, recipe.package(), false, &mut |_| ());
    installed.expect("installs").prefix.join(&recipe.file)
}

/// How to open an engine in a directory, with a small cache.
fn options(
    engine: &str,
    directory: &Path,
    durability: Durability,
    changed: &[(&str, &str)],
) -> OpenOptions {
    let file = engine_file(engine);
    let mut settings: BTreeMap<String, String> = file
        .settings
        .iter()
        .map(|(name, setting)| (name.clone(), setting.default.to_string()))
        .collect();
    let DurabilityMapping::Supported(promise) = &file.durability[&durability] else {
        panic!("{engine} has no durability {}", durability.name());
    };
    settings.extend(promise.settings.iter().map(|(name, value)| (name.clone(), value.to_string())));
    settings.extend(changed.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    for (name, value) in [("cache_mb", "64"), ("log_file_mb", "2")] {
        settings.insert(name.to_owned(), value.to_owned());
    }
    let options = OpenOptions::of_directory(directory.to_owned(), settings, 8);
    OpenOptions { library: Some(library(engine)), ..options }
}

fn refused(options: &OpenOptions) -> String {
    WiredTiger::open(options).err().expect("is refused").to_string()
}

const UPDATE: Request = Request { class: 0, table: 0, row: 1, action: Action::Increment };

/// Both versions keep their promises at every durability, and what one leaves the next can open.
#[test]
fn both_versions_conform() {
    let _alone = ONE_AT_A_TIME.lock();
    for engine in VERSIONS {
        let place = tempfile::tempdir().expect("a temporary directory");
        for durability in Durability::ALL {
            let directory = place.path().join(durability.name());
            conforms::<WiredTiger>(&options(engine, &directory, durability, &[]), true);
            counts::<WiredTiger>(&options(engine, &directory, Durability::None, &[]));
            counts::<WiredTiger>(&options(engine, &directory, Durability::CommitSync, &[]));
        }
        let receipt =
            WiredTiger::open(&options(engine, &place.path().join("none"), Durability::None, &[]));
        let receipt = receipt.expect("opens").receipt().expect("a receipt");
        assert!(engine.ends_with(receipt.version.rsplit_once('.').expect("three parts").0));
        assert_eq!(receipt.settings["cache: maximum bytes configured"], (64 << 20).to_string());
        assert_eq!(receipt.settings["leaf_page_max of t1"], "32KB");
    }
}

/// Of two that change one row at a time the later one is refused, in a way that trying again can help, and what clients
/// do then is counted.
#[test]
fn write_conflicts_are_refused_and_counted() {
    let _alone = ONE_AT_A_TIME.lock();
    for (engine, backoff) in VERSIONS.into_iter().zip(["yield", "mongodb"]) {
        let place = tempfile::tempdir().expect("a temporary directory");
        // Forced commits keep the row taken for long enough that others come between.
        let backoff = [("conflict_backoff", backoff)];
        let options = options(engine, place.path(), Durability::CommitSync, &backoff);
        let driver = WiredTiger::open(&options).expect("opens");
        driver.create_tables(1).expect("makes a table");
        driver.insert_rows(0, 1..=10, &fill).expect("inserts");
        let clients: Vec<_> = (0..8).map(|_| driver.connect(1).expect("connects")).collect();
        let (mut acknowledged, mut conflicts, mut waits) = (0, 0, 0);
        std::thread::scope(|scope| {
            let work = |mut client: <WiredTiger as Driver>::Client| {
                let (mut acknowledged, mut conflicts) = (0u64, 0u64);
                while acknowledged < 50 {
                    match client.execute(&UPDATE) {
                        Outcome::Acknowledged => acknowledged += 1,
                        Outcome::Refused(failure) => {
                            assert_eq!(failure.class, FailureClass::Serialization);
                            assert!(failure.class.is_passing());
                            conflicts += 1;
                        }
                        Outcome::Unknown(failure) => panic!("{engine}: {failure:?}"),
                    }
                }
                (acknowledged, conflicts, client.counters().busy_waits)
            };
            let workers = clients.into_iter().map(|client| scope.spawn(move || work(client)));
            for worker in workers.collect::<Vec<_>>() {
                let (done, refused, waited) = worker.join().expect("no panic");
                (acknowledged, conflicts) = (acknowledged + done, conflicts + refused);
                waits += waited;
            }
        });
        assert_eq!(driver.counter_sum(0), Ok(acknowledged));
        assert!(conflicts > 0 && waits > 0 && waits <= conflicts, "{engine}: {conflicts} {waits}");
    }
}

/// A durability forces the log as often as its name says, and statistics count the commits.
#[test]
fn durability_forces_the_log_as_it_says() {
    let _alone = ONE_AT_A_TIME.lock();
    for engine in VERSIONS {
        for durability in Durability::ALL {
            let place = tempfile::tempdir().expect("a temporary directory");
            let options = options(engine, place.path(), durability, &[("checkpoint_s", "0")]);
            let driver = WiredTiger::open(&options).expect("opens");
            driver.create_tables(1).expect("makes a table");
            driver.insert_rows(0, 1..=10, &fill).expect("inserts");
            let mut client = driver.connect(1).expect("connects");
            let commits =
                || driver.statistics().expect("statistics")["transaction: transactions committed"];
            let before = (sync_counter::syncs(), commits());
            for _ in 0..100 {
                assert_eq!(client.execute(&UPDATE), Outcome::Acknowledged);
            }
            let (syncs, commits) = (sync_counter::syncs() - before.0, commits() - before.1);
            match durability {
                Durability::CommitSync => {
                    assert!((100..=110).contains(&syncs), "{engine}: {syncs}")
                }
                // The log's own threads may force directories and new files.
                _ => assert!(syncs <= 10, "{engine} {}: {syncs}", durability.name()),
            }
            assert!(commits >= 100, "{engine}: {commits}");
        }
    }
}

/// Compressors that Debian's build has beside the library are used; one that a build has not is named.
#[test]
fn block_compressors_are_where_the_build_has_them() {
    let _alone = ONE_AT_A_TIME.lock();
    for compressor in ["snappy", "zlib"] {
        let place = tempfile::tempdir().expect("a temporary directory");
        let changed = [("block_compressor", compressor)];
        let options = options(VERSIONS[0], place.path(), Durability::None, &changed);
        conforms::<WiredTiger>(&options, true);
        let receipt = WiredTiger::open(&options).expect("opens").receipt().expect("a receipt");
        assert_eq!(receipt.settings["block_compressor of t1"], compressor);
    }
    let place = tempfile::tempdir().expect("a temporary directory");
    let changed = [("block_compressor", "zstd")];
    let driver = WiredTiger::open(&options(VERSIONS[1], place.path(), Durability::None, &changed));
    let error = driver.expect("opens").create_tables(1).expect_err("has no zstd").to_string();
    assert!(error.contains("block_compressor is zstd, which this build may not have"), "{error}");
}

/// What cannot be opened is refused in words that say what it is.
#[test]
fn wrong_directories_and_settings_are_named() {
    let _alone = ONE_AT_A_TIME.lock();
    let place = tempfile::tempdir().expect("a temporary directory");
    let newer = place.path().join("newer");
    let of = |engine, directory: &Path| options(engine, directory, Durability::CommitWritten, &[]);
    drop(WiredTiger::open(&of(VERSIONS[1], &newer)).expect("opens"));
    let error = refused(&of(VERSIONS[0], &newer));
    assert!(error.contains("newer") && error.to_lowercase().contains("version"), "{error}");

    let other = place.path().join("other");
    std::fs::create_dir(&other).expect("makes");
    std::fs::write(other.join("data.mdb"), "another engine's").expect("writes");
    let error = refused(&of(VERSIONS[1], &other));
    assert!(error.contains("holds files, but no WiredTiger database"), "{error}");

    let wrong = options(
        VERSIONS[1],
        &place.path().join("new"),
        Durability::None,
        &[("conflict_backoff", "pray")],
    );
    assert!(refused(&wrong).contains("conflict_backoff"));
}

/// The shim and what lies beside it are looked at before the loader gets them, and what is wrong with them is said.
#[test]
fn wrong_libraries_are_named() {
    let _alone = ONE_AT_A_TIME.lock();
    for engine in VERSIONS {
        let place = tempfile::tempdir().expect("a temporary directory");
        let installed = library(engine);
        let files = common::bytes_below(installed.parent().expect("a directory"));
        let beside = |part: &str| {
            let mut names = files.keys().map(|path| path.file_name().expect("a name").to_owned());
            names.find(|name| name.to_string_lossy().contains(part)).expect("is beside the shim")
        };
        let check = |name: &std::ffi::OsStr, bytes: &[u8], says: &str| {
            let copy = tempfile::tempdir_in(place.path()).expect("a directory");
            common::copy(installed.parent().expect("a directory"), copy.path());
            std::fs::write(copy.path().join(name), bytes).expect("writes");
            let mut wrong = options(engine, &place.path().join("new"), Durability::None, &[]);
            wrong.library = Some(copy.path().join("shim.so"));
            let error = refused(&wrong);
            let name = name.to_string_lossy();
            assert!(error.contains(&format!("{name} {says}")), "{name}: {error}");
        };
        for name in [beside("shim.so"), beside("libwiredtiger.so")] {
            let whole = &files[&installed.with_file_name(&name)];
            check(&name, b"no shared object", "is no shared library (ELF); fetch the engine again");
            check(&name, &whole[..whole.len() / 2], "is cut short: it has ");
            // s390x, at `e_machine`.
            let foreign = [&whole[..18], &22u16.to_le_bytes(), &whole[20..]].concat();
            check(&name, &foreign, "is for s390x, and this host is ");
        }
        let other = &files[&installed.with_file_name(beside("libwiredtiger.so"))];
        check(&beside("shim.so"), other, "is not dbdyno's shim for WiredTiger: it has no dbdyno_");
    }
}

/// Two cells on both versions, as a user asks for them: measured, and every check passed.
#[test]
fn both_versions_are_measured() {
    let _alone = ONE_AT_A_TIME.lock();
    VERSIONS.iter().for_each(|engine| drop(library(engine)));
    let experiment =
        common::TINY.replace("tables = [1, 2]", "tables = [1]").replace("count = 2", "count = 1");
    let place = Place::on_disk(&experiment);
    place
        .run(&format!("run ./tiny.toml --quiet --offline --engine {}", VERSIONS.join(",")))
        .expect(0, "run");
    let shown = place.run(&format!("show {} --json", place.only_run())).expect(0, "show").json();
    let cells = common::cells(&shown);
    assert_eq!(cells.len(), 6, "{cells:?}");
    for (cell, (_, ends)) in cells {
        assert!(ends.iter().all(|end| end == "Measured"), "{cell}: {ends:?}");
    }
}
