//! A write that fails half-way loses nothing that was recorded and leaves no half line behind.
//!
//! The file size limit of a child process stands in for a full disk: writes beyond it stop in the middle of a line.

mod common;

use std::process::Command;

use dbdyno_record::{Gap, RecordError, Run, RunWriter};

/// Tells this program that it is the child, with little room for files.
const LITTLE_ROOM: &str = "DBDYNO_TEST_LITTLE_ROOM";

/// A write that does not fit is an error, and the run is as it was before it.
#[test]
fn a_failed_append_is_taken_back() {
    if std::env::var_os(LITTLE_ROOM).is_some() {
        return with_little_room();
    }
    let program = std::env::current_exe().unwrap();
    // With the signal ignored, a write beyond the limit is an error instead of the end of the process.
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 5; exec \"$0\" \"$@\""])
        .arg(program)
        .env(LITTLE_ROOM, "yes")
        .args(["--exact", "a_failed_append_is_taken_back", "--nocapture"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{child:?}");
}

fn with_little_room() {
    let results = common::scratch();
    let (mut writer, path) = common::unsealed(results.path());
    let mut sealed = 2;
    let error = loop {
        match writer.seal_trial(&common::trial(sealed)) {
            Ok(()) => sealed += 1,
            Err(error) => break error,
        }
        assert!(sealed < 30, "there is no limit");
    };
    assert!(matches!(error, RecordError::Io { .. }), "{error}");
    let run = Run::open(&path).unwrap();
    assert_eq!(run.gaps, [Gap::Unsealed], "no torn line");
    assert_eq!(run.trials.len(), sealed as usize);

    // A shorter line still fits, and the chain goes on without a break.
    let mut short = common::trial(sealed);
    short.observations.clear();
    short.warnings.clear();
    let fits = writer.seal_trial(&short).is_ok();
    drop(writer);
    let (writer, dropped) = RunWriter::resume(&path).unwrap();
    assert_eq!((dropped.len(), writer.sealed().len()), (0, sealed as usize + usize::from(fits)));
}
