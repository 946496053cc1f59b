//! What about this host would spoil a measurement, each with one sentence of advice.
//!
//! Pure: facts in, checks out. A fact that is not known is never called good. To add a check, write a function
//! below and put it into the list in [`checks`].

use crate::cgroup::Limit;
use crate::facts::HostFacts;
use crate::mount;
use crate::probe::cpu::HostUse;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing to do.
    Ok,
    /// Results can be had, but would be better or surer if the advice were followed.
    Advice,
    /// A run should not start.
    Stop,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name of the check, in words joined by underscores; stays the same.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found, with its unit.
    pub found: String,
    /// One sentence on what to do; empty if there is nothing to do.
    pub advice: String,
}

/// A clock reading that costs more than this is a system call, not a reading in user space: the clock sources that
/// the vDSO can read cost 15 to 50 ns.
pub const SLOW_CLOCK_READ_NS: f64 = 100.0;
/// Below this much free space a run should not start, bytes.
pub const DISK_FREE_STOP_BYTES: u64 = 256 << 20;
/// Below this much free space a larger dataset will not fit, bytes.
pub const DISK_FREE_ADVICE_BYTES: u64 = 2 << 30;
/// From here up read-ahead disturbs random reads (document 002 of the seeds), KiB.
pub const READ_AHEAD_ADVICE_KB: u64 = 1024;
/// 1,024 clients with a connection each, and some files of the program itself.
pub const OPEN_FILES_ADVICE: u64 = 1100;
/// A run on a host that has this part of its cores busy already shares them with something.
pub const LOAD_PER_CORE_ADVICE: f64 = 0.25;
/// From here up the hypervisor takes away more than the differences that a run looks for.
pub const STEAL_SHARE_ADVICE: f64 = 0.01;
/// Up to this kernel.perf_event_paranoid an unprivileged user may count and sample its own processes in user and
/// kernel mode (the kernel's Documentation/admin-guide/sysctl/kernel.rst).
pub const PERF_EVENT_PARANOID_FREE: i64 = 1;

/// Every check, in the order of the list below. `recent` is what the host used in a short interval just before, and
/// is asked for steal only.
pub fn checks(facts: &HostFacts, recent: Option<&HostUse>) -> Vec<Check> {
    vec![
        cores(facts),
        load_average(facts),
        steal(recent),
        cpu_quota(facts),
        cpu_governor(facts),
        clock_source(facts),
        memory_limit(facts),
        swap(facts),
        transparent_hugepages(facts),
        data_directory(facts),
        data_filesystem(facts),
        disk_free(facts),
        read_ahead(facts),
        open_files(facts),
        perf_events(facts),
    ]
}

/// The worst status of all; `Ok` if there is no check.
pub fn worst(checks: &[Check]) -> Status {
    checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok)
}

fn fine(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, status: Status::Ok, found: found.into(), advice: String::new() }
}

fn advise(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { name, status: Status::Advice, found: found.into(), advice: advice.into() }
}

fn stop(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { name, status: Status::Stop, found: found.into(), advice: advice.into() }
}

fn unknown(name: &'static str) -> Check {
    advise(name, "unknown", "This host does not tell; find out in another way and note it down.")
}

fn cores(facts: &HostFacts) -> Check {
    let name = "cores";
    let counts = [facts.cores_online, facts.cores_allowed];
    let Some(usable) = counts.into_iter().flatten().min() else { return unknown(name) };
    let found = match facts.cores_online {
        Some(online) if online != usable => format!("{usable} usable of {online} online"),
        _ => format!("{usable} usable"),
    };
    if usable > 1 {
        return fine(name, found);
    }
    let advice = "Use a host with two cores or more: on one, clients, engine and this program run in turns and \
                  contention cannot be seen.";
    advise(name, found, advice)
}

fn load_average(facts: &HostFacts) -> Check {
    let name = "load_average";
    let (Some([load, ..]), Some(cores)) = (facts.load_average, facts.cores_usable()) else {
        return unknown(name);
    };
    let found = format!("{load:.2} over the last minute on {cores} cores");
    if load <= LOAD_PER_CORE_ADVICE * cores {
        return fine(name, found);
    }
    let advice = "Stop other programs and wait a minute: they take CPU time, caches and disk from what is measured.";
    advise(name, found, advice)
}

fn steal(recent: Option<&HostUse>) -> Check {
    let name = "steal";
    let Some(share) = recent.and_then(|used| used.steal_share) else { return unknown(name) };
    let found = format!("{:.1} % of CPU time taken by the hypervisor", share * 100.0);
    if share < STEAL_SHARE_ADVICE {
        return fine(name, found);
    }
    let advice = "Use a host with cores of its own, or repeat more often: other virtual machines slow this one down.";
    advise(name, found, advice)
}

fn cpu_quota(facts: &HostFacts) -> Check {
    let name = "cpu_quota";
    let quota = match facts.cgroup_cpu_limit_cores {
        None => return unknown(name),
        Some(Limit::Unlimited) => return fine(name, "unlimited"),
        Some(Limit::At(quota)) => quota,
    };
    let found = format!("{quota:.2} cores");
    match facts.cores_online {
        Some(online) if quota >= online as f64 => fine(name, found),
        _ => {
            let advice = "Raise or remove the CPU quota of the control group (or container): a process that has used \
                          it up stands still until the next period, which shows as stalls.";
            advise(name, found, advice)
        }
    }
}

fn cpu_governor(facts: &HostFacts) -> Check {
    let name = "cpu_governor";
    match facts.cpu_governor.as_deref() {
        Some("performance") => fine(name, "performance"),
        Some(other) => advise(
            name,
            other,
            "Set the governor of all cores to performance (`cpupower frequency-set -g performance`): with others \
             the clock rate follows the load.",
        ),
        None if facts.hypervisor == Some(true) => {
            fine(name, "none; the host of this virtual machine sets the frequency")
        }
        None => unknown(name),
    }
}

fn clock_source(facts: &HostFacts) -> Check {
    let name = "clock_source";
    let (Some(source), Some(cost)) = (facts.clock_source.as_deref(), facts.clock_read_ns) else {
        return unknown(name);
    };
    let found = format!("{source}, {cost:.0} ns per reading");
    // kvm-clock, arch_sys_counter and others are as good as tsc where they are read in user space.
    if cost <= SLOW_CLOCK_READ_NS {
        return fine(name, found);
    }
    let advice = "Choose the clock source tsc in /sys/devices/system/clocksource/clocksource0/current_clocksource if \
                  it is available: each request reads the clock.";
    advise(name, found, advice)
}

fn memory_limit(facts: &HostFacts) -> Check {
    let name = "memory_limit";
    let limit = match facts.cgroup_memory_limit_bytes {
        None => return unknown(name),
        Some(Limit::Unlimited) => return fine(name, "unlimited"),
        Some(Limit::At(limit)) => limit,
    };
    let found = size(limit);
    if facts.memory_bytes.is_some_and(|memory| limit >= memory) {
        return fine(name, found);
    }
    let advice = "Raise the memory limit of the control group (or container) or keep dataset and engine cache well \
                  below it: the page cache of the data counts too.";
    advise(name, found, advice)
}

fn swap(facts: &HostFacts) -> Check {
    let name = "swap";
    match facts.swap_used_bytes {
        None => unknown(name),
        Some(0) => fine(name, "not in use"),
        Some(used) => advise(
            name,
            format!("{} in use", size(used)),
            "Free memory and turn swap off and on again (`swapoff -a && swapon -a`): memory that comes back from \
             disk looks like a slow engine.",
        ),
    }
}

fn transparent_hugepages(facts: &HostFacts) -> Check {
    let name = "transparent_hugepages";
    match facts.transparent_hugepages.as_deref() {
        Some("always") => advise(
            name,
            "always",
            "Write madvise to /sys/kernel/mm/transparent_hugepage/enabled: with always, background merging of pages \
             causes stalls and larger memory use in several engines.",
        ),
        Some(other) => fine(name, other),
        None => unknown(name),
    }
}

fn data_directory(facts: &HostFacts) -> Check {
    let name = "data_directory";
    match facts.data_dir_writable {
        Some(true) => fine(name, "writable"),
        Some(false) => {
            let advice = "Choose a results directory in which this user may create files.";
            stop(name, "not writable", advice)
        }
        None => unknown(name),
    }
}

fn data_filesystem(facts: &HostFacts) -> Check {
    let name = "data_filesystem";
    let Some(filesystem) = facts.filesystem.as_deref() else { return unknown(name) };
    if mount::is_memory(filesystem) {
        let advice = "Choose a results directory on a disk: here a sync costs nothing and figures on I/O mean nothing.";
        return advise(name, format!("{filesystem}, in memory"), advice);
    }
    match &facts.device {
        Some(device) => fine(name, format!("{filesystem} on {}", device.name)),
        None => advise(
            name,
            format!("{filesystem}, on no single block device"),
            "Choose a results directory on a filesystem with one block device if reads and writes are to be counted \
             at the device.",
        ),
    }
}

fn disk_free(facts: &HostFacts) -> Check {
    let name = "disk_free";
    let Some(free) = facts.disk_free_bytes else { return unknown(name) };
    let advice = "Make room or choose a results directory on another disk: datasets and their copies need space.";
    match free {
        0..DISK_FREE_STOP_BYTES => stop(name, size(free), advice),
        DISK_FREE_STOP_BYTES..DISK_FREE_ADVICE_BYTES => advise(name, size(free), advice),
        _ => fine(name, size(free)),
    }
}

fn read_ahead(facts: &HostFacts) -> Check {
    let name = "read_ahead";
    let Some(device) = &facts.device else {
        return match &facts.device_absent_reason {
            Some(_) => fine(name, "no block device"),
            None => unknown(name),
        };
    };
    let Some(read_ahead_kb) = device.read_ahead_kb else { return unknown(name) };
    let found = format!("{read_ahead_kb} KiB on {}", device.name);
    if read_ahead_kb <= READ_AHEAD_ADVICE_KB {
        return fine(name, found);
    }
    let advice = format!(
        "Write 128 or less to /sys/block/{}/queue/read_ahead_kb: at each random read of a mapped or buffered file \
         the kernel may read this much.",
        device.name.replace('/', "!")
    );
    advise(name, found, advice)
}

fn open_files(facts: &HostFacts) -> Check {
    let name = "open_files";
    let Some(limit) = facts.open_files_limit else { return unknown(name) };
    let found = format!("at most {limit}");
    if limit >= OPEN_FILES_ADVICE {
        return fine(name, found);
    }
    let advice = format!(
        "Raise the limit (`ulimit -n {OPEN_FILES_ADVICE}`): 1,024 clients need a file each."
    );
    advise(name, found, advice)
}

fn perf_events(facts: &HostFacts) -> Check {
    let name = "perf_events";
    let Some(level) = facts.perf_event_paranoid else { return unknown(name) };
    let found = format!("kernel.perf_event_paranoid = {level}");
    if level <= PERF_EVENT_PARANOID_FREE {
        return fine(name, found);
    }
    let advice = format!(
        "Set it to {PERF_EVENT_PARANOID_FREE} (`sysctl kernel.perf_event_paranoid={PERF_EVENT_PARANOID_FREE}`) \
         unless runs are made as root: counters and stack samples of the kernel (above 2, of anything) are refused \
         otherwise."
    );
    advise(name, found, advice)
}

/// Bytes as MiB or GiB with one decimal.
fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes < 1024.0 {
        format!("{mebibytes:.1} MiB")
    } else {
        format!("{:.1} GiB", mebibytes / 1024.0)
    }
}

#[cfg(test)]
mod tests;
