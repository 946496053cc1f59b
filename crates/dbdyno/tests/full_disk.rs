//! A disk that fills up under an engine library that is fetched: the run stops with what to do, what was recorded is kept,
//! nothing crashes or hangs, and with room again `--resume` goes on. Needs root, to mount a small file system.

mod common;
mod support;

use common::host::wait_for;
use common::{Ended, Place, cells};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use support::loop_disk::LoopDisk;
use support::{cache_directory, root};

/// Rows of 10,000 bytes, so that updates take 20 MB a second in a log; for longer than the seconds in which WiredTiger tries
/// again to make a log file before it says that it cannot.
const LARGE_ROWS: &str = "\
name = 'tiny'
question = 'What if the disk is full?'
workload = 'hot_row'
engines = ['lmdb']
[vary]
dop = [4]
[hold]
rows = 3600
dataset_tables = 1
filler_bytes = 10000
age = 0.0
arrival = 'uniform'
rate = 2000.0
warmup_s = 0.1
measured_s = 6.0
device_profile = false
";
/// What the dataset takes at least.
const DATASET_BYTES: u64 = 3600 * 10_000;
const MIB: u64 = 1 << 20;
/// Exit code of a run that cannot write.
const CANNOT_WRITE: u8 = 6;

/// A place in memory whose results lie on a disk of its own.
struct Stand {
    place: Place,
    disk: LoopDisk,
}

impl Stand {
    fn results(&self) -> PathBuf {
        self.disk.path().join("results")
    }

    fn command(&self, arguments: &str) -> Command {
        let arguments = format!("{arguments} --results {}", self.results().display());
        let mut command = self.place.command(&arguments);
        command.env("DBDYNO_CACHE", cache_directory());
        command
    }

    fn run(&self, arguments: &str) -> Ended {
        Ended::of(self.command(arguments).output().expect("the command starts"))
    }

    fn runs(&self) -> Vec<String> {
        dbdyno_record::list_runs(&self.results()).unwrap_or_default()
    }

    fn trials(&self, run: &str) -> String {
        fs::read_to_string(self.results().join(run).join("trials.jsonl")).expect("reads")
    }

    /// The disk gets full once the command has looked at it and begun its record; it stops and says so. With room again
    /// it goes on, and leaves alone what was recorded.
    fn stops_and_goes_on(&self, (engine, more): (&str, &str), room: u64, says: &str) {
        let before = self.runs();
        let arguments = format!("run ./tiny.toml --quiet --engine {engine}{more}");
        let child = self.command(&arguments).spawn().expect("the command starts");
        // The instrument measures itself for half a second before anything is loaded or measured.
        let run = wait_for("a run", || self.runs().into_iter().find(|run| !before.contains(run)));
        self.disk.leave(room);
        let ended = Ended::of(child.wait_with_output().expect("it ends"));
        let ended = ended.expect(CANNOT_WRITE, engine);
        println!("{engine}: {}", ended.stderr);
        let (hint, message) = ended.stderr.trim_end().rsplit_once('\n').expect("two lines");
        assert!(hint.contains("what was measured is kept"), "{engine}: {ended:?}");
        assert!(message.contains(says), "{engine}: {ended:?}");
        assert!(message.contains("; free some space, or use --results DIR on another disk"));
        let before = self.trials(&run);
        self.disk.make_room();
        self.run(&format!("run --resume {run} --quiet")).expect(0, engine);
        assert!(self.trials(&run).starts_with(&before), "{engine}: sealed lines were changed");
        let shown = self.run(&format!("show {run} --verify --json")).expect(0, engine).json();
        for (cell, (n, ends)) in cells(&shown) {
            assert_eq!((n, ends), (1, vec!["Measured".to_owned()]), "{cell}");
        }
    }
}

fn a_full_disk_costs_nothing_but_time(engine: &str, more: &str) {
    if !root() {
        println!("Unsupported: a small disk needs root, to mount a file system");
        return;
    }
    let stand = Stand { place: Place::with(LARGE_ROWS), disk: LoopDisk::in_memory(1024 * MIB) };
    // First there is room for a half of the dataset; then for a copy of it, and for the log of some hundred updates.
    let says = "the dataset cannot be loaded: ";
    stand.stops_and_goes_on((engine, more), DATASET_BYTES / 2, says);
    let template = common::bytes_below(&stand.results().join("cache/datasets"));
    let bytes: u64 = template.values().map(|bytes| bytes.len() as u64).sum();
    stand.stops_and_goes_on((engine, more), bytes + 16 * MIB, "trial 1: ");
}

/// RocksDB 6.29, and the same in 11.
#[test]
fn rocksdb_on_a_full_disk() {
    for engine in ["rocksdb-6.29", "rocksdb-11"] {
        a_full_disk_costs_nothing_but_time(engine, "");
    }
}

/// WiredTiger, whose library gives up for good when it cannot write; with log files that are small beside the disk.
#[test]
fn wiredtiger_on_a_full_disk() {
    for engine in ["wiredtiger-3.2", "wiredtiger-11.3"] {
        a_full_disk_costs_nothing_but_time(engine, " --set engine_setting.log_file_mb=2");
    }
}
