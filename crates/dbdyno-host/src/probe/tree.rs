//! What a server of many processes used: its first processes and all their descendants, at step boundaries. A server
//! with another one behind it has two first processes.
//!
//! One pass over /proc finds the tree; each of its processes costs about 20 microseconds, or 30 milliseconds for a
//! thousand. Memory is a call of its own, because the kernel walks all page tables for it.

use super::process::{
    IoCounts, is_coarse, parse_io, parse_stat, parse_switches, process_clock_id, subtract_io,
};
use super::{Subtraction, ticks_to_ns};
use crate::process_tree::{ProcessEntry, all_processes, descendants};
use crate::{HostError, clock, kernel_text};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// One process of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeProcess {
    /// Process id.
    pub pid: u32,
    /// The first process that it descends from, or is.
    pub root_pid: u32,
    /// When it started, clock ticks after boot.
    pub start_time_ticks: u64,
    /// CPU time of all its threads, nanoseconds of its CPU clock.
    pub cpu_ns: u64,
    /// User mode part, clock ticks.
    pub user_ticks: u64,
    /// Kernel mode part, clock ticks.
    pub system_ticks: u64,
    /// CPU time of children that ended and were waited for, clock ticks.
    pub children_ticks: u64,
    /// Voluntary context switches of its living threads.
    pub voluntary: u64,
    /// Involuntary context switches of its living threads.
    pub involuntary: u64,
    /// I/O, that of children that were waited for included; `None` if the kernel does not show it to this user.
    pub io: Option<IoCounts>,
}

/// A process tree at one instant, or nearly so: processes are read one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSample {
    /// When reading began, nanoseconds of CLOCK_MONOTONIC.
    pub opened_ns: u64,
    /// When it ended.
    pub closed_ns: u64,
    /// Ticks per second.
    pub ticks_per_s: u64,
    /// Each first process followed by its descendants.
    pub processes: Vec<TreeProcess>,
}

/// What a tree used between two samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeUse {
    /// From the end of the first sample to the start of the second, nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of processes that lived at the second sample, nanoseconds. New ones count with all they used.
    pub cpu_ns: u64,
    /// CPU time of processes that ended in between, see [`difference`]; nanoseconds, from ticks.
    pub gone_cpu_ns: u64,
    /// User mode part of `cpu_ns`, clock ticks.
    pub user_ticks: u64,
    /// Kernel mode part of it.
    pub system_ticks: u64,
    /// Too few ticks for a division into user and kernel mode.
    pub coarse: bool,
    /// Voluntary context switches of threads that lived at the second sample.
    pub voluntary_switches: u64,
    /// Involuntary ones.
    pub involuntary_switches: u64,
    /// I/O; `None` if the kernel does not show it of every process.
    pub io: Option<IoCounts>,
    /// Processes at the second sample.
    pub processes: u64,
    /// Those of them that were not there at the first.
    pub new: u64,
    /// Those of the first sample that had ended.
    pub gone: u64,
    /// Names of counters that went back; they count as 0.
    pub went_back: Vec<&'static str>,
}

/// Memory of a tree, bytes. A page that several of its processes share counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeMemory {
    /// Anonymous memory: heaps and stacks. Pages still shared after fork are divided among the sharers.
    pub private_bytes: u64,
    /// Shared memory segments, such as PostgreSQL's buffers, as far as they were touched.
    pub shared_bytes: u64,
    /// Mapped files: programs, libraries, memory-mapped data.
    pub file_bytes: u64,
    /// Processes that were asked; those that ended meanwhile are missing.
    pub processes: u64,
}

impl TreeSample {
    /// Samples the trees below these processes now. Fails if one of them itself cannot be read; descendants that end
    /// meanwhile are left out, like those that ended before.
    pub fn read(root_pids: &[u32]) -> Result<TreeSample, HostError> {
        let opened_ns = clock::monotonic_ns();
        let ticks_per_s = clock::ticks_per_second()
            .ok_or_else(|| HostError::form(Path::new("/proc"), "length of a tick"))?;
        let all = all_processes();
        let mut processes = Vec::new();
        for &root_pid in root_pids {
            let directory = PathBuf::from(format!("/proc/{root_pid}"));
            let root = TreeProcess::read(root_pid, root_pid)
                .ok_or_else(|| HostError::form(&directory, "process that lives"))?;
            let below = descendants(&all, root_pid);
            let below = below.iter().filter_map(|entry| TreeProcess::read_listed(entry, root_pid));
            processes.push(root);
            processes.extend(below);
        }
        Ok(TreeSample { opened_ns, closed_ns: clock::monotonic_ns(), ticks_per_s, processes })
    }

    /// The processes that the others descend from.
    pub fn roots(&self) -> impl Iterator<Item = &TreeProcess> {
        self.processes.iter().filter(|process| process.pid == process.root_pid)
    }
}

impl TreeProcess {
    /// Only if the id still belongs to the process that the list showed.
    fn read_listed(entry: &ProcessEntry, root_pid: u32) -> Option<TreeProcess> {
        TreeProcess::read(entry.pid, root_pid)
            .filter(|process| process.start_time_ticks == entry.start_time_ticks)
    }

    fn read(pid: u32, root_pid: u32) -> Option<TreeProcess> {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let cpu_ns = clock::clock_ns(process_clock_id(pid).ok()?).ok()?;
        let text = kernel_text::read(&directory.join("stat")).ok()?;
        let stat = parse_stat(&text)?;
        let (voluntary, involuntary) = switches(pid, &directory, threads(&text)?)?;
        Some(TreeProcess {
            pid,
            root_pid,
            start_time_ticks: stat.start_time_ticks,
            cpu_ns,
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            children_ticks: stat.children_ticks,
            voluntary,
            involuntary,
            io: kernel_text::read_known(directory.join("io")).and_then(|text| parse_io(&text)),
        })
    }
}

/// Field 20 of /proc/PID/stat: how many threads.
fn threads(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(20 - 3)?.parse().ok()
}

/// The status of a process tells the switches of its first thread only; more threads are asked one by one.
fn switches(pid: u32, directory: &Path, threads: u64) -> Option<(u64, u64)> {
    let of = |path: PathBuf| parse_switches(pid, &kernel_text::read_known(path)?);
    if threads <= 1 {
        let one = of(directory.join("status"))?;
        return Some((one.voluntary, one.involuntary));
    }
    let tasks = std::fs::read_dir(directory.join("task")).ok()?.flatten();
    let each = tasks.filter_map(|entry| of(entry.path().join("status")));
    Some(each.fold((0, 0), |(a, b), one| (a + one.voluntary, b + one.involuntary)))
}

/// What trees used from `first` to `second`. Processes in both count with their difference, new ones with everything.
///
/// What a process used that ended in between is known only if its root waited for it: then all that it used in its life
/// is in the root's waited-for children. So the growth of those, less what the ended processes had used at the first
/// sample, is what they used in between. It counts processes that began and ended in between as well; it misses
/// children of children, unless their parents waited for them; it is exact to a tick each. I/O needs no such
/// correction but this: the root's own figures grow by all that an ended child did, so what it had done at the first
/// sample is subtracted. Fails if the samples are of different trees.
pub fn difference(first: &TreeSample, second: &TreeSample) -> Result<TreeUse, HostError> {
    if first.roots().next().is_none() || first.roots().count() != second.roots().count() {
        return Err(HostError::form(Path::new("/proc"), "root of a process tree"));
    }
    for (a, b) in first.roots().zip(second.roots()) {
        if (a.pid, a.start_time_ticks) != (b.pid, b.start_time_ticks) {
            return Err(HostError::DifferentProcess {
                first_pid: a.pid,
                first_start: a.start_time_ticks,
                second_pid: b.pid,
                second_start: b.start_time_ticks,
            });
        }
    }
    let mut subtract = Subtraction::default();
    let key = |process: &TreeProcess| (process.pid, process.start_time_ticks);
    let mut before: HashMap<_, _> = first.processes.iter().map(|one| (key(one), one)).collect();
    let mut used = TreeUse {
        elapsed_ns: subtract.of("time", first.closed_ns, second.opened_ns),
        cpu_ns: 0,
        gone_cpu_ns: 0,
        user_ticks: 0,
        system_ticks: 0,
        coarse: false,
        voluntary_switches: 0,
        involuntary_switches: 0,
        io: None,
        processes: second.processes.len() as u64,
        new: 0,
        gone: 0,
        went_back: Vec::new(),
    };
    for process in &second.processes {
        let old = before.remove(&key(process));
        used.new += u64::from(old.is_none());
        let of = |field: fn(&TreeProcess) -> u64| (old.map_or(0, field), field(process));
        let mut add = |sum: &mut u64, name, (old, new)| *sum += subtract.of(name, old, new);
        add(&mut used.cpu_ns, "cpu_ns", of(|one| one.cpu_ns));
        add(&mut used.user_ticks, "user_ticks", of(|one| one.user_ticks));
        add(&mut used.system_ticks, "system_ticks", of(|one| one.system_ticks));
        add(&mut used.voluntary_switches, "voluntary_switches", of(|one| one.voluntary));
        add(&mut used.involuntary_switches, "involuntary_switches", of(|one| one.involuntary));
    }
    used.gone = before.len() as u64;
    let had: u64 = before.values().map(|one| one.user_ticks + one.system_ticks).sum();
    let waited_for =
        |sample: &TreeSample| sample.roots().map(|root| root.children_ticks).sum::<u64>();
    let grown = subtract.of("children_ticks", waited_for(first), waited_for(second));
    used.gone_cpu_ns = ticks_to_ns(grown.saturating_sub(had), second.ticks_per_s);
    used.coarse = is_coarse(used.user_ticks, used.system_ticks);
    // What ended processes had done is now in the root's figures, and was in their own before: the sums agree.
    used.io = sum_io(&first.processes)
        .zip(sum_io(&second.processes))
        .map(|(a, b)| subtract_io(&mut subtract, &a, &b));
    used.went_back = subtract.went_back;
    Ok(used)
}

fn sum_io(processes: &[TreeProcess]) -> Option<IoCounts> {
    processes.iter().try_fold(IoCounts::default(), |sum, process| {
        let one = process.io?;
        Some(IoCounts {
            rchar: sum.rchar + one.rchar,
            wchar: sum.wchar + one.wchar,
            syscr: sum.syscr + one.syscr,
            syscw: sum.syscw + one.syscw,
            read_bytes: sum.read_bytes + one.read_bytes,
            write_bytes: sum.write_bytes + one.write_bytes,
            cancelled_write_bytes: sum.cancelled_write_bytes + one.cancelled_write_bytes,
        })
    })
}

/// Memory of the trees below these processes now. `None` if the kernel does not show it of one of the processes itself,
/// which it does not to other users, and before Linux 5.11 not in parts.
pub fn memory(root_pids: &[u32]) -> Option<TreeMemory> {
    let all = all_processes();
    let mut sum = TreeMemory::default();
    for &root_pid in root_pids {
        let root = process_memory(root_pid)?;
        let below = descendants(&all, root_pid);
        let below = below.iter().filter_map(|entry| process_memory(entry.pid));
        sum = std::iter::once(root).chain(below).fold(sum, |sum, one| TreeMemory {
            private_bytes: sum.private_bytes + one.private_bytes,
            shared_bytes: sum.shared_bytes + one.shared_bytes,
            file_bytes: sum.file_bytes + one.file_bytes,
            processes: sum.processes + 1,
        });
    }
    Some(sum)
}

/// Proportional parts: each page divided by how many have it, so that the sum over the tree counts it once.
fn process_memory(pid: u32) -> Option<TreeMemory> {
    let text = kernel_text::read_known(format!("/proc/{pid}/smaps_rollup"))?;
    let bytes = |key| kernel_text::field_bytes(&text, key);
    Some(TreeMemory {
        private_bytes: bytes("Pss_Anon")?,
        shared_bytes: bytes("Pss_Shmem")?,
        file_bytes: bytes("Pss_File")?,
        processes: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, cpu_ns: u64, ticks: u64, children_ticks: u64) -> TreeProcess {
        TreeProcess {
            pid,
            root_pid: 1,
            start_time_ticks: 1,
            cpu_ns,
            user_ticks: ticks,
            system_ticks: 0,
            children_ticks,
            voluntary: ticks,
            involuntary: 0,
            io: Some(IoCounts { wchar: cpu_ns, ..IoCounts::default() }),
        }
    }

    fn sample(at_ns: u64, processes: Vec<TreeProcess>) -> TreeSample {
        TreeSample { opened_ns: at_ns, closed_ns: at_ns + 1, ticks_per_s: 100, processes }
    }

    #[test]
    fn counts_those_who_stay_come_and_go() {
        // Shows each of the three cases, and that a sample of another tree is refused.
        let first =
            sample(0, vec![process(1, 10, 1, 5), process(2, 100, 7, 0), process(3, 0, 4, 0)]);
        let second =
            sample(100, vec![process(1, 30, 2, 25), process(3, 5, 4, 0), process(9, 8, 1, 0)]);
        let used = difference(&first, &second).unwrap();
        assert_eq!((used.elapsed_ns, used.cpu_ns), (99, 20 + 5 + 8));
        assert_eq!((used.new, used.gone, used.processes), (1, 1, 3));
        // Process 2 had 7 of the 20 ticks that the root's children grew by.
        assert_eq!(used.gone_cpu_ns, 13 * 10_000_000);
        assert_eq!(used.voluntary_switches, 2);
        let another = TreeProcess { root_pid: 2, ..process(2, 0, 0, 0) };
        assert!(difference(&first, &sample(1, vec![another])).is_err());
    }

    #[test]
    fn trees_side_by_side_are_added_up() {
        // Shows that what children of either root did counts, and that both trees must be the same in both samples.
        let other = |cpu_ns, children_ticks| TreeProcess {
            root_pid: 4,
            ..process(4, cpu_ns, 0, children_ticks)
        };
        let first = sample(0, vec![process(1, 10, 0, 1), other(100, 2)]);
        let second = sample(9, vec![process(1, 11, 0, 2), process(5, 7, 0, 0), other(120, 5)]);
        let used = difference(&first, &second).unwrap();
        assert_eq!((used.cpu_ns, used.gone_cpu_ns), (1 + 7 + 20, 4 * 10_000_000));
        assert_eq!(second.roots().map(|root| root.pid).collect::<Vec<_>>(), [1, 4]);
        assert!(difference(&first, &sample(9, vec![process(1, 11, 0, 2)])).is_err());
    }

    #[test]
    fn reads_this_process_and_its_children() {
        // Shows that a child is found below its parent, with its memory, and that no process is an error.
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id();
        let sample = TreeSample::read(&[own]).unwrap();
        assert!(sample.processes.iter().any(|one| one.pid == child.id()));
        assert_eq!(sample.roots().next().unwrap().pid, own);
        let used = difference(&sample, &TreeSample::read(&[own]).unwrap()).unwrap();
        assert!(used.processes >= 2 && used.cpu_ns > 0, "{used:?}");
        let memory = memory(&[own]).unwrap();
        assert!(memory.processes >= 2 && memory.private_bytes > 0, "{memory:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(TreeSample::read(&[own, u32::MAX]).is_err());
    }
}
