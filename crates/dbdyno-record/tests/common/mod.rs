//! A small trial and a small run for the tests of this crate.

#![allow(dead_code)] // Each test program uses its own part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dbdyno_record::{
    DetailWriter, FactorValue, NewRun, Observation, RunWriter, TrialEnd, TrialRecord, Warning,
    metric,
};

pub const PLAN: &[u8] = b"{\"format\": 1, \"experiment\": \"tiny\", \"seed\": 7}\n";
pub const RUN: &str = "20261121-041512-tiny-3f9a";
pub const STARTED: &str = "2026-11-21T04:15:12.250Z";
pub const ENDED: &str = "2026-11-21T04:16:00.000Z";

/// A directory for a test, in memory where the host has such a place: the tests sync thousands of times.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A measured trial without detail files.
pub fn trial(index: u32) -> TrialRecord {
    let everything = ("measure", "all", "all");
    let observe = |name: &str, value| {
        Observation::new(everything, metric::find(name).expect("a known metric"), value)
    };
    TrialRecord {
        trial: index,
        cell: format!("lmdb;tables=1;dop={}", 1 << index),
        engine: "lmdb".to_owned(),
        engine_version: "0.9.70".to_owned(),
        configuration: "default".to_owned(),
        workload: "hot_row".to_owned(),
        workload_version: 1,
        block: 0,
        restart: index,
        factors: BTreeMap::from([
            ("tables".to_owned(), FactorValue::Number(1.0)),
            ("dop".to_owned(), FactorValue::Number(f64::from(1u32 << index))),
            ("assignment".to_owned(), FactorValue::Text("pinned".to_owned())),
        ]),
        started_utc: STARTED.to_owned(),
        duration_s: 2.5,
        end: TrialEnd::Measured,
        observations: vec![
            observe("throughput_per_s", 123_456.789_012_3),
            observe("service_time_us_p99", 0.1 + 0.2),
            observe("acknowledged", 308_641.0),
        ],
        warnings: vec![Warning::SingleBlock {}, Warning::CpuCoarse { ticks: 12 }],
        steps: Vec::new(),
        files: BTreeMap::new(),
    }
}

pub fn new_run() -> NewRun<'static> {
    NewRun { run: RUN, plan: PLAN, started_utc: STARTED }
}

/// A run with an added file, a trial with detail and a trial without; not finished.
pub fn unsealed(results: &Path) -> (RunWriter, PathBuf) {
    let mut writer = RunWriter::create(results, &new_run()).unwrap();
    writer.add_file("host.json", b"{\"cores\": 2}\n").unwrap();
    let path = writer.path().to_owned();
    let mut detail = DetailWriter::create(&path, 0).unwrap();
    detail.write_file("receipt.json", b"{\"version\": \"0.9.70\"}\n").unwrap();
    detail.write_file("series.jsonl", b"{\"second\": 0, \"acknowledged\": 5}\n").unwrap();
    let files = detail.finish().unwrap();
    writer.seal_trial(&TrialRecord { files, ..trial(0) }).unwrap();
    let reason = "DOP 2 is less than 4 tables".to_owned();
    writer.seal_trial(&TrialRecord { end: TrialEnd::NotRun { reason }, ..trial(1) }).unwrap();
    (writer, path)
}

/// The same run, finished.
pub fn sealed(results: &Path) -> PathBuf {
    let (writer, path) = unsealed(results);
    writer.finish(ENDED).unwrap();
    path
}

/// Copies a run, so that a test can damage it.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
