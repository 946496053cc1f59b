//! CPU time and context switches of the whole host, from /proc/stat.
//!
//! Ticks are the kernel's own accounting: on most kernels sampled by a timer, exact on kernels with full
//! accounting. `guest` time is contained in `user` and `nice` and is not added again.

use super::{Subtraction, ticks_to_ns};
use crate::{HostError, clock, kernel_text};
use std::path::Path;

const STAT: &str = "/proc/stat";

/// CPU time of all cores since boot, in clock ticks (see `clock::ticks_per_second`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTicks {
    /// User mode.
    pub user: u64,
    /// User mode at low priority.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a task of that core waited for a disk; the kernel calls this number unreliable.
    pub iowait: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// Ready to run, but the hypervisor ran something else.
    pub steal: u64,
}

/// The host's counters at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSample {
    /// When, nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// CPU time of all cores.
    pub ticks: CpuTicks,
    /// Context switches of all cores since boot.
    pub context_switches: u64,
    /// The length of a tick, as ticks per second.
    pub ticks_per_s: u64,
}

/// What the host used between two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct HostUse {
    /// Time between the samples, nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time in which any core worked: user, nice, system, irq, softirq; nanoseconds.
    pub busy_cpu_ns: u64,
    /// User mode part of it (user, nice), nanoseconds.
    pub user_cpu_ns: u64,
    /// Kernel mode part of it (system, irq, softirq), nanoseconds.
    pub system_cpu_ns: u64,
    /// Idle time with or without a waiting disk, nanoseconds.
    pub idle_cpu_ns: u64,
    /// Time that the hypervisor took away, nanoseconds.
    pub steal_cpu_ns: u64,
    /// Steal / (busy + idle + steal); `None` if no tick passed.
    pub steal_share: Option<f64>,
    /// Context switches.
    pub context_switches: u64,
    /// Names of counters that went back; they count as 0. `iowait` and `idle` may do so on busy hosts.
    pub went_back: Vec<&'static str>,
}

impl HostSample {
    /// Reads the counters now. Fails if /proc/stat cannot be read or has another form.
    pub fn read() -> Result<Self, HostError> {
        let path = Path::new(STAT);
        let at_ns = clock::monotonic_ns();
        let text = kernel_text::read(path)?;
        let form = |missing| HostError::form(path, missing);
        Ok(Self {
            at_ns,
            ticks: parse_ticks(&text).ok_or_else(|| form("line \"cpu\""))?,
            context_switches: parse_switches(&text).ok_or_else(|| form("line \"ctxt\""))?,
            ticks_per_s: clock::ticks_per_second().ok_or_else(|| form("length of a tick"))?,
        })
    }
}

/// What the host used from sample `first` to sample `second`.
pub fn difference(first: &HostSample, second: &HostSample) -> HostUse {
    let mut subtract = Subtraction::default();
    let (a, b) = (&first.ticks, &second.ticks);
    let user = subtract.of("user", a.user, b.user) + subtract.of("nice", a.nice, b.nice);
    let system = subtract.of("system", a.system, b.system)
        + subtract.of("irq", a.irq, b.irq)
        + subtract.of("softirq", a.softirq, b.softirq);
    let idle = subtract.of("idle", a.idle, b.idle) + subtract.of("iowait", a.iowait, b.iowait);
    let steal = subtract.of("steal", a.steal, b.steal);
    let all = user + system + idle + steal;
    let ns = |ticks| ticks_to_ns(ticks, second.ticks_per_s);
    HostUse {
        elapsed_ns: subtract.of("time", first.at_ns, second.at_ns),
        busy_cpu_ns: ns(user + system),
        user_cpu_ns: ns(user),
        system_cpu_ns: ns(system),
        idle_cpu_ns: ns(idle),
        steal_cpu_ns: ns(steal),
        steal_share: (all > 0).then(|| steal as f64 / all as f64),
        context_switches: subtract.of(
            "context_switches",
            first.context_switches,
            second.context_switches,
        ),
        went_back: subtract.went_back,
    }
}

fn parse_ticks(stat: &str) -> Option<CpuTicks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut numbers = line.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(CpuTicks {
        user: next()?,
        nice: next()?,
        system: next()?,
        idle: next()?,
        iowait: next()?,
        irq: next()?,
        softirq: next()?,
        steal: next()?,
    })
}

fn parse_switches(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("ctxt "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
cpu  5422 10 1420 294877 1615 7 73 303 40 0
cpu0 2064 5 534 149055 51 0 31 128 0 0
intr 12345 0 9
ctxt 889900
btime 1700000000
";

    fn sample(ticks: CpuTicks) -> HostSample {
        HostSample { at_ns: 5, ticks, context_switches: 10, ticks_per_s: 100 }
    }

    #[test]
    fn parses_and_subtracts() {
        // Shows the sum line, nanoseconds from ticks, the steal share, and a counter that went back.
        let ticks = parse_ticks(SAMPLE).unwrap();
        assert_eq!((ticks.user, ticks.iowait, ticks.steal), (5422, 1615, 303));
        assert_eq!(parse_switches(SAMPLE), Some(889_900));
        assert_eq!(parse_ticks("cpu0 1 2 3 4 5 6 7 8\n"), None);
        assert_eq!(parse_ticks("cpu  1 2 3\n"), None);

        let first = sample(ticks);
        let mut second = first;
        second.at_ns += 1_000_000_000;
        second.context_switches += 500;
        second.ticks.user += 60;
        second.ticks.softirq += 15;
        second.ticks.idle += 100;
        second.ticks.steal += 25;
        second.ticks.iowait -= 3;
        let used = difference(&first, &second);
        assert_eq!(used.elapsed_ns, 1_000_000_000);
        assert_eq!(used.busy_cpu_ns, 750_000_000);
        assert_eq!((used.user_cpu_ns, used.system_cpu_ns), (600_000_000, 150_000_000));
        assert_eq!(used.steal_share, Some(0.125));
        assert_eq!(used.context_switches, 500);
        assert_eq!(used.went_back, ["iowait"]);
        assert_eq!(difference(&first, &first).steal_share, None);
    }

    #[test]
    fn reads_this_host() {
        // Shows that two readings of this kernel have the known form and subtract to something possible.
        let first = HostSample::read().unwrap();
        let second = HostSample::read().unwrap();
        let used = difference(&first, &second);
        assert!(used.elapsed_ns > 0 && used.elapsed_ns < 60_000_000_000, "{used:?}");
    }
}
