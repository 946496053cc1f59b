//! A record survives kills and shows edits: truncation at every byte, a change of every byte, any bytes at all.

mod common;

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use dbdyno_record::layout::{PLAN_FILE, TRIALS_FILE};
use dbdyno_record::{DetailWriter, Dropped, Gap, RecordError, Run, RunWriter, VerifyDepth};
use proptest::prelude::*;

/// A directory with the plan and this log.
fn run_with_log(directory: &Path, log: &[u8]) {
    fs::create_dir_all(directory.join("trials")).unwrap();
    fs::write(directory.join(PLAN_FILE), common::PLAN).unwrap();
    fs::write(directory.join(TRIALS_FILE), log).unwrap();
}

#[test]
fn a_log_cut_at_any_byte_is_read_and_resumed_without_losing_a_complete_line() {
    let results = common::scratch();
    let whole = fs::read(common::sealed(results.path()).join(TRIALS_FILE)).unwrap();
    let path = results.path().join("cut");
    let header_bytes = 1 + whole.iter().position(|&byte| byte == b'\n').unwrap();
    for length in 0..whole.len() {
        let cut = &whole[..length];
        run_with_log(&path, cut);
        if length < header_bytes {
            assert!(matches!(Run::open(&path), Err(RecordError::Truncated { .. })), "{length}");
            assert!(matches!(RunWriter::resume(&path), Err(RecordError::Truncated { .. })));
            continue;
        }
        let complete = 1 + cut.iter().rposition(|&byte| byte == b'\n').unwrap();
        let lines = cut.iter().filter(|&&byte| byte == b'\n').count();
        let torn = Gap::TornLine { line: lines + 1, bytes: length - complete };
        let run = Run::open(&path).unwrap_or_else(|error| panic!("cut at {length}: {error}"));
        assert!(!run.is_sealed());
        assert_eq!(1 + run.trials.len() + run.files.len(), lines);
        assert!(run.gaps.contains(&Gap::Unsealed));
        assert_eq!(run.gaps.contains(&torn), length > complete, "cut at {length}");

        let (writer, dropped) = RunWriter::resume(&path).unwrap();
        assert_eq!(dropped.len(), usize::from(length > complete), "{dropped:?}");
        assert_eq!(fs::read(path.join(TRIALS_FILE)).unwrap(), &whole[..complete]);
        assert_eq!(writer.sealed(), &run.sealed());
    }
}

#[test]
fn a_cut_run_that_is_resumed_and_finished_is_byte_for_byte_the_uninterrupted_one() {
    let results = common::scratch();
    let path = common::sealed(results.path());
    let whole = fs::read(path.join(TRIALS_FILE)).unwrap();
    let end_of_line_3 =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(2).unwrap().0;
    fs::write(path.join(TRIALS_FILE), &whole[..end_of_line_3 + 20]).unwrap();
    let trial = common::trial(1);
    let reason = "DOP 2 is less than 4 tables".to_owned();
    let (mut writer, dropped) = RunWriter::resume(&path).unwrap();
    assert_eq!(dropped, [Dropped::TornLine { line: 4, bytes: 19 }]);
    let end = dbdyno_record::TrialEnd::NotRun { reason };
    writer.seal_trial(&dbdyno_record::TrialRecord { end, ..trial }).unwrap();
    writer.finish(common::ENDED).unwrap();
    assert_eq!(fs::read(path.join(TRIALS_FILE)).unwrap(), whole);
    assert!(Run::open(&path).unwrap().verify(VerifyDepth::Contents).is_empty());
}

#[test]
fn every_changed_byte_of_a_sealed_run_is_found_on_its_line() {
    let results = common::scratch();
    let whole = fs::read(common::sealed(results.path()).join(TRIALS_FILE)).unwrap();
    let path = results.path().join("edited");
    run_with_log(&path, &whole);
    let mut line = 1;
    for offset in 0..whole.len() - 1 {
        let mut edited = whole.clone();
        // The lowest bit keeps characters printable: a digit becomes another digit, the format's 1 becomes 0.
        edited[offset] ^= 1;
        fs::write(path.join(TRIALS_FILE), &edited).unwrap();
        match Run::open(&path).expect_err("an edited record") {
            RecordError::Edited { line: found, .. } => assert_eq!(found, line, "byte {offset}"),
            other => panic!("byte {offset}: {other}"),
        }
        line += usize::from(whole[offset] == b'\n');
    }
    let mut edited = whole.clone();
    *edited.last_mut().unwrap() = b' ';
    fs::write(path.join(TRIALS_FILE), &edited).unwrap();
    assert!(!Run::open(&path).unwrap().is_sealed(), "without its newline the seal is torn");
}

#[test]
fn lines_after_the_seal_of_the_run_are_refused() {
    let results = common::scratch();
    let path = common::sealed(results.path());
    let whole = fs::read(path.join(TRIALS_FILE)).unwrap();
    for more in ["\n", "x", "{}\n"] {
        fs::write(path.join(TRIALS_FILE), [&whole, more.as_bytes()].concat()).unwrap();
        let error = Run::open(&path).unwrap_err();
        assert!(matches!(error, RecordError::Edited { line: 6, .. }), "{more:?}: {error}");
    }
}

#[test]
fn resuming_removes_what_was_not_sealed_and_nothing_else() {
    let results = common::scratch();
    let (writer, path) = common::unsealed(results.path());
    drop(writer);
    let mut complete = DetailWriter::create(&path, 7).unwrap();
    complete.write_file("check.json", b"{}").unwrap();
    complete.finish().unwrap();
    let mut partial = DetailWriter::create(&path, 8).unwrap();
    partial.write_file("check.json", b"{}").unwrap();
    drop(partial);
    fs::write(path.join(".partial-late.json"), "{").unwrap();
    fs::write(path.join("note.txt"), "mine").unwrap();

    let (writer, dropped) = RunWriter::resume(&path).unwrap();
    let expected = [
        Dropped::Partial { name: ".partial-late.json".to_owned() },
        Dropped::Partial { name: "trials/.partial-00008".to_owned() },
        Dropped::UnsealedDetail { trial: 7 },
    ];
    assert_eq!(dropped, expected);
    assert!(path.join("note.txt").exists());
    writer.finish(common::ENDED).unwrap();
    let run = Run::open(&path).unwrap();
    assert!(run.is_sealed() && run.gaps.is_empty());
    assert!(run.verify(VerifyDepth::Contents).is_empty());
}

proptest! {
    #[test]
    fn no_bytes_make_reading_or_resuming_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        keep in 0usize..2500,
    ) {
        static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let results = common::scratch();
            fs::read(common::sealed(results.path()).join(TRIALS_FILE)).unwrap()
        });
        let results = common::scratch();
        let path = results.path().join("noise");
        let kept = &WHOLE[..keep.min(WHOLE.len())];
        for log in [bytes.clone(), [kept, &bytes].concat()] {
            run_with_log(&path, &log);
            if let Ok(run) = Run::open(&path) {
                run.verify(VerifyDepth::Contents);
            }
            let _ = RunWriter::resume(&path);
        }
    }

    #[test]
    fn a_line_with_any_sealed_body_is_read_or_refused_without_panic(
        kind in "(record|trial|file|end|other|\\PC{0,5})",
        body in "(\\{\\}|null|\\PC{0,40}|\\{\"(format|trial|trials)\":[0-9e.-]{1,30}\\})",
    ) {
        let results = common::scratch();
        let (header, seal) = dbdyno_record::seal::seal_line("", "record", "{\"format\":1}");
        let (next, _) = dbdyno_record::seal::seal_line(&seal, &kind, &body);
        let (first, _) = dbdyno_record::seal::seal_line("", &kind, &body);
        for log in [format!("{header}\n{next}\n"), format!("{first}\n")] {
            run_with_log(results.path(), log.as_bytes());
            prop_assert!(Run::open(results.path()).is_err());
        }
    }
}
