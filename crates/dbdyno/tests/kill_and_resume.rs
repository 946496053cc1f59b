//! Runs that are killed at a random moment, and what `--resume` makes of them; trials that are killed; two commands
//! that want the same run.
//!
//! Moments come from a seed that every failure prints; `DBDYNO_TEST_SEED` repeats one. Processes of a test are those
//! whose working directory is the test's own, and nothing else is ever killed.

mod common;

use common::{Ended, Place, bytes_below, cells};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// Three cells on each of two engines, once each, and two cells that are not run: less than three seconds.
const SHORT: &str = "\
name = 'tiny'
question = 'What is left after a kill?'
workload = 'hot_row'
engines = ['sqlite', 'lmdb']
[vary]
tables = [1, 2]
dop = [1, 2]
[hold]
rows = 200
dataset_tables = 2
warmup_s = 0.02
measured_s = 0.08
device_profile = false
";

/// What the issue allows a trial process to outlive its command by.
const OUTLIVES_MAX: Duration = Duration::from_secs(1);
/// How long a test waits for something that must come before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);
const KILLS: u32 = 10;

/// Numbers from 0 to 1 from a seed (SplitMix64).
struct Chance {
    seed: u64,
    state: u64,
}

impl Chance {
    fn new() -> Chance {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let given = std::env::var("DBDYNO_TEST_SEED").ok();
        let seed = given.map_or(now.as_nanos() as u64, |text| text.parse().expect("a number"));
        Chance { seed, state: seed }
    }

    fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Whom the signal goes to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Whom {
    CommandAlone,
    ProcessGroup,
}

/// Starts the command, in a process group of its own if the group is to be killed.
fn start(place: &Place, arguments: &str, whom: Whom) -> Child {
    let mut command = place.command(arguments);
    if whom == Whom::ProcessGroup {
        command.process_group(0);
    }
    command.spawn().expect("the command starts")
}

fn kill(pid: i32) {
    // SAFETY: kill touches no memory. The callers' processes are children of this one that were not waited for, or
    // children of those, so their ids belong to no other process.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Kills the command and waits for it, so that its process is gone.
fn kill_command(command: &mut Child, whom: Whom) {
    let pid = i32::try_from(command.id()).expect("process ids are small");
    kill(if whom == Whom::ProcessGroup { -pid } else { pid });
    command.wait().expect("it can be waited for");
}

/// Processes that run in a directory, and what they have open. A dead one that nobody has waited for runs nowhere.
fn processes_in(directory: &Path) -> BTreeMap<i32, Vec<PathBuf>> {
    let pids = fs::read_dir("/proc").expect("there is a /proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of_directory = pids.filter(|pid: &i32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|found| found == directory)
    });
    of_directory
        .map(|pid| {
            let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            (pid, open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect())
        })
        .collect()
}

fn is_job(pid: i32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|&byte| byte == 0).nth(1) == Some(b"job")
}

/// Waits until something is there.
fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(2));
    }
}

/// A job that has a file open below this part of the results directory.
fn wait_for_job_on(place: &Place, below: &str) -> i32 {
    let (path, below) = (place.path(), place.results().join(below));
    wait_for("a job", || {
        let jobs = processes_in(&path).into_iter().filter(|(pid, _)| is_job(*pid));
        let mut working = jobs.filter(|(_, open)| open.iter().any(|file| file.starts_with(&below)));
        working.next().map(|(pid, _)| pid)
    })
}

fn nothing_outlives(place: &Place, about: &str) {
    let killed = Instant::now();
    while !processes_in(&place.path()).is_empty() {
        assert!(
            killed.elapsed() < OUTLIVES_MAX,
            "{about}: {:?} still runs",
            processes_in(&place.path())
        );
        sleep(Duration::from_millis(5));
    }
}

/// What was sealed in a run: complete lines, and the detail files of their trials.
struct Sealed {
    run: PathBuf,
    lines: Vec<u8>,
    details: BTreeMap<PathBuf, Vec<u8>>,
}

impl Sealed {
    fn of(run: &Path) -> Sealed {
        let mut lines = fs::read(run.join("trials.jsonl")).expect("a run has its list");
        lines.truncate(lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1));
        let mut details = BTreeMap::new();
        for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_slice(line).expect("lines are JSON");
            if let Some(trial) = line["trial"]["trial"].as_u64() {
                let detail = run.join("trials").join(format!("{trial:05}"));
                let has_files =
                    line["trial"]["files"].as_object().is_some_and(|files| !files.is_empty());
                if has_files {
                    details.extend(bytes_below(&detail));
                }
            }
        }
        Sealed { run: run.to_owned(), lines, details }
    }

    fn assert_untouched(&self, about: &str) {
        let lines = fs::read(self.run.join("trials.jsonl")).expect("a run has its list");
        assert!(lines.starts_with(&self.lines), "{about}: a sealed line was changed");
        for (path, bytes) in &self.details {
            let found = fs::read(path).expect("it was there");
            assert!(found == *bytes, "{about}: {} was changed", path.display());
        }
    }
}

/// A run has its n in every planned cell, is as its seals say, and left nothing else in the results directory.
fn assert_complete(place: &Place, run: &str, n: u64, about: &str) {
    let shown = place.run(&format!("show {run} --verify --json")).expect(0, about).json();
    assert_eq!(shown["runs"][0]["gaps"], serde_json::json!([]), "{about}");
    let cells = cells(&shown);
    assert_eq!(cells.len(), 8, "{about}: {cells:?}");
    for (cell, (found, ends)) in &cells {
        let is_left_out = cell.ends_with(" 2 1");
        let expected = if is_left_out { (0, "NotRun") } else { (n, "Measured") };
        assert_eq!(*found, expected.0, "{about}: {cell}");
        assert!(ends.iter().all(|end| end == expected.1), "{about}: {cell} {ends:?}");
    }
    let work = fs::read_dir(place.results().join(".work")).expect("is there");
    assert_eq!(work.count(), 0, "{about}: the working directory was not swept");
    for entry in fs::read_dir(place.results().join(run)).expect("a run").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with('.'), "{about}: {name} is left in the run");
    }
}

/// Kills so many runs, each in its own part of the time that a run takes, and finishes each with `--resume`.
fn check_kills(whom: Whom) {
    let place = Place::with(SHORT);
    let mut chance = Chance::new();
    let began = Instant::now();
    place.run("run ./tiny.toml --quiet").expect(0, "a run that nobody kills");
    let whole = began.elapsed();
    let mut with_job = 0;
    for kill in 0..KILLS {
        let moment = whole.mul_f64((f64::from(kill) + chance.next()) / f64::from(KILLS));
        let about = format!("seed {}, {whom:?}, kill {kill} after {moment:?}", chance.seed);
        let before = place.runs();
        let mut command = start(&place, "run ./tiny.toml --quiet", whom);
        sleep(moment);
        with_job += u32::from(processes_in(&place.path()).keys().any(|&pid| is_job(pid)));
        kill_command(&mut command, whom);
        nothing_outlives(&place, &about);
        let begun = place.runs().into_iter().find(|run| !before.contains(run));
        let Some(run) = begun else {
            // Killed before there was a run: nothing is recorded and nothing is in the way.
            place.run("run ./tiny.toml --quiet").expect(0, &about);
            continue;
        };
        let sealed = Sealed::of(&place.results().join(&run));
        place.run(&format!("show {run}")).expect(0, &about);
        let resumed = place.run(&format!("run --resume {run} --quiet")).expect(0, &about);
        let is_new = !resumed.stderr.contains("nothing to do");
        assert_eq!(is_new, resumed.stdout.contains("Updates per second"), "{about}: {resumed:?}");
        assert!(!resumed.stdout.contains("..."), "{about}: {resumed:?}");
        sealed.assert_untouched(&about);
        assert_complete(&place, &run, 1, &about);
    }
    assert!(with_job > 0, "seed {}: no kill met a job", chance.seed);
}

/// After a SIGKILL of the command alone nothing runs on, and `--resume` completes the run without touching what is sealed.
#[test]
fn a_killed_command_takes_its_trial_along_and_its_run_can_be_resumed() {
    check_kills(Whom::CommandAlone);
}

/// The same for a SIGKILL of its whole process group.
#[test]
fn a_killed_process_group_leaves_a_run_that_can_be_resumed() {
    check_kills(Whom::ProcessGroup);
}

/// A dataset whose loading is killed again and again is completed, and what is measured on it passes its check.
#[test]
fn a_kill_while_loading_costs_nothing_but_time() {
    let large = SHORT.replace("rows = 200", "rows = 400_000").replace("[1, 2]", "[2]");
    let place = Place::on_disk(&large.replace("measured_s = 0.08", "measured_s = 2.0"));
    let mut chance = Chance::new();
    let mut arguments = "run ./tiny.toml --quiet".to_owned();
    for kill in 0..4 {
        let mut command = start(&place, &arguments, Whom::CommandAlone);
        wait_for_job_on(&place, "cache/datasets");
        let moment = Duration::from_secs_f64(0.4 * chance.next());
        let about = format!("seed {}, kill {kill}, {moment:?} into loading", chance.seed);
        sleep(moment);
        kill_command(&mut command, Whom::CommandAlone);
        nothing_outlives(&place, &about);
        arguments = format!("run --resume {} --quiet", place.only_run());
    }
    let about = format!("seed {}", chance.seed);
    place.run(&arguments).expect(0, &about);
    let shown = place.run(&format!("show {} --verify --json", place.only_run())).expect(0, &about);
    for (cell, (n, ends)) in cells(&shown.json()) {
        assert_eq!((n, ends), (1, vec!["Measured".to_owned()]), "{about}: {cell}");
    }
}

/// A trial whose process is killed is Failed with the signal as its reason; the others are measured; the code is 8.
#[test]
fn a_killed_trial_is_failed_and_the_run_goes_on() {
    fn check(engine: &str) {
        let longer = SHORT.replace("measured_s = 0.08", "measured_s = 0.4");
        let place = Place::with(&longer);
        let arguments = format!("run ./tiny.toml --engine {engine} --set tables=1,dop=1,2,4");
        let command = start(&place, &arguments, Whom::CommandAlone);
        let trial = wait_for_job_on(&place, ".work");
        kill(trial);
        let ended = Ended::of(command.wait_with_output().expect("it ends")).expect(8, engine);
        assert!(ended.stderr.contains("failed: its process was ended by signal 9"), "{ended:?}");
        assert!(ended.stdout.contains("Failed: its process was ended by signal 9"), "{ended:?}");
        let run = place.only_run();
        let shown = place.run(&format!("show {run} --verify --json")).expect(0, engine).json();
        let mut ends: Vec<String> =
            cells(&shown).into_values().flat_map(|(_, ends)| ends).collect();
        ends.sort();
        assert_eq!(ends, ["Failed", "Measured", "Measured"], "{engine}");
        let again = place.run(&format!("run --resume {run}")).expect(0, engine);
        assert!(again.stderr.contains("finished and sealed"), "{again:?}");
    }
    check("sqlite");
    check("lmdb");
}

/// Resuming a finished run says so, exits 0 and changes nothing, however the run is named; a name that does not agree
/// is refused.
#[test]
fn a_finished_run_is_not_resumed_and_names_must_agree() {
    let place = Place::with(SHORT);
    place.run("run ./tiny.toml --quiet --set tables=1,dop=1").expect(0, "a run");
    let run = place.only_run();
    let before = bytes_below(&place.results());
    let check = |arguments: String, code: u8, says: &str| {
        let ended = place.run(&format!("run {arguments}")).expect(code, &arguments);
        assert_eq!(ended.stdout, "", "{arguments}");
        assert!(ended.stderr.contains(says), "{arguments}: {ended:?}");
        assert!(bytes_below(&place.results()) == before, "{arguments}: something was changed");
    };
    let done = format!("run {run} is finished and sealed: nothing to do");
    check(format!("--resume {run}"), 0, &done);
    check(format!("--resume {}", &run[..run.len() - 1]), 0, &done);
    check(format!("--resume results/{run}"), 0, &done);
    check(format!("tiny --resume {run}"), 0, &done);
    check(format!("./tiny.toml --resume {run}"), 0, &done);
    check(format!("biebermarks --resume {run}"), 3, "is of experiment tiny, not biebermarks");
    check(format!("./none.toml --resume {run}"), 3, "./none.toml");
    check(format!("--resume {run} --set dop=2"), 3, "leave out --engine");
    check("--resume 2".to_owned() + "0000101-none", 4, &format!("did you mean {run}?"));
}

/// A run given by a path keeps its data beside itself, wherever the command is started.
#[test]
fn a_run_given_by_its_path_is_resumed_in_its_own_results_directory() {
    let place = Place::with(SHORT);
    let mut command = start(&place, "run ./tiny.toml --quiet", Whom::CommandAlone);
    wait_for_job_on(&place, ".work");
    kill_command(&mut command, Whom::CommandAlone);
    let run = place.only_run();
    let elsewhere = Place::with(SHORT);
    let path = place.results().join(&run);
    let path = path.to_str().expect("UTF-8");
    elsewhere.run(&format!("run --resume {path} --quiet")).expect(0, "by path");
    assert!(!elsewhere.results().exists(), "it made a results directory of its own");
    assert_complete(&place, &run, 1, "by path");
}

/// A file that was written just before the kill, and has no line yet, is not in the way of the one that replaces it.
#[test]
fn a_file_without_its_line_is_written_again() {
    let place = Place::with(SHORT);
    let mut command = start(&place, "run ./tiny.toml --quiet", Whom::CommandAlone);
    wait_for_job_on(&place, ".work");
    kill_command(&mut command, Whom::CommandAlone);
    nothing_outlives(&place, "a kill");
    let run = place.only_run();
    let directory = place.results().join(&run);
    let lines = fs::read(directory.join("trials.jsonl")).expect("reads");
    let header = lines.iter().position(|&byte| byte == b'\n').expect("a header") + 1;
    fs::write(directory.join("trials.jsonl"), &lines[..header]).expect("writes");
    fs::write(directory.join("host.json"), "{").expect("writes");
    let resumed = place.run(&format!("run --resume {run} --quiet")).expect(0, "resume");
    assert!(resumed.stdout.contains("kernel") && !resumed.stdout.contains("kernel unknown"));
    assert!(!directory.join("host-2.json").exists(), "the first one is in the record");
    assert_complete(&place, &run, 1, "after the loss of all lines");
}

/// While a command works on a run, a second one is refused and the first one is not disturbed; two runs side by side
/// share a dataset.
#[test]
fn one_run_has_one_command() {
    let place = Place::with(SHORT);
    let first = start(&place, "run ./tiny.toml --quiet", Whom::CommandAlone);
    let run = wait_for("a run", || place.runs().pop());
    for arguments in [format!("run --resume {run}"), format!("run --resume results/{run}")] {
        let second = place.run(&arguments).expect(6, "a second command");
        assert_eq!(second.stdout, "");
        assert!(second.stderr.contains("another dbdyno"), "{second:?}");
    }
    let third = place.run("run ./tiny.toml --quiet");
    Ended::of(first.wait_with_output().expect("it ends")).expect(0, "the first");
    third.expect(0, "a run beside it");
    for run in place.runs() {
        assert_complete(&place, &run, 1, "side by side");
    }
}
