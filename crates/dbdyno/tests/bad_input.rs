//! Input that is wrong, places that cannot be written, records that were changed: each gives one message that says where
//! and what to do, ends with its documented code, prints no result, and leaves what was recorded byte for byte.

mod common;

use common::{Ended, Place, TINY, bytes_below, cells, copy};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const WRONG_INPUT: u8 = 3;
const NO_RUN: u8 = 4;
const BAD_RECORD: u8 = 5;
const CANNOT_WRITE: u8 = 6;
const HOST_UNFIT: u8 = 7;

/// One line, from the command, that says this; nothing on standard output.
fn assert_refused(ended: Ended, code: u8, says: &str, about: &str) {
    let ended = ended.expect(code, about);
    assert_eq!(ended.stdout, "", "{about}: it printed a result");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{about}: not one message: {ended:?}");
    assert!(lines[0].starts_with("dbdyno: "), "{about}: {ended:?}");
    assert!(lines[0].contains(says), "{about}: it should say\n{says}\nand says\n{}", lines[0]);
}

/// A mistake in an experiment file is named with file, line and key, by `plan` and by `run`, and nothing is begun.
#[test]
fn mistakes_in_experiment_files_are_named_with_file_line_and_key() {
    fn check(old: &str, new: &str, says: &str) {
        assert!(TINY.contains(old), "{old}");
        let place = Place::with(&TINY.replacen(old, new, 1));
        for command in ["plan", "run"] {
            let ended = place.run(&format!("{command} ./tiny.toml"));
            assert_refused(ended, WRONG_INPUT, &format!("./tiny.toml:{says}"), new);
            assert!(!place.results().exists(), "{new}: it made a results directory");
        }
    }
    check("warmup_s", "warmup", r#"13: unknown key "warmup" in [hold]; did you mean "warmup_s"?"#);
    check("[vary]", "[very]", r#"6: unknown key "very"; did you mean "vary"?"#);
    check("engines", "engine", r#"4: unknown key "engine"; did you mean "engines"?"#);
    check("hot_row", "hot_rows", r#"3: unknown workload "hot_rows"; did you mean "hot_row"?"#);
    check("'lmdb'", "'lmbd'", r#"4: unknown engine "lmbd"; did you mean "lmdb"?"#);
    check("dop = [1, 2, 4]", "dop = [1, 0]", r#"8: "dop" in [vary] wants a whole number from 1"#);
    check("dop = [1, 2, 4]", "dop = []", r#"8: "dop" in [vary] is an empty list; give at least"#);
    check("dop = [1, 2, 4]", "dop = 4", r#"8: "dop" in [vary] wants a list; found 4"#);
    check("[1, 2]", "['one']", r#"7: "tables" in [vary] wants a whole number from 1 to 64; found"#);
    check("rows = 200", "rows = 'many'", r#"11: "rows" in [hold] wants a whole number from 1"#);
    check("rows = 200", "rows = 2.5", r#"11: "rows" in [hold] wants a whole number from 1"#);
    check("rows = 200", "dop = 4", r#"11: "dop" in [hold] is also in [vary] (line 8); keep one"#);
    check(
        "rows = 200",
        "rate = -1",
        r#"11: "rate" in [hold] wants requests per second above 0, at most 1000000000, or several"#,
    );
    check(
        "rows = 200",
        "rate = 100",
        r#"11: "rate" in [hold] means nothing when arrival is closed; leave it out or set arrival"#,
    );
    check(
        "rows = 200",
        "engine_setting.cache = 4",
        r#"11: unknown key "engine_setting.cache" in [hold]; did you mean "engine_setting.cache_mb"?"#,
    );
    check(
        "rows = 200",
        "engine_setting.synchronous = 'off'",
        r#"11: "engine_setting.synchronous" in [hold] is set by durability on sqlite; set durability"#,
    );
    check("false", "'no'", r#"15: "device_profile" in [hold] wants true or false"#);
    check("count = 2", "count = 0", r#"18: "count" in [repeat] wants a whole number from 1 to"#);
    check("name = 'tiny'", "name = 'tiny", "1: not valid TOML");
    check("name = 'tiny'", "", r#"1: key "name" is missing"#);
}

/// A mistake in an argument is named with the argument and what would be right.
#[test]
fn mistakes_in_arguments_are_named() {
    let place = Place::with(TINY);
    let check = |arguments: &str, code: u8, says: &str| {
        assert_refused(place.run(arguments), code, says, arguments);
        assert!(!place.results().exists(), "{arguments}: it made a results directory");
    };
    let tiny = |rest: &str, says: &str| {
        check(&format!("run ./tiny.toml {rest}"), WRONG_INPUT, says);
        check(&format!("plan ./tiny.toml {rest}"), WRONG_INPUT, says);
    };
    tiny("--set dopp=1", r#"--set dopp=1: unknown key "dopp"; did you mean "dop"?"#);
    tiny("--set dop=0", r#"--set dop=0: "dop" wants a whole number from 1 to 65536; found "0""#);
    tiny("--set dop=x", r#"--set dop=x: "dop" wants a whole number"#);
    tiny("--set dop=", r#"--set dop=: "dop" has an empty value; write a value after each = and"#);
    tiny("--set dop", r#"--set dop: "dop" has no value; write dop=VALUE"#);
    tiny("--set arrival=uniform,rate=-1", r#"--set rate=-1: "rate" wants requests per second"#);
    tiny("--set arrival=uniform", r#"--set arrival=uniform: "arrival" needs a rate above 0"#);
    tiny("--set durability=sync", r#""durability" wants one of none, delayed, commit-written,"#);
    tiny("--set engine_setting.cache=1", r#"did you mean "engine_setting.cache_mb"?"#);
    tiny("--engine lmdbb", r#"--engine lmdbb: unknown engine "lmdbb"; did you mean "lmdb"?"#);
    tiny("--engine lmdb,lmdb", "engine lmdb is asked for twice; keep one");
    tiny("--scale smoke", "--scale smoke: ./tiny.toml has no scales; leave out --scale");
    check("plan biebermarks --scale smok", WRONG_INPUT, r#"did you mean "smoke"?"#);
    check("run biebermark", WRONG_INPUT, r#"unknown experiment "biebermark"; did you mean "bieb"#);
    check(
        "run",
        WRONG_INPUT,
        "which experiment? Name one (biebermarks, versions, insert-benchmark) or give the path of a file",
    );
    check("run ./none.toml", WRONG_INPUT, "./none.toml: cannot read this experiment file: No such");
    check("run ./", WRONG_INPUT, "./: cannot read this experiment file: Is a directory");
    check(
        "run ./none.toml",
        WRONG_INPUT,
        "give the path of one, or a name (biebermarks, versions, insert-benchmark)",
    );
    check("show none", NO_RUN, "no run `none` in results: there are no runs there; is --results");
    check("export none --results elsewhere", NO_RUN, "no run `none` in elsewhere");
    check("run --resume none", NO_RUN, "no run `none` in results");
    check("show ./tiny.toml", NO_RUN, "./tiny.toml is not a run directory (it is not a directory)");
    check("show ./none", NO_RUN, "./none is not a run directory (it does not exist): name a");
    check("export .", NO_RUN, "no run `.` in results");
    check("export ./", NO_RUN, "./ is not a run directory (it has no trials.jsonl): name a");
}

/// What clap refuses ends with its own code and says how the command is used.
#[test]
fn a_command_line_that_cannot_be_understood_ends_with_code_2() {
    let place = Place::with(TINY);
    for arguments in ["", "frobnicate", "show", "export x --format xml", "run x --quick --scale y"]
    {
        let ended = place.run(arguments).expect(2, arguments);
        assert_eq!(ended.stdout, "", "{arguments}");
        assert!(ended.stderr.contains("--help") || ended.stderr.contains("Usage"), "{ended:?}");
    }
}

/// A results directory that cannot be made is named before anything is measured.
#[test]
fn results_directories_that_cannot_be_written_are_named() {
    let place = Place::with(TINY);
    let check = |results: &str| {
        let ended = place.run(&format!("run ./tiny.toml --results {results}"));
        let says = format!("cannot make {results}: ");
        assert_refused(ended, CANNOT_WRITE, &says, results);
        let ended = place.run(&format!("run ./tiny.toml --results {results}"));
        assert_refused(ended, CANNOT_WRITE, "; use --results DIR to write elsewhere", results);
    };
    check("tiny.toml");
    check("tiny.toml/below/a/file");
    check("/proc/dbdyno");
    assert_eq!(fs::read_to_string(place.path().join("tiny.toml")).expect("it is there"), TINY);
}

/// Runs the command with a limit on the size of files, which stands in for a full disk, and the signal for it ignored.
fn run_with_little_room(place: &Place, kib: u32, arguments: &str) -> Ended {
    // `ulimit -f` counts blocks of 512 bytes in a POSIX shell.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" {arguments}", 2 * kib);
    let child = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_dbdyno")])
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output();
    Ended::of(child.expect("a shell starts"))
}

/// Where there is no room the run stops with code 6, nothing that was sealed is lost, no trial is blamed, and
/// `--resume` goes on when there is room again.
#[test]
fn a_full_results_directory_stops_the_run_and_costs_nothing_that_was_recorded() {
    let place = Place::with(TINY);
    let arguments = "run ./tiny.toml --quiet --set dop=2";
    let full = run_with_little_room(&place, 4, arguments);
    assert_refused(full, CANNOT_WRITE, "free some space", "no room for the plan");
    assert!(place.runs().is_empty(), "a run without a plan");

    let stopped = |kib: u32, arguments: &str, says: &str| {
        let ended = run_with_little_room(&place, kib, arguments).expect(CANNOT_WRITE, says);
        assert_eq!(ended.stdout, "", "{says}");
        let (hint, message) = ended.stderr.trim_end().rsplit_once('\n').expect("two lines");
        assert!(hint.contains("what was measured is kept"), "{ended:?}");
        assert!(message.contains(says), "{ended:?}");
        assert!(message.contains("; free some space, or use --results DIR on another disk"));
    };
    // First no room for the dataset, then none for SQLite's log, which is left in the middle of a trial.
    stopped(24, arguments, "the dataset cannot be loaded");
    let run = place.only_run();
    let resume = format!("run --resume {run} --quiet");
    stopped(1000, &resume, "requests found no room on the disk");
    let lines = fs::read(place.results().join(&run).join("trials.jsonl")).expect("reads");
    place.run(&resume).expect(0, "with room");
    let after = fs::read(place.results().join(&run).join("trials.jsonl")).expect("reads");
    assert!(after.starts_with(&lines), "sealed lines were changed");
    let shown = place.run(&format!("show {run} --verify --json")).expect(0, "show").json();
    for (cell, (n, ends)) in cells(&shown) {
        assert_eq!((n, ends), (2, vec!["Measured".to_owned(); 2]), "{cell}");
    }
}

/// Results that cannot be printed are an error with a code, not a panic; a reader who has seen enough is none.
#[test]
fn a_full_standard_output_is_an_error_and_a_closed_one_is_not() {
    let place = Place::with(TINY);
    place.run("run ./tiny.toml --quiet --set tables=1,dop=1,repeat=1 --engine lmdb").expect(0, "");
    let run = place.only_run();
    let commands = ["plan ./tiny.toml", "plan ./tiny.toml --json", "engines list", "doctor"];
    let of_run = ["show", "show --json", "export", "export --format json"];
    let of_run = of_run.iter().map(|command| format!("{command} {run}"));
    for arguments in commands.iter().map(|&command| command.to_owned()).chain(of_run) {
        let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut command = place.command(&arguments);
        let ended = Ended::of(command.stdout(full).output().expect("it starts"));
        assert_refused(ended, 1, "cannot write to standard output: No space left", &arguments);
        let mut child = place.command(&arguments).spawn().expect("it starts");
        drop(child.stdout.take());
        let ended = Ended::of(child.wait_with_output().expect("it ends"));
        assert!(ended.code == Some(0) || arguments == "doctor", "{arguments}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{arguments}: {ended:?}");
    }
}

/// Changes a file of a run.
fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).expect("records are text");
    let changed = change(text.clone());
    assert_ne!(changed, text, "the edit changes nothing");
    fs::write(path, changed).expect("writes");
}

/// A record that is newer, truncated or edited is refused by `show`, `export` and `--resume` with file and line, and
/// is left as it was found.
#[test]
fn records_that_were_changed_are_refused_and_left_alone() {
    let place = Place::with(TINY);
    place.run("run ./tiny.toml --quiet --set tables=1,dop=1,repeat=1 --engine lmdb").expect(0, "");
    let original = place.results().join(place.only_run());
    let check = |name: &str, code: u8, says: &str, change: &dyn Fn(&Path)| {
        let directory = place.path().join("changed").join(name);
        copy(&original, &directory);
        change(&directory);
        let before = bytes_below(&place.path());
        for command in ["show --json", "show", "export", "run --resume"] {
            let arguments = format!("{command} changed/{name}");
            assert_refused(place.run(&arguments), code, says, &arguments);
            assert!(bytes_below(&place.path()) == before, "{arguments}: something was changed");
        }
    };
    let lines = |directory: &Path, change: &dyn Fn(&mut Vec<String>)| {
        edit(&directory.join("trials.jsonl"), |text| {
            let mut lines = text.lines().map(str::to_owned).collect();
            change(&mut lines);
            lines.join("\n") + "\n"
        });
    };
    check(
        "newer-record",
        BAD_RECORD,
        "changed/newer-record/trials.jsonl, line 1: written by a newer dbdyno (format 2, this one \
         reads up to 1): upgrade dbdyno",
        &|run| {
            lines(run, &|lines| lines[0] = lines[0].replace("\"format\":1", "\"format\":2"));
            fs::rename(run.join("plan.json"), run.join("a-newer-place.json")).expect("renames");
        },
    );
    let edited = "A record is never edited: restore this run from a copy, or measure again";
    check("edited", BAD_RECORD, &format!("inserted or moved. {edited}"), &|run| {
        lines(run, &|lines| lines[3] = lines[3].replace("\"throughput_per_s\"", "\"due\""));
    });
    check(
        "edited-line",
        BAD_RECORD,
        "edited-line/trials.jsonl, line 4: the seal does not",
        &|run| {
            lines(run, &|lines| lines[3] = lines[3].replace("Measured", "Measure"));
        },
    );
    check("removed", BAD_RECORD, "removed/trials.jsonl, line 2: the seal does not match", &|run| {
        lines(run, &|lines| drop(lines.remove(1)));
    });
    check("added", BAD_RECORD, "added/trials.jsonl, line 6: ", &|run| {
        lines(run, &|lines| lines.push(lines[3].clone()));
    });
    check("torn-header", BAD_RECORD, "trials.jsonl, line 1: truncated, the header is", &|run| {
        edit(&run.join("trials.jsonl"), |text| text[..40].to_owned());
    });
    check("empty", BAD_RECORD, "empty/trials.jsonl, line 1: truncated", &|run| {
        edit(&run.join("trials.jsonl"), |_| String::new());
    });
    check("newer-plan", BAD_RECORD, "newer-plan/plan.json: edited or truncated", &|run| {
        edit(&run.join("plan.json"), |text| text.replace("\"format\": 1", "\"format\": 2"));
    });
    check("torn-plan", BAD_RECORD, "torn-plan/plan.json: edited or truncated", &|run| {
        edit(&run.join("plan.json"), |text| text[..text.len() / 2].to_owned());
    });
    check("no-plan", NO_RUN, "no-plan/plan.json: missing. A run without its plan", &|run| {
        fs::remove_file(run.join("plan.json")).expect("removes");
    });
    check("no-list", NO_RUN, "no-list is not a run directory (it has no trials.jsonl)", &|run| {
        fs::remove_file(run.join("trials.jsonl")).expect("removes");
    });
}

/// A line that is not complete is left out and named by `show` and `export`, and measured again by `--resume`.
#[test]
fn a_torn_last_line_is_a_gap_and_not_an_error() {
    let place = Place::with(TINY);
    place.run("run ./tiny.toml --quiet --set tables=1,dop=1 --engine lmdb").expect(0, "a run");
    let run = place.only_run();
    let list = place.results().join(&run).join("trials.jsonl");
    let text = fs::read_to_string(&list).expect("reads");
    // The end is gone, and half of the second trial before it.
    let last_trial = text.rfind("{\"trial\":{").expect("two trials");
    fs::write(&list, &text[..last_trial + 100]).expect("writes");
    let torn = "trials.jsonl, line 5: not complete (100 bytes), left out";
    let shown = place.run(&format!("show {run}")).expect(0, "show");
    assert!(shown.stdout.contains(torn) && shown.stdout.contains("not sealed"), "{shown:?}");
    let exported = place.run(&format!("export {run}")).expect(0, "export");
    assert!(exported.stderr.contains(torn) && exported.stderr.contains("not sealed"));
    assert!(exported.stderr.contains("1 of 2 planned trials are not measured"), "{exported:?}");
    let resumed = place.run(&format!("run --resume {run} --quiet")).expect(0, "resume");
    assert!(resumed.stderr.contains("line 5: 100 bytes of a line that was being written"));
    let after = fs::read_to_string(&list).expect("reads");
    assert!(after.starts_with(&text[..last_trial]), "sealed lines were changed");
    place.run(&format!("show {run} --verify")).expect(0, "verify");
}

/// `show --verify` finds each file of a run that is not the one that was recorded.
#[test]
fn changed_detail_files_are_found() {
    let place = Place::with(TINY);
    place.run("run ./tiny.toml --quiet --set tables=1,dop=1,repeat=1 --engine lmdb").expect(0, "");
    let run = place.only_run();
    let directory = place.results().join(&run);
    place.run(&format!("show {run} --verify")).expect(0, "as it was recorded");
    for name in ["host.json", "trials/00001/check.json", "trials/00001/service_time.hlog"] {
        let path = directory.join(name);
        let before = fs::read(&path).expect("is there");
        edit(&path, |text| text + " ");
        let says = format!("{name}: edited or truncated: its SHA-256 is not the recorded one");
        assert_refused(place.run(&format!("show {run} --verify")), BAD_RECORD, &says, name);
        fs::remove_file(&path).expect("removes");
        let says = format!("{name}: missing. Restore this run from a copy, or measure again");
        assert_refused(place.run(&format!("show {run} --verify")), BAD_RECORD, &says, name);
        fs::write(&path, before).expect("writes");
    }
    place.run(&format!("show {run} --verify")).expect(0, "as it was recorded");
}

/// What `show` is asked for and does not have is named with what it has.
#[test]
fn unknown_metrics_and_engines_are_named() {
    let place = Place::with(TINY);
    place.run("run ./tiny.toml --quiet --set tables=1,dop=1,repeat=1 --engine lmdb").expect(0, "");
    let run = place.only_run();
    let check = |rest: &str, says: &str| {
        assert_refused(place.run(&format!("show {run} {rest}")), WRONG_INPUT, says, rest);
    };
    check(
        "--metric throughput",
        r#"unknown metric "throughput"; did you mean "throughput_per_s"?"#,
    );
    check("--metric latency", r#"--metric: unknown metric "latency""#);
    check("--metric trial_end", r#"--metric: unknown metric "trial_end""#);
    check("--relative-to lmbd", r#"--relative-to: "lmbd" is none of lmdb"#);
    let near = place.run(&format!("show {}x", &run));
    assert_refused(near, NO_RUN, &format!("; did you mean {run}?"), "a mistyped id");
}

/// A cache that is larger than the host's memory is refused before anything is fetched or made.
#[test]
fn a_cache_larger_than_memory_is_refused() {
    let place = Place::with(TINY);
    let arguments = "run ./tiny.toml --engine rocksdb-10 --set cache_mb=16000000";
    let says = "use a smaller --set cache_mb=N";
    assert_refused(place.run(arguments), HOST_UNFIT, says, arguments);
    assert!(place.runs().is_empty(), "a run was begun");
    // An engine without a cache of that kind is told nothing of it.
    place.run("plan ./tiny.toml --set cache_mb=16000000").expect(0, "lmdb and sqlite");
}
