//! A crash in a trial, as inside an engine's C library, ends that trial with its signal and its stack, and the run goes on.

mod common;

use common::{Place, cells};
use std::fs;
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

/// The trial that runs now, and the thread of its client, once it has one.
fn client_of_trial(place: &Place) -> (i32, i32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let numbers = |directory: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
    };
    while Instant::now() < deadline {
        for pid in numbers("/proc") {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_job = words.split(|&byte| byte == 0).nth(1) == Some(b"job");
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            if !is_job || cwd != place.path() {
                continue;
            }
            let is_client = |thread: &i32| {
                let name = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm"));
                name.is_ok_and(|name| name.trim() == "client-0")
            };
            if let Some(thread) = numbers(&format!("/proc/{pid}/task")).find(is_client) {
                return (pid, thread);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no trial was seen");
}

/// The signal comes from outside, because no library crashes on demand; that it hits the client's thread in the middle of
/// its work makes the stack the one that a crash there would have.
#[test]
fn a_crash_fails_one_trial_with_its_signal_and_its_stack() {
    let place = Place::with(TWICE);
    let run = place.command("run ./tiny.toml --quiet").spawn().expect("the command starts");
    let (trial, client) = client_of_trial(&place);
    // Within the warm-up or the measured time: requests go on for more than a second.
    std::thread::sleep(Duration::from_millis(300));
    // SAFETY: the call touches no memory. The process is a child of our child, which has not waited for it: it runs.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, trial, client, libc::SIGSEGV) };
    assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    let ended = common::Ended::of(run.wait_with_output().expect("it ends"));
    let ended = ended.expect(8, "one of two trials failed");
    let shown = place.run(&format!("show {} --json", place.only_run())).expect(0, "show").json();
    let (n, ends) = cells(&shown).into_values().next().expect("one cell");
    assert_eq!(n, 1, "the other trial counts");
    assert!(ends.contains(&"Failed".to_owned()) && ends.contains(&"Measured".to_owned()));
    let line = ended.stdout.lines().find(|line| line.contains("SIGSEGV"));
    let line = line.unwrap_or_else(|| panic!("the signal is named\n{ended:?}"));
    assert!(line.contains("its process was ended by signal 11 (SIGSEGV) in "), "{line}");
    assert!(line.contains("dbdyno_load::"), "the stack has names: {line}");
}
