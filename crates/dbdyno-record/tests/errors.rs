//! Each way to misuse or damage a record gives one message that names the file, the line if there is one, and a remedy.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dbdyno_record::layout::{PLAN_FILE, TRIALS_FILE};
use dbdyno_record::{
    DetailWriter, NewRun, RecordError, Run, RunWriter, TrialRecord, VerifyDepth, seal,
};

/// Damages a finished run and looks for each part in the message of opening it.
fn check(damage: impl FnOnce(&Path), parts: &[&str]) {
    let results = common::scratch();
    let path = common::sealed(results.path());
    damage(&path);
    let message = Run::open(&path).unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn damage_is_named_with_file_line_and_remedy() {
    let newer = "written by a newer dbdyno (format 2, this one reads up to 1): upgrade";
    check(
        |run| edit(&run.join(TRIALS_FILE), "\"format\":1", "\"format\":2,\"new\":[]"),
        &["trials.jsonl, line 1", newer],
    );
    check(
        |run| edit(&run.join(TRIALS_FILE), "\"value\":308641.0", "\"value\":908641.0"),
        &["trials.jsonl, line 3", "edited", "never edited"],
    );
    check(|run| fs::write(run.join(TRIALS_FILE), "").unwrap(), &["line 1: truncated", "delete"]);
    check(|run| edit(&run.join(PLAN_FILE), "7", "8"), &["plan.json", "SHA-256"]);
    check(|run| fs::write(run.join(PLAN_FILE), "").unwrap(), &["plan.json", "truncated"]);
    check(|run| fs::remove_file(run.join(PLAN_FILE)).unwrap(), &["plan.json: missing", "restore"]);
    check(
        |run| fs::remove_file(run.join(TRIALS_FILE)).unwrap(),
        &["not a run directory", "no trials.jsonl"],
    );
    check(|run| fs::remove_dir_all(run).unwrap(), &["not a run directory", "does not exist"]);
}

#[test]
fn a_newer_format_is_seen_before_anything_else_about_it_is_missed() {
    let directory = common::scratch();
    let future = "{\"record\":{\"format\":2,\"plan\":\"elsewhere\"}}\n\0\n";
    fs::write(directory.path().join(TRIALS_FILE), future).unwrap();
    let error = Run::open(directory.path()).unwrap_err();
    assert!(matches!(error, RecordError::NewerFormat { found: 2, .. }), "{error}");
}

#[test]
fn a_plan_of_a_newer_format_asks_for_an_upgrade() {
    let directory = common::scratch();
    let plan = "{\"format\": 2}";
    // SHA-256 of the plan, as sha256sum prints it.
    let header = |sha256: &str| {
        format!("{{\"format\":1,\"run\":\"r\",\"plan_sha256\":\"{sha256}\",\"started_utc\":\"x\"}}")
    };
    let sha256 = "3da2733d93b954410943bedaf626703e669009c4ebd54fdc8934d383e21046c7";
    let (line, _) = seal::seal_line("", "record", &header(sha256));
    fs::write(directory.path().join(TRIALS_FILE), line + "\n").unwrap();
    fs::write(directory.path().join(PLAN_FILE), plan).unwrap();
    let error = Run::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("plan.json, line 1: written by a newer dbdyno"), "{error}");
}

#[test]
fn numbers_and_metrics_of_another_version_are_read_but_unknown_warnings_ask_for_an_upgrade() {
    let results = common::scratch();
    let (writer, path) = common::unsealed(results.path());
    drop(writer);
    let text = fs::read_to_string(path.join(TRIALS_FILE)).unwrap();
    let seal_of_last = text.trim_end().rsplit('"').nth(1).unwrap();
    let body = serde_json::to_string(&common::trial(2)).unwrap();
    let open = |body: &str| {
        let (line, _) = seal::seal_line(seal_of_last, "trial", body);
        fs::write(path.join(TRIALS_FILE), format!("{text}{line}\n")).unwrap();
        Run::open(&path)
    };
    let run = open(&body.replace("\"throughput_per_s\"", "\"watts\"")).unwrap();
    assert_eq!(run.trial(2).unwrap().observations[0].metric, "watts");
    assert!(open(&body.replace("\"cell\"", "\"added_later\":[1],\"cell\"")).is_ok());
    let error = open(&body.replace("SingleBlock", "Novelty")).unwrap_err().to_string();
    assert!(error.contains("trials.jsonl, line 5: not understood"), "{error}");
    assert!(error.contains("Novelty") && error.contains("use the newest"), "{error}");
    let error = open(&serde_json::to_string(&common::trial(1)).unwrap()).unwrap_err().to_string();
    assert!(error.contains("trial 1 is sealed twice"), "{error}");
}

#[test]
fn verify_names_each_file_that_is_not_as_recorded() {
    let results = common::scratch();
    let path = common::sealed(results.path());
    let count = |depth| Run::open(&path).unwrap().verify(depth).len();
    assert_eq!((count(VerifyDepth::Names), count(VerifyDepth::Contents)), (0, 0));
    fs::write(path.join("host.json"), "{\"cores\": 3}\n").unwrap();
    assert_eq!((count(VerifyDepth::Names), count(VerifyDepth::Contents)), (0, 1));
    fs::remove_file(path.join("trials/00000/series.jsonl")).unwrap();
    assert_eq!((count(VerifyDepth::Names), count(VerifyDepth::Contents)), (1, 2));
    fs::write(path.join("trials/00000/more.json"), "").unwrap();
    assert_eq!((count(VerifyDepth::Names), count(VerifyDepth::Contents)), (2, 3));
    let run = Run::open(&path).unwrap();
    let trial = run.trial(0).unwrap();
    assert!(run.read_detail(trial, "receipt.json").is_ok());
    assert!(run.read_detail(trial, "series.jsonl").is_err());
    assert!(run.read_detail(trial, "more.json").is_err());
    assert!(matches!(run.read_file("host.json"), Err(RecordError::FileChanged { .. })));
}

#[test]
fn a_second_writer_a_finished_run_and_an_existing_run_are_refused() {
    let results = common::scratch();
    let (writer, path) = common::unsealed(results.path());
    let error = RunWriter::resume(&path).unwrap_err();
    assert!(matches!(error, RecordError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("another dbdyno is writing this run"));
    assert!(Run::open(&path).is_ok(), "readers are not kept out");
    writer.finish(common::ENDED).unwrap();
    assert!(matches!(RunWriter::resume(&path), Err(RecordError::AlreadySealed { .. })));
    let again = RunWriter::create(results.path(), &common::new_run());
    assert!(matches!(again, Err(RecordError::Exists { .. })));
    let bad_id = NewRun { run: "../x", ..common::new_run() };
    assert!(matches!(RunWriter::create(results.path(), &bad_id), Err(RecordError::BadName { .. })));
    for plan in ["", "[]", "{}", "{\"format\":2}", "{\"format\":\"1\"}"] {
        let new = NewRun { run: "x", plan: plan.as_bytes(), ..common::new_run() };
        let refused = RunWriter::create(results.path(), &new);
        assert!(matches!(refused, Err(RecordError::BadPlan { .. })), "{plan}");
    }
    assert_eq!(fs::read_dir(results.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn sealing_refuses_what_does_not_agree_with_the_directory_and_changes_nothing() {
    let results = common::scratch();
    let (mut writer, path) = common::unsealed(results.path());
    let before = fs::read(path.join(TRIALS_FILE)).unwrap();
    let mut detail = DetailWriter::create(&path, 2).unwrap();
    detail.write_file("check.json", b"{}").unwrap();
    assert!(detail.write_file("check.json", b"{}").is_err());
    assert!(detail.write_file("../check.json", b"{}").is_err());
    let files = detail.finish().unwrap();
    assert!(DetailWriter::create(&path, 2).is_err(), "complete detail is never overwritten");

    let refused = |writer: &mut RunWriter, trial: TrialRecord, part: &str| {
        let error = writer.seal_trial(&trial).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(&mut writer, common::trial(0), "sealed already");
    refused(&mut writer, common::trial(2), "holds [check.json], its record []");
    let hash = files["check.json"].clone();
    let other = BTreeMap::from([("receipt.json".to_owned(), hash)]);
    refused(&mut writer, TrialRecord { files: other, ..common::trial(2) }, "[receipt.json]");
    refused(&mut writer, TrialRecord { duration_s: f64::NAN, ..common::trial(3) }, "duration_s");
    assert!(writer.discard_detail(0).is_err());
    for name in ["plan.json", "trials.jsonl", "trials", "host.json", ".x", "a/b"] {
        assert!(writer.add_file(name, b"").is_err(), "{name}");
    }
    assert_eq!(fs::read(path.join(TRIALS_FILE)).unwrap(), before);
    writer.seal_trial(&TrialRecord { files, ..common::trial(2) }).unwrap();
    writer.discard_detail(3).unwrap();
    writer.add_file("device-after.json", b"{}").unwrap();
    writer.finish(common::ENDED).unwrap();
    let run = Run::open(&path).unwrap();
    assert!(run.verify(VerifyDepth::Contents).is_empty());
    assert_eq!(run.read_file("device-after.json").unwrap(), b"{}");
    let end = run.end.unwrap();
    let names: Vec<&str> = end.files.keys().map(String::as_str).collect();
    assert_eq!((end.trials, names), (3, vec!["device-after.json", "host.json", "plan.json"]));
}
