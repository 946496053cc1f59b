//! All processes of one server: found, ended and reaped, and no others.
//!
//! A process belongs to it if its parents lead to the server, or if the server's nonce is in its environment. A backend
//! of PostgreSQL whose parent is dead has neither, because it wrote over its environment: it is known by its user, its
//! program file, its working directory and a start after the server's, all four, while its parent is no such process.

use super::record::{FileMark, Record, file_mark};
use crate::identity::{Environment, ProcessMark, environment_of};
use crate::system_calls::{reap, send_signal};
use dbdyno_host::clock::monotonic_ns;
use dbdyno_host::process_tree::{ProcessEntry, all_processes, descendants};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

/// How long processes may take to die of SIGKILL: the kernel may have to wait for a disk.
const DEATH_LIMIT_NS: u64 = 20_000_000_000;
const PAUSE: Duration = Duration::from_millis(2);

/// Servers whose end is awaited by their own handle, so that nobody else takes their exit status.
static AWAITED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// From now on this child's exit status belongs to its handle.
pub(crate) fn await_child(pid: u32) {
    AWAITED.lock().unwrap_or_else(|error| error.into_inner()).insert(pid);
}

/// The handle has taken the exit status.
pub(crate) fn forget_child(pid: u32) {
    AWAITED.lock().unwrap_or_else(|error| error.into_inner()).remove(&pid);
}

fn is_awaited(pid: u32) -> bool {
    AWAITED.lock().unwrap_or_else(|error| error.into_inner()).contains(&pid)
}

/// The processes of a server that are there now, the server itself first if it is among them.
pub(crate) fn members(record: &Record) -> Vec<ProcessMark> {
    let all = all_processes();
    let mark =
        |entry: &ProcessEntry| ProcessMark { pid: entry.pid, start_time: entry.start_time_ticks };
    let root = all.iter().find(|entry| mark(entry) == record.server);
    let mut found: Vec<&ProcessEntry> = root.into_iter().collect();
    let orphans = all.iter().filter(|entry| {
        entry.pid != record.server.pid
            && entry.start_time_ticks >= record.server.start_time
            && is_marked(record, entry)
    });
    found.extend(orphans);
    // Descendants of each: a grandchild may have an environment of its own.
    let mut marks: Vec<ProcessMark> = Vec::new();
    for entry in found {
        let own = std::iter::once(entry).chain(descendants(&all, entry.pid));
        for mark in own.map(mark) {
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }
    marks
}

/// Whether a process that is not below the server is still one of its own.
fn is_marked(record: &Record, entry: &ProcessEntry) -> bool {
    let directory = PathBuf::from(format!("/proc/{}", entry.pid));
    if uid_of(&directory) != Some(record.identity.uid) || entry.state == 'Z' {
        return false;
    }
    match environment_of(entry.pid, &record.nonce) {
        Environment::HasNonce => true,
        Environment::IsAnother => false,
        Environment::Gone => {
            let within = file_mark(&directory.join("cwd"));
            let parent = PathBuf::from(format!("/proc/{}/exe", entry.parent));
            program(&directory) == Some(record.program_mark)
                && within.is_some_and(|mark| record.work_marks.contains(&mark))
                && file_mark(&parent) != Some(record.program_mark)
        }
    }
}

fn program(directory: &Path) -> Option<FileMark> {
    file_mark(&directory.join("exe"))
}

fn uid_of(directory: &Path) -> Option<u32> {
    fs::metadata(directory).ok().map(|facts| facts.uid())
}

/// Ends every process of a server at once and reaps those that are children of this one. Returns how many it ended, and
/// who would not die.
pub(crate) fn end_all(record: &Record) -> (usize, Vec<u32>) {
    let mut ended: BTreeSet<u32> = BTreeSet::new();
    // A process that is dying has no environment and no directory any more: whoever was seen once is waited for.
    let mut seen: Vec<ProcessMark> = Vec::new();
    let deadline = monotonic_ns() + DEATH_LIMIT_NS;
    loop {
        for mark in members(record).into_iter().chain(adopted(record)) {
            if !seen.contains(&mark) {
                seen.push(mark);
            }
        }
        for mark in &seen {
            // Asked again right before, so that an id that passed to somebody else in between is spared.
            let lives = entry_of(*mark).is_some_and(|entry| entry.state != 'Z');
            if lives && send_signal(mark.pid as i32, libc::SIGKILL).is_ok() {
                ended.insert(mark.pid);
            } else if !is_awaited(mark.pid) {
                reap(mark.pid);
            }
        }
        seen.retain(|mark| !is_done(*mark));
        if seen.is_empty() {
            return (ended.len(), Vec::new());
        }
        if monotonic_ns() > deadline {
            return (ended.len(), seen.iter().map(|mark| mark.pid).collect());
        }
        sleep(PAUSE);
    }
}

fn entry_of(mark: ProcessMark) -> Option<ProcessEntry> {
    ProcessEntry::of(mark.pid).filter(|entry| entry.start_time_ticks == mark.start_time)
}

/// Gone, or a zombie that somebody else has to reap.
fn is_done(mark: ProcessMark) -> bool {
    entry_of(mark).is_none_or(|entry| {
        entry.state == 'Z' && (is_awaited(mark.pid) || entry.parent != std::process::id())
    })
}

/// Dead and dying processes that this one got from a server that died before them. All that is left of them is a name
/// and a start time, which is enough where the worst mistake is to reap an orphan of another server.
fn adopted(record: &Record) -> Vec<ProcessMark> {
    let name = record.process_name();
    let is_one = |entry: &ProcessEntry| {
        entry.parent == std::process::id()
            && entry.start_time_ticks >= record.server.start_time
            && entry.name == name
            && !is_awaited(entry.pid)
            && (entry.state == 'Z' || fs::read_link(format!("/proc/{}/exe", entry.pid)).is_err())
    };
    let all = all_processes().into_iter().filter(is_one);
    all.map(|entry| ProcessMark { pid: entry.pid, start_time: entry.start_time_ticks }).collect()
}

impl Record {
    /// What the kernel calls the server's processes: the program's name, cut.
    fn process_name(&self) -> String {
        self.program.rsplit('/').next().unwrap_or_default().chars().take(15).collect()
    }
}
