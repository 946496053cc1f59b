//! Old runs load for ever: each directory in `tests/golden` was written by the program of its format and never changes.
//!
//! A test that fails here means that people's records can no longer be read. Change the reader, not the directory.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use dbdyno_record::{
    DetailWriter, IntervalLog, NewRun, Phase, Run, RunWriter, TrialEnd, VerifyDepth, Warning,
};

fn golden(format: u32) -> PathBuf {
    let path = format!("{}/tests/golden/format-{format}", env!("CARGO_MANIFEST_DIR"));
    Path::new(&path).join(common::RUN)
}

#[test]
fn the_golden_run_of_format_1_loads() {
    let run = Run::open(&golden(1)).unwrap();
    let problems = run.verify(VerifyDepth::Contents);
    assert!(problems.is_empty(), "{problems:?}");
    assert!(run.is_sealed() && run.gaps.is_empty());
    assert_eq!((run.header.format, run.header.run.as_str()), (1, common::RUN));
    assert_eq!(run.plan, common::PLAN);
    assert_eq!(run.read_file("host.json").unwrap(), b"{\"cores\": 2}\n");
    assert_eq!(run.trials.len(), 3);

    let trial = run.trial(0).unwrap();
    assert_eq!(trial.end, TrialEnd::Measured);
    assert_eq!(trial.observations[1].value, 0.1 + 0.2);
    assert_eq!(trial.warnings, [Warning::SingleBlock {}, Warning::CpuCoarse { ticks: 12 }]);
    let log = run.read_detail(trial, "service_time.hlog").unwrap();
    let log = IntervalLog::read(&log).unwrap();
    let phases: Vec<Phase> = log.intervals.iter().map(|interval| interval.tag.phase).collect();
    assert_eq!(phases, [Phase::WarmUp, Phase::Measured]);
    assert_eq!(log.intervals[1].histogram.len(), 3);
    assert_eq!(log.intervals[1].histogram.max(), 2_000_895, "2 ms to three digits");

    assert_eq!(run.trial(1).unwrap().end.name(), "NotRun");
    assert_eq!(run.trial(2).unwrap().end.reason(), Some("the counter lost 1 of 10000 updates"));
}

#[test]
fn the_writer_still_writes_format_1_byte_for_byte() {
    let old = golden(1);
    let results = common::scratch();
    let run = Run::open(&old).unwrap();
    let new = NewRun { run: common::RUN, plan: &run.plan, started_utc: common::STARTED };
    let mut writer = RunWriter::create(results.path(), &new).unwrap();
    for name in ["host.json", "instrument.json"] {
        writer.add_file(name, &run.read_file(name).unwrap()).unwrap();
    }
    for trial in &run.trials {
        if !trial.files.is_empty() {
            let mut detail = DetailWriter::create(writer.path(), trial.trial).unwrap();
            for name in trial.files.keys() {
                detail.write_file(name, &run.read_detail(trial, name).unwrap()).unwrap();
            }
            assert_eq!(detail.finish().unwrap(), trial.files);
        }
        writer.seal_trial(trial).unwrap();
    }
    writer.add_file("device-after.json", &run.read_file("device-after.json").unwrap()).unwrap();
    let path = writer.path().to_owned();
    writer.finish(common::ENDED).unwrap();
    for name in ["plan.json", "trials.jsonl"] {
        assert_eq!(
            String::from_utf8(fs::read(path.join(name)).unwrap()).unwrap(),
            String::from_utf8(fs::read(old.join(name)).unwrap()).unwrap()
        );
    }
}
