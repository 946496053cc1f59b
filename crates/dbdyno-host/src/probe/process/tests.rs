//! Tests of process samples on living processes and on made-up samples.

use super::*;
use std::process::{self, Command};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Keeps the calling thread on the CPU until its own CPU clock has advanced by this much.
fn burn(cpu_ns: u64) {
    let tid = current_tid();
    let start = thread_cpu_ns(tid).unwrap();
    while thread_cpu_ns(tid).unwrap() - start < cpu_ns {}
}

#[test]
fn counts_cpu_of_ended_threads_and_children() {
    // Shows that a thread that ended between the samples, and a child waited for, are in the difference.
    let first = ProcessSample::read(process::id()).unwrap();
    thread::spawn(|| burn(30_000_000)).join().unwrap();
    let script = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    let second = ProcessSample::read(process::id()).unwrap();
    let used = difference(&first, &second).unwrap();
    assert!(used.cpu_ns >= 30_000_000, "{used:?}");
    assert!(used.children_cpu_ns > 0, "{used:?}");
    assert!(used.elapsed_ns > 0 && used.rss_bytes.unwrap() > 0, "{used:?}");
    assert!(used.peak_rss_bytes.unwrap() > 0, "{used:?}");
    assert!(second.opened.cpu_ns <= second.closed.cpu_ns);
}

#[test]
fn counts_switches_of_a_sleeping_thread() {
    // Shows that each sleep of a living thread is at least one voluntary switch.
    let (finished, wait) = mpsc::channel();
    let (release, hold) = mpsc::channel::<()>();
    let first = ProcessSample::read(process::id()).unwrap();
    let sleeper = thread::spawn(move || {
        for _ in 0..20 {
            thread::sleep(Duration::from_micros(200));
        }
        finished.send(current_tid()).unwrap();
        let _ = hold.recv();
    });
    let tid = wait.recv().unwrap();
    let second = ProcessSample::read(process::id()).unwrap();
    let task = second.tasks.iter().find(|task| task.tid == tid).unwrap();
    assert!(task.voluntary >= 20, "{task:?}");
    let used = difference(&first, &second).unwrap();
    assert!(used.voluntary_switches >= 20 && used.context_switches() >= 20, "{used:?}");
    assert!(thread_cpu_ns(tid).unwrap() > 0);
    drop(release);
    sleeper.join().unwrap();
    // The kernel may need a moment more than the join to forget the thread.
    let deadline = clock::monotonic_ns() + 5_000_000_000;
    while thread_cpu_ns(tid).is_ok() {
        assert!(clock::monotonic_ns() < deadline, "thread {tid} still has a clock");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn reads_another_process_and_tells_two_apart() {
    // Shows that a child can be sampled, and that samples of two processes are not subtracted.
    let mut child = Command::new("sleep").arg("30").spawn().unwrap();
    let sample = ProcessSample::read(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let sample = sample.unwrap();
    assert_eq!(sample.tasks.len(), 1);
    let own = ProcessSample::read(process::id()).unwrap();
    let error = difference(&own, &sample).unwrap_err().to_string();
    assert!(error.contains("different processes"), "{error}");
    assert!(ProcessSample::read(child.id()).is_err());
}

#[test]
fn subtracts_inside_the_samples_and_flags_what_went_back() {
    // Shows that the use runs from `closed` to `opened`, that ended and new threads are told apart, and flags.
    let counters = |at_ns, cpu_ns, ticks, io| Counters {
        at_ns,
        cpu_ns,
        user_ticks: ticks,
        system_ticks: ticks,
        children_ticks: 3,
        io,
    };
    let io = |rchar| Some(IoCounts { rchar, ..IoCounts::default() });
    let task = |tid, voluntary| TaskSwitches { tid, voluntary, involuntary: 1 };
    let first = ProcessSample {
        pid: 7,
        start_time_ticks: 1,
        ticks_per_s: 100,
        opened: counters(0, 0, 0, None),
        closed: counters(100, 1_000, 10, io(50)),
        tasks: vec![task(1, 10), task(2, 500), task(3, 9)],
        rss_bytes: Some(1),
        peak_rss_bytes: Some(1),
    };
    let mut second = first.clone();
    second.opened = counters(400, 3_000, 110, io(40));
    second.closed = counters(900, 9_000, 900, io(90));
    second.tasks = vec![task(1, 14), task(4, 6), task(3, 8)];
    let used = difference(&first, &second).unwrap();
    assert_eq!((used.elapsed_ns, used.cpu_ns, used.children_cpu_ns), (300, 2_000, 0));
    assert_eq!((used.user_ticks, used.system_ticks), (100, 100));
    assert_eq!((used.user_share, used.coarse), (Some(0.5), false));
    assert_eq!(used.user_cpu_ns(), Some(1_000.0));
    assert_eq!((used.voluntary_switches, used.involuntary_switches), (10, 1));
    assert_eq!(used.threads_ended, 1);
    assert_eq!(used.io, Some(IoCounts::default()));
    assert_eq!(used.went_back, ["voluntary_switches", "rchar"]);
    second.start_time_ticks = 2;
    assert!(difference(&first, &second).is_err());
}
