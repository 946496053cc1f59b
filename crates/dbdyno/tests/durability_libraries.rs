//! Engine libraries keep what their durability promises when the process that they are in is killed, and when the power
//! goes. As `durability` does it for servers: `DBDYNO_CRASHES=20 cargo test -p dbdyno --test durability_libraries --
//! --nocapture` makes twenty of each and prints what was lost.

mod support;

use dbdyno_plan::Durability;
use std::sync::Mutex;
use support::crash::{keeps_when_killed, lost_in_power_cuts};
use support::library::{Library, role};
use support::loop_disk::LoopDisk;
use support::root;

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
            keeps_when_killed(engine, durability, &library);
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
            lost_by_weaker += lost_in_power_cuts(engine, durability, &disk, &library);
        }
    }
    assert!(lost_by_weaker > 0, "no power cut took anything away, so this test shows nothing");
}
