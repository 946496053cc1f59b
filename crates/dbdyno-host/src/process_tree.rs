//! Parent and child processes: a child that cannot outlive its parent, and telling a process from a later one
//! that was given the same id.

use crate::probe::process::parse_stat;
use crate::{HostError, kernel_text};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

/// Asks the kernel to kill the calling process when its parent ends, and ends it at once, by the same signal, if the
/// parent is already another than `expected_parent_pid`: it may have ended before the request was made.
///
/// Call this first thing in the child. "Parent" is for the kernel the thread that started the child: start children
/// from a thread that lives as long as they should. The request is lost when a set-user-id program is executed or
/// the process changes its user. Fails only if the kernel refuses the request.
pub fn die_with_parent(expected_parent_pid: u32) -> Result<(), HostError> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory of ours.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
    if result != 0 {
        let source = io::Error::last_os_error();
        return Err(HostError::Call { call: "prctl", about: "PR_SET_PDEATHSIG".into(), source });
    }
    if std::os::unix::process::parent_id() != expected_parent_pid {
        // SAFETY: raise sends a signal to the calling thread's process; SIGKILL cannot be handled and ends it.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    Ok(())
}

/// When the process started, in clock ticks after boot: field 22 of /proc/PID/stat. Two processes with one id differ
/// in it. Fails if there is no such process.
pub fn process_start_time(pid: u32) -> Result<u64, HostError> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let stat = parse_stat(&kernel_text::read(&path)?)
        .ok_or_else(|| HostError::form(&path, "start time"))?;
    Ok(stat.start_time_ticks)
}

/// A process as the list of all processes shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Process id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// One letter: `Z` is a process that ended and was not waited for.
    pub state: char,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// When it started, clock ticks after boot.
    pub start_time_ticks: u64,
}

impl ProcessEntry {
    /// This process now, if there is one.
    pub fn of(pid: u32) -> Option<ProcessEntry> {
        Self::parse(pid, &kernel_text::read(&PathBuf::from(format!("/proc/{pid}/stat"))).ok()?)
    }

    fn parse(pid: u32, stat: &str) -> Option<ProcessEntry> {
        let start_time_ticks = parse_stat(stat)?.start_time_ticks;
        let (before, after) = stat.rsplit_once(')')?;
        let mut fields = after.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let name = before.split_once('(')?.1.to_owned();
        Some(ProcessEntry { pid, parent, state, name, start_time_ticks })
    }
}

/// All processes that this one can see. Those that end while the list is read may be missing.
pub fn all_processes() -> Vec<ProcessEntry> {
    let Ok(directory) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = directory.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(ProcessEntry::of).collect()
}

/// Those of `processes` that descend from `root`, parents before children, without `root` itself.
pub fn descendants(processes: &[ProcessEntry], root: u32) -> Vec<&ProcessEntry> {
    let mut children: HashMap<u32, Vec<&ProcessEntry>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found: Vec<&ProcessEntry> = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let more = children.remove(&process.pid).unwrap_or_default();
        found.extend(more);
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{self, Child, Command, Stdio};

    const ROLE: &str = "DBDYNO_TEST_EXPECTED_PARENT";

    /// Starts this test program again, with only `child_role` in it.
    fn start_child(expected_parent: u32) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process_tree::tests::child_role", "--nocapture", "--quiet"])
            .env(ROLE, expected_parent.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[test]
    fn child_role() {
        // Not a test of its own: what the children of the tests below run. Does nothing when run with the others.
        let Ok(parent) = std::env::var(ROLE) else { return };
        if parent == "between" {
            // The process in the middle: starts a child bound to itself, tells its id, and waits to be killed.
            let mut child = start_child(process::id());
            let answers = child.stderr.take().unwrap();
            // Kept open beyond `wait`, which would close it: the child ends when its input does.
            let _input = child.stdin.take();
            writeln!(io::stderr(), "child {}", child.id()).unwrap();
            BufReader::new(answers).read_line(&mut String::new()).unwrap();
            writeln!(io::stderr(), "bound").unwrap();
            child.wait().unwrap();
        } else {
            die_with_parent(parent.parse().unwrap()).unwrap();
            writeln!(io::stderr(), "alive").unwrap();
        }
        let _ = io::stdin().read(&mut [0]);
    }

    #[test]
    fn a_child_of_another_parent_ends_at_once() {
        // Shows that the right parent is accepted, and that a wrong one means death by SIGKILL.
        let mut child = start_child(process::id());
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "alive\n");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());

        let status = start_child(process::id() + 1).wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_child_dies_with_its_parent() {
        // Shows that SIGKILL of the process in the middle ends its child as well, within a second.
        let mut between = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process_tree::tests::child_role", "--nocapture", "--quiet"])
            .env(ROLE, "between")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(between.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let child: u32 = first.strip_prefix("child ").unwrap().parse().unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "bound");
        let start = process_start_time(child).unwrap();
        between.kill().unwrap();
        between.wait().unwrap();
        let deadline = crate::clock::monotonic_ns() + 1_000_000_000;
        let gone = || {
            let state = kernel_text::read_known(format!("/proc/{child}/stat"));
            let zombie = state.is_some_and(|text| text.contains(") Z "));
            zombie || process_start_time(child).ok() != Some(start)
        };
        while !gone() {
            assert!(crate::clock::monotonic_ns() < deadline, "child {child} outlived its parent");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn start_time_tells_processes_apart() {
        // Shows that the start time is stable, later for a later process, and absent for no process.
        let own = process_start_time(process::id()).unwrap();
        assert_eq!(process_start_time(process::id()).unwrap(), own);
        assert!(process_start_time(1).unwrap() <= own);
        assert!(process_start_time(u32::MAX).is_err());
    }
}
