//! What one process used: CPU time, context switches, I/O and memory, at exact step boundaries.
//!
//! CPU time comes from the process's own CPU clock (all its threads, ended ones too); only its division into user
//! and kernel mode comes from ticks, and has an error. A sample reads its counters at both of its ends, and a
//! difference runs from the end of the first to the start of the second: the cost of sampling is in neither.

use super::{Subtraction, ticks_to_ns};
use crate::{HostError, clock, kernel_text};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

mod parse;
mod split;

pub(crate) use parse::{Stat, io as parse_io, parse_stat, switches as parse_switches};
pub use split::{COARSE_TICKS, is_coarse, split_error};

/// I/O of a process since its start, from /proc/PID/io; children that were waited for are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoCounts {
    /// Bytes that read calls returned, from cache or device.
    pub rchar: u64,
    /// Bytes that write calls took.
    pub wchar: u64,
    /// Read calls.
    pub syscr: u64,
    /// Write calls.
    pub syscw: u64,
    /// Bytes that had to come from a device.
    pub read_bytes: u64,
    /// Bytes that were made dirty, to be written to a device.
    pub write_bytes: u64,
    /// Bytes of `write_bytes` that were dropped before they were written.
    pub cancelled_write_bytes: u64,
}

/// The counters that are cheap enough to be read at both ends of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// When, nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// CPU time of the process itself since its start, nanoseconds of its CPU clock.
    pub cpu_ns: u64,
    /// The user mode part of it as the kernel divides it, clock ticks.
    pub user_ticks: u64,
    /// The kernel mode part of it, clock ticks.
    pub system_ticks: u64,
    /// CPU time of children that ended and were waited for (cutime + cstime), clock ticks.
    pub children_ticks: u64,
    /// I/O; `None` if the kernel does not show it to this user.
    pub io: Option<IoCounts>,
}

/// Context switches of one thread since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSwitches {
    /// Thread id.
    pub tid: u32,
    /// The thread waited for something.
    pub voluntary: u64,
    /// The thread was made to wait for others.
    pub involuntary: u64,
}

/// A process at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSample {
    /// Process id.
    pub pid: u32,
    /// When the process started, clock ticks after boot; tells a reused id apart.
    pub start_time_ticks: u64,
    /// The length of a tick, as ticks per second.
    pub ticks_per_s: u64,
    /// Counters before anything else was read.
    pub opened: Counters,
    /// Counters after everything else was read.
    pub closed: Counters,
    /// Context switches of each living thread.
    pub tasks: Vec<TaskSwitches>,
    /// Resident memory, bytes; `None` for a process that has ended but was not waited for.
    pub rss_bytes: Option<u64>,
    /// Highest resident memory since the start, bytes.
    pub peak_rss_bytes: Option<u64>,
}

/// What a process used between two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessUse {
    /// From the end of the first sample to the start of the second, nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the process itself, ended threads included, nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of children waited for in between, nanoseconds. All that they used in their whole life.
    pub children_cpu_ns: u64,
    /// Clock ticks in user mode.
    pub user_ticks: u64,
    /// Clock ticks in kernel mode.
    pub system_ticks: u64,
    /// User mode share of `cpu_ns`, from ticks; `None` if there was no tick.
    pub user_share: Option<f64>,
    /// Standard error of `user_share`, see [`split_error`].
    pub user_share_error: f64,
    /// Too few ticks for a division into user and kernel mode, see [`is_coarse`].
    pub coarse: bool,
    /// Voluntary context switches of threads that lived at the second sample.
    pub voluntary_switches: u64,
    /// Involuntary context switches of threads that lived at the second sample.
    pub involuntary_switches: u64,
    /// Threads of the first sample that had ended by the second: their switches in between are not counted.
    pub threads_ended: u64,
    /// I/O; `None` if the kernel did not show it at both samples.
    pub io: Option<IoCounts>,
    /// Resident memory at the second sample, bytes.
    pub rss_bytes: Option<u64>,
    /// Highest resident memory from the start of the process to the second sample, bytes.
    pub peak_rss_bytes: Option<u64>,
    /// Names of counters that went back; they count as 0.
    pub went_back: Vec<&'static str>,
}

impl ProcessUse {
    /// CPU time in user mode: `cpu_ns` times the user share; nanoseconds.
    pub fn user_cpu_ns(&self) -> Option<f64> {
        Some(self.user_share? * self.cpu_ns as f64)
    }

    /// Context switches of both kinds.
    pub fn context_switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }
}

impl ProcessSample {
    /// Samples a process now. Costs about 20 microseconds and as much again for each thread. Fails if the process
    /// does not exist, or its /proc files cannot be read.
    pub fn read(pid: u32) -> Result<Self, HostError> {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let ticks_per_s = clock::ticks_per_second()
            .ok_or_else(|| HostError::form(&directory, "length of a tick"))?;
        let place = Place { pid, clock_id: process_clock_id(pid)?, directory };
        let (opened, start_time_ticks) = Counters::opening(&place)?;
        let tasks = read_tasks(&place.directory)?;
        let status = kernel_text::read(&place.directory.join("status"))?;
        let closed = Counters::closing(&place)?;
        Ok(Self {
            pid,
            start_time_ticks,
            ticks_per_s,
            opened,
            closed,
            tasks,
            rss_bytes: kernel_text::field_bytes(&status, "VmRSS"),
            peak_rss_bytes: kernel_text::field_bytes(&status, "VmHWM"),
        })
    }
}

impl Counters {
    /// Reads the clock first and the files after it, so that the reading itself lies inside the sample.
    fn opening(place: &Place) -> Result<(Self, u64), HostError> {
        let (at_ns, cpu_ns) = place.times()?;
        let io = place.io();
        let stat = place.stat()?;
        Ok((Self::new(at_ns, cpu_ns, stat, io), stat.start_time_ticks))
    }

    /// The same in the opposite order. Only the last reading of I/O falls outside: two read calls.
    fn closing(place: &Place) -> Result<Self, HostError> {
        let stat = place.stat()?;
        let io = place.io();
        let (at_ns, cpu_ns) = place.times()?;
        Ok(Self::new(at_ns, cpu_ns, stat, io))
    }

    fn new(at_ns: u64, cpu_ns: u64, stat: Stat, io: Option<IoCounts>) -> Self {
        let Stat { user_ticks, system_ticks, children_ticks, .. } = stat;
        Self { at_ns, cpu_ns, user_ticks, system_ticks, children_ticks, io }
    }
}

/// Where the counters of one process are read.
struct Place {
    pid: u32,
    clock_id: libc::clockid_t,
    directory: PathBuf,
}

impl Place {
    fn times(&self) -> Result<(u64, u64), HostError> {
        let cpu_ns = clock::clock_ns(self.clock_id).map_err(|source| {
            call_error("clock_gettime", format!("process {}", self.pid), source)
        })?;
        Ok((clock::monotonic_ns(), cpu_ns))
    }

    fn stat(&self) -> Result<Stat, HostError> {
        let path = self.directory.join("stat");
        parse_stat(&kernel_text::read(&path)?)
            .ok_or_else(|| HostError::form(&path, "times of the process"))
    }

    /// A process may hide its I/O from other users; that is no reason to lose the rest.
    fn io(&self) -> Option<IoCounts> {
        parse::io(&kernel_text::read_known(self.directory.join("io"))?)
    }
}

/// Context switches of every thread that still lives when its turn comes.
fn read_tasks(directory: &Path) -> Result<Vec<TaskSwitches>, HostError> {
    let path = directory.join("task");
    let failed = |source| HostError::file("list the threads in", &path, source);
    let mut tasks = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A thread that ended since the listing has no status to read, and is left out like one that ended before.
        if let Some(status) = kernel_text::read_known(entry.path().join("status")) {
            tasks.push(
                parse::switches(tid, &status)
                    .ok_or_else(|| HostError::form(&path, "context switches of a thread"))?,
            );
        }
    }
    Ok(tasks)
}

/// What a process used from sample `first` to sample `second`. Fails if they are of different processes.
pub fn difference(first: &ProcessSample, second: &ProcessSample) -> Result<ProcessUse, HostError> {
    if (first.pid, first.start_time_ticks) != (second.pid, second.start_time_ticks) {
        return Err(HostError::DifferentProcess {
            first_pid: first.pid,
            first_start: first.start_time_ticks,
            second_pid: second.pid,
            second_start: second.start_time_ticks,
        });
    }
    let mut subtract = Subtraction::default();
    let (a, b) = (&first.closed, &second.opened);
    let user_ticks = subtract.of("user_ticks", a.user_ticks, b.user_ticks);
    let system_ticks = subtract.of("system_ticks", a.system_ticks, b.system_ticks);
    let all_ticks = user_ticks + system_ticks;
    let children = subtract.of("children_ticks", a.children_ticks, b.children_ticks);
    let switches = subtract_switches(&mut subtract, &first.tasks, &second.tasks);
    Ok(ProcessUse {
        elapsed_ns: subtract.of("time", a.at_ns, b.at_ns),
        cpu_ns: subtract.of("cpu_ns", a.cpu_ns, b.cpu_ns),
        children_cpu_ns: ticks_to_ns(children, second.ticks_per_s),
        user_ticks,
        system_ticks,
        user_share: (all_ticks > 0).then(|| user_ticks as f64 / all_ticks as f64),
        user_share_error: split_error(user_ticks, system_ticks),
        coarse: is_coarse(user_ticks, system_ticks),
        voluntary_switches: switches.voluntary,
        involuntary_switches: switches.involuntary,
        threads_ended: switches.threads_ended,
        io: a.io.zip(b.io).map(|(a, b)| subtract_io(&mut subtract, &a, &b)),
        rss_bytes: second.rss_bytes,
        peak_rss_bytes: second.peak_rss_bytes,
        went_back: subtract.went_back,
    })
}

struct Switches {
    voluntary: u64,
    involuntary: u64,
    threads_ended: u64,
}

/// Thread by thread, so that a thread that ended does not hide what the others did. A thread that is only in
/// `second` began in between and counts from zero.
fn subtract_switches(
    subtract: &mut Subtraction,
    first: &[TaskSwitches],
    second: &[TaskSwitches],
) -> Switches {
    let mut before: HashMap<u32, &TaskSwitches> =
        first.iter().map(|task| (task.tid, task)).collect();
    let (mut voluntary, mut involuntary) = (0, 0);
    for task in second {
        let old = before.remove(&task.tid);
        let (old_voluntary, old_involuntary) =
            old.map_or((0, 0), |old| (old.voluntary, old.involuntary));
        voluntary += subtract.of("voluntary_switches", old_voluntary, task.voluntary);
        involuntary += subtract.of("involuntary_switches", old_involuntary, task.involuntary);
    }
    Switches { voluntary, involuntary, threads_ended: before.len() as u64 }
}

pub(super) fn subtract_io(subtract: &mut Subtraction, a: &IoCounts, b: &IoCounts) -> IoCounts {
    IoCounts {
        rchar: subtract.of("rchar", a.rchar, b.rchar),
        wchar: subtract.of("wchar", a.wchar, b.wchar),
        syscr: subtract.of("syscr", a.syscr, b.syscr),
        syscw: subtract.of("syscw", a.syscw, b.syscw),
        read_bytes: subtract.of("read_bytes", a.read_bytes, b.read_bytes),
        write_bytes: subtract.of("write_bytes", a.write_bytes, b.write_bytes),
        cancelled_write_bytes: subtract.of(
            "cancelled_write_bytes",
            a.cancelled_write_bytes,
            b.cancelled_write_bytes,
        ),
    }
}

/// CPU time of a thread of this process, nanoseconds since the thread's start. Fails if `tid` is no living thread
/// of the calling process.
pub fn thread_cpu_ns(tid: u32) -> Result<u64, HostError> {
    // make_thread_cpuclock in the kernel's include/linux/posix-timers.h: ((~tid) << 3) | clock, where the clock is
    // CPUCLOCK_SCHED (2) with CPUCLOCK_PERTHREAD_MASK (4), both from include/linux/posix-timers_types.h.
    let clock_id = (!(tid as libc::clockid_t) << 3) | 4 | 2;
    clock::clock_ns(clock_id)
        .map_err(|source| call_error("clock_gettime", format!("thread {tid}"), source))
}

/// Id of the calling thread, as /proc/self/task names it.
pub fn current_tid() -> u32 {
    // SAFETY: gettid takes nothing, touches no memory and cannot fail.
    unsafe { libc::gettid() as u32 }
}

pub(super) fn process_clock_id(pid: u32) -> Result<libc::clockid_t, HostError> {
    let mut id: libc::clockid_t = 0;
    // SAFETY: `id` is a valid, writable clock id for the whole call.
    let error = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut id) };
    if error != 0 {
        let source = io::Error::from_raw_os_error(error);
        return Err(call_error("clock_getcpuclockid", format!("process {pid}"), source));
    }
    Ok(id)
}

fn call_error(call: &'static str, about: String, source: io::Error) -> HostError {
    HostError::Call { call, about, source }
}

#[cfg(test)]
mod tests;
