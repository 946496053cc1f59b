//! A crash inside an engine's C library ends one trial, with its signal and its stack, and the run goes on.

mod common;

use common::{Place, cells};
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// One cell of LMDB measured twice, long enough to do something to it.
const TWICE: &str = "\
name = 'tiny'
question = 'What if the library crashes?'
workload = 'hot_row'
engines = ['lmdb']
[vary]
dop = [1]
[hold]
rows = 20000
keys = 'uniform'
warmup_s = 0.1
measured_s = 1.5
device_profile = false
[repeat]
count = 2
";

/// The database of the trial that runs now.
fn open_database(place: &Place) -> PathBuf {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let entries = fs::read_dir("/proc").expect("there is a /proc").flatten();
        for entry in entries {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let is_job = words.split(|&byte| byte == 0).nth(1) == Some(b"job");
            let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            if !is_job || cwd != place.path() {
                continue;
            }
            let open = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
            let mut files = open.filter_map(|file| fs::read_link(file.path()).ok());
            let of_trial = |file: &PathBuf| {
                let text = file.to_string_lossy();
                text.ends_with("data.mdb") && text.contains(".work")
            };
            if let Some(file) = files.find(of_trial) {
                return file;
            }
        }
        assert!(Instant::now() < deadline, "no trial of LMDB was seen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The library reads through its memory map beyond the end of a file that was cut short: the kernel sends SIGBUS.
#[test]
fn a_crash_in_a_library_fails_one_trial_with_its_stack() {
    let place = Place::with(TWICE);
    let run = place.command("run ./tiny.toml --quiet").spawn().expect("the command starts");
    let database = open_database(&place);
    // Within the warm-up or the measured time: the file is open, and requests go on for more than a second.
    std::thread::sleep(Duration::from_millis(300));
    let file = File::options().write(true).open(&database).expect("opens");
    file.set_len(4096).expect("cuts the file short");
    let ended = common::Ended::of(run.wait_with_output().expect("it ends"));
    let ended = ended.expect(8, "one of two trials failed");
    let shown = place.run(&format!("show {} --json", place.only_run())).expect(0, "show").json();
    let (n, ends) = cells(&shown).into_values().next().expect("one cell");
    assert_eq!(n, 1, "the other trial counts");
    assert!(ends.contains(&"Failed".to_owned()) && ends.contains(&"Measured".to_owned()));
    let line = ended.stdout.lines().find(|line| line.contains("SIGBUS"));
    let line = line.unwrap_or_else(|| panic!("the signal is named\n{ended:?}"));
    assert!(line.contains("its process was ended by signal 7 (SIGBUS) in "), "{line}");
    assert!(line.contains("mdb_"), "the stack names the library's functions: {line}");
}
