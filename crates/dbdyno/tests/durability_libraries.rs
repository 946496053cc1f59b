//! Engine libraries keep what their durability promises when the process that they are in is killed, and when the power
//! goes. As `durability` does it for servers: `DBDYNO_CRASHES=20 cargo test -p dbdyno --test durability_libraries --
//! --nocapture` makes twenty of each and prints what was lost.

mod support;

use dbdyno_plan::Durability;
use std::sync::Mutex;
use support::library::{Library, role};
use support::loop_disk::LoopDisk;
use support::{assert_within, crashes, root};

/// A disk of one test must not be held by a process of the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Every library that keeps what it is given, in its newest version.
const ENGINES: &[&str] = &["sqlite", "lmdb", "rocksdb-10", "wiredtiger-11.3"];

/// Not a test of its own: what the children of the tests below run. Does nothing when run with the others.
#[test]
fn library_role() {
    role();
}

/// The process dies at a random moment: `commit-written` and `commit-sync` keep every acknowledged commit.
#[test]
fn acknowledged_commits_survive_the_death_of_the_process() {
    let _alone = ONE_AT_A_TIME.lock();
    for &engine in ENGINES {
        for durability in [Durability::CommitWritten, Durability::CommitSync] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let (data, account) = (directory.path().join("data"), directory.path().join("account"));
            let library = Library::make(engine, durability, &data, &account, "library_role");
            let mut acknowledged = 0;
            for seed in 0..crashes() {
                let loss = library.crash_and(seed, || (), || ());
                let loss = loss.unwrap_or_else(|| panic!("{engine} does not open again"));
                assert_within(engine, durability, loss);
                acknowledged += loss.acknowledged;
            }
            assert!(
                acknowledged > u64::from(crashes()),
                "{engine}: {acknowledged} updates say nothing"
            );
            println!(
                "process death, {engine}, {}: {} times, {acknowledged} acknowledged, none lost",
                durability.name(),
                crashes()
            );
        }
    }
}

/// The power goes at a random moment: `commit-sync` keeps every acknowledged commit; `commit-written` loses some, at least
/// on one engine, or this test could not fail.
#[test]
fn acknowledged_commits_survive_a_power_cut() {
    if !root() {
        println!("Unsupported: a power cut needs root, to mount a file system");
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let mut lost_by_weaker = 0;
    for &engine in ENGINES {
        for durability in [Durability::CommitSync, Durability::CommitWritten] {
            let disk = LoopDisk::make();
            let directory = tempfile::tempdir().expect("a temporary directory");
            let (data, account) = (disk.path().join("data"), directory.path().join("account"));
            let library = Library::make(engine, durability, &data, &account, "library_role");
            let (mut acknowledged, mut lost, mut damaged) = (0, 0, 0);
            for seed in 0..crashes() {
                let loss = library.crash_and(seed, || disk.cut_power(), || disk.power_on());
                let Some(loss) = loss else {
                    // A file that is damaged beyond opening is what the weaker name allows, and only it.
                    assert!(durability < Durability::CommitSync, "{engine} does not open again");
                    damaged += 1;
                    break;
                };
                if durability == Durability::CommitSync {
                    assert_within(engine, durability, loss);
                }
                acknowledged += loss.acknowledged;
                lost += loss.acknowledged.saturating_sub(loss.counter);
            }
            println!(
                "power cut, {engine}, {}: {} times, {acknowledged} acknowledged, {lost} lost, {damaged} damaged",
                durability.name(),
                crashes()
            );
            if durability < Durability::CommitSync {
                lost_by_weaker += lost + damaged;
            }
        }
    }
    assert!(lost_by_weaker > 0, "no power cut took anything away, so this test shows nothing");
}
