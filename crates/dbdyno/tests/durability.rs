//! Servers keep what their durability promises: killed at a random moment, recovered, and counted. And when the power
//! goes: the same on a file system that is shut down without writing anything more.
//!
//! `DBDYNO_CRASHES=20 cargo test -p dbdyno --test durability -- --nocapture` makes twenty of each and prints what was
//! lost; the default is a few, which a test can wait for. The power cut needs root, because it mounts a file system.

mod common;
mod support;

use dbdyno_plan::Durability;
use std::sync::Mutex;
use support::crash::{keeps_when_killed, lost_in_power_cuts};
use support::loop_disk::LoopDisk;
use support::{Cluster, root};

/// A server holds what is mounted when it starts, so no server of one test may start while the other has a disk.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One PostgreSQL and two of the MySQL family.
const ENGINES: &[&str] = &["postgres-18", "mysql-5.6", "mariadb-10.11"];

/// The process dies at a random moment: `commit-written` and `commit-sync` keep every acknowledged commit.
#[test]
fn acknowledged_commits_survive_the_death_of_the_process() {
    let _alone = ONE_AT_A_TIME.lock();
    for &engine in ENGINES {
        for durability in [Durability::CommitWritten, Durability::CommitSync] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let cluster = Cluster::make(engine, durability, &directory.path().join("server"));
            keeps_when_killed(engine, durability, &cluster);
        }
    }
}

/// The power goes at a random moment: `commit-sync` keeps every acknowledged commit; the weaker names lose some, at
/// least on one engine, or this test could not fail.
#[test]
fn acknowledged_commits_survive_a_power_cut() {
    if !root() {
        // Without root no file system can be mounted: this host can show the death of processes only, and the log
        // syncs that every trial counts.
        println!("Unsupported: a power cut needs root, to mount a file system");
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let mut lost_by_weaker = 0;
    for &engine in ENGINES {
        for durability in [Durability::CommitSync, Durability::CommitWritten, Durability::Delayed] {
            let disk = LoopDisk::make();
            let cluster = Cluster::make(engine, durability, &disk.path().join("server"));
            lost_by_weaker += lost_in_power_cuts(engine, durability, &disk, &cluster);
        }
    }
    assert!(lost_by_weaker > 0, "no power cut took anything away, so this test shows nothing");
}
