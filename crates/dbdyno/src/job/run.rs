//! The parent's side of a job: start the process, pass it the order, follow its reports, and end it if it hangs.
//!
//! Jobs are started from the command's main thread and killed by the kernel when that thread ends, so none outlives
//! the command, however it ends.

use super::{Order, Report, crash};
use crate::failure::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the parent looks whether there is a reason to end a job.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How a job ended.
#[derive(Debug)]
pub enum JobEnd {
    /// It said so itself: the last report, never a progress one.
    Reported(Report),
    /// It ended without a last report: killed, crashed, or ended by us. One sentence.
    Died(String),
}

/// What the parent does while a job goes on.
pub trait Watch {
    /// A progress report has come.
    fn progress(&mut self, report: Report);

    /// Asked several times a second: a reason to end the job now, if there is one.
    fn reason_to_end(&mut self) -> Option<String>;
}

/// Starts a job, hands each progress report to `watch`, and waits for its end, at most `limit`.
///
/// # Errors
/// Only if no process can be started.
pub fn run(order: &Order, limit: Duration, watch: &mut dyn Watch) -> Result<JobEnd, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::other(format!("cannot find this program again: {error}")))?;
    let mut child = Command::new(program)
        .arg("job")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::other(format!("cannot start a process for a job: {error}")))?;
    let text = serde_json::to_vec(order).map_err(Failure::json)?;
    // A child that is gone already shows in its exit status; that its pipe is closed is no news.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(&text));
    let (last, ended) = follow(&mut child, limit, watch);
    let status =
        child.wait().map_err(|error| Failure::other(format!("cannot wait for a job: {error}")))?;
    Ok(match (last, ended) {
        (Some(report), Ended::ByItself(_)) => JobEnd::Reported(report),
        (None, Ended::ByItself(words)) => {
            JobEnd::Died(format!("{}{}", describe(status), last_words(&words)))
        }
        (_, Ended::TookTooLong) => {
            JobEnd::Died(format!("it was ended after {} s without an end", limit.as_secs()))
        }
        (_, Ended::ByReason(reason)) => JobEnd::Died(reason),
    })
}

enum Ended {
    /// With what it wrote to standard error.
    ByItself(String),
    TookTooLong,
    ByReason(String),
}

/// Reads reports until the child closes its output.
fn follow(child: &mut Child, limit: Duration, watch: &mut dyn Watch) -> (Option<Report>, Ended) {
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return (None, Ended::ByItself(String::new()));
    };
    let (sender, reports) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // A torn line is what a killed child leaves.
            if let Ok(report) = serde_json::from_str::<Report>(&line)
                && sender.send(report).is_err()
            {
                break;
            }
        }
    });
    let words = thread::spawn(move || {
        let mut words = String::new();
        let _ = stderr.read_to_string(&mut words);
        words
    });
    let deadline = Instant::now() + limit;
    let mut last = None;
    let ended_early = loop {
        let wait = deadline.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
        match reports.recv_timeout(wait) {
            Ok(report @ (Report::Loading { .. } | Report::Rate(_))) => watch.progress(report),
            Ok(report) => last = Some(report),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let reason = watch.reason_to_end().map(Ended::ByReason);
        let too_long = || (Instant::now() >= deadline).then_some(Ended::TookTooLong);
        if let Some(ended) = reason.or_else(too_long) {
            // Kills by the child's own handle, which no other process can have taken over.
            let _ = child.kill();
            break Some(ended);
        }
    };
    let _ = reader.join();
    let words = words.join().unwrap_or_default();
    (last, ended_early.unwrap_or(Ended::ByItself(words)))
}

/// Where a crash happened or what was said last, as the end of a sentence.
fn last_words(words: &str) -> String {
    let last_line = || words.lines().rev().find(|line| !line.trim().is_empty());
    match (crash::stack(words), last_line()) {
        (Some(stack), _) => format!(" {stack}"),
        (None, Some(line)) => format!("; its last words: {line}"),
        (None, None) => String::new(),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name =
                crash::signal_name(signal).map_or(String::new(), |name| format!(" ({name})"));
            format!("its process was ended by signal {signal}{name}")
        }
        (None, Some(code)) => format!("its process ended with exit code {code}"),
        (None, None) => "its process ended".to_owned(),
    }
}
