//! The facts of the host that a run is recorded with: processor, memory, kernel, data directory, limits, clock.
//!
//! Read once per run. Whatever the kernel does not tell is `None`. What a fact means for a measurement is said by
//! `doctor`; how fast the device is, by `device_profile`.

use crate::block_device::{self, BlockDevice};
use crate::cgroup::{self, Limit};
use crate::{clock, kernel_text, mount};
use std::fmt::Display;
use std::path::{Path, PathBuf};

mod parse;
mod system;

pub(crate) use system::disk_free_bytes;

/// What this host is, at the moment of reading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostFacts {
    /// Processor model; on ARM the numbers of implementer and part.
    pub cpu_model: Option<String>,
    /// Logical cores that are online.
    pub cores_online: Option<u64>,
    /// Logical cores that this process may run on (affinity mask, cpuset).
    pub cores_allowed: Option<u64>,
    /// Processor packages.
    pub sockets: Option<u64>,
    /// Memory that the kernel manages, bytes.
    pub memory_bytes: Option<u64>,
    /// Swap space in total, bytes.
    pub swap_total_bytes: Option<u64>,
    /// Swap space in use, bytes.
    pub swap_used_bytes: Option<u64>,
    /// Kernel release, as `uname -r` prints it.
    pub kernel_release: Option<String>,
    /// Whether the processor says that it is a virtual one; known on x86 only.
    pub hypervisor: Option<bool>,
    /// Filesystem type of the data directory.
    pub filesystem: Option<String>,
    /// Where that filesystem is mounted.
    pub mount_point: Option<PathBuf>,
    /// Mount options, then filesystem options, separated by commas.
    pub mount_options: Option<String>,
    /// Bytes that this user may still write in the data directory's filesystem.
    pub disk_free_bytes: Option<u64>,
    /// Whether this user may create files in the data directory.
    pub data_dir_writable: Option<bool>,
    /// The block device of the data directory.
    pub device: Option<BlockDevice>,
    /// Why there is no `device`.
    pub device_absent_reason: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_hugepages: Option<String>,
    /// CPU frequency governors in use, separated by commas; none on most virtual machines.
    pub cpu_governor: Option<String>,
    /// Mean number of runnable and blocked tasks over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Memory limit of this process's control groups, bytes.
    pub cgroup_memory_limit_bytes: Option<Limit<u64>>,
    /// CPU quota of this process's control groups, cores.
    pub cgroup_cpu_limit_cores: Option<Limit<f64>>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Cost of one CLOCK_MONOTONIC reading, nanoseconds (median of rounds).
    pub clock_read_ns: Option<f64>,
    /// Unit of CPU times in /proc: ticks per second.
    pub clock_ticks_per_s: Option<u64>,
    /// Files that this process may have open (soft limit).
    pub open_files_limit: Option<u64>,
    /// Setting of kernel.perf_event_paranoid; higher forbids more.
    pub perf_event_paranoid: Option<i64>,
}

impl HostFacts {
    /// Reads all facts. Takes some milliseconds, most of them for the cost of the clock. Where `data_dir` does not
    /// exist yet, its nearest existing ancestor is looked at.
    pub fn read(data_dir: &Path) -> Self {
        let mut facts = Self::default();
        facts.read_processor();
        facts.read_memory_and_limits();
        facts.read_data_directory(data_dir);
        facts.kernel_release = kernel_text::read_known("/proc/sys/kernel/osrelease");
        facts.clock_source = kernel_text::read_known(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        );
        facts.clock_read_ns = Some(clock::read_cost_ns());
        facts.clock_ticks_per_s = clock::ticks_per_second();
        facts.perf_event_paranoid =
            kernel_text::read_number("/proc/sys/kernel/perf_event_paranoid");
        facts
    }

    fn read_processor(&mut self) {
        if let Some(text) = kernel_text::read_known("/proc/cpuinfo") {
            self.cpu_model = parse::cpu_model(&text);
            self.sockets = parse::sockets(&text);
            self.hypervisor = parse::hypervisor(&text);
        }
        self.cores_online = kernel_text::read_known("/sys/devices/system/cpu/online")
            .and_then(|text| parse::cpu_list_len(&text));
        self.cores_allowed = system::cores_allowed();
        self.cpu_governor = system::governors(Path::new("/sys/devices/system/cpu"));
        self.load_average =
            kernel_text::read_known("/proc/loadavg").and_then(|text| parse::load_average(&text));
    }

    fn read_memory_and_limits(&mut self) {
        if let Some(text) = kernel_text::read_known("/proc/meminfo") {
            self.memory_bytes = kernel_text::field_bytes(&text, "MemTotal");
            self.swap_total_bytes = kernel_text::field_bytes(&text, "SwapTotal");
            let free = kernel_text::field_bytes(&text, "SwapFree");
            self.swap_used_bytes =
                self.swap_total_bytes.zip(free).map(|(all, free)| all.saturating_sub(free));
        }
        self.transparent_hugepages =
            kernel_text::read_known("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| kernel_text::chosen(&text).map(str::to_string));
        self.open_files_limit = system::open_files_limit();
        let groups = kernel_text::read_known("/proc/self/cgroup");
        let mounts = kernel_text::read_known("/proc/self/mountinfo");
        if let (Some(groups), Some(mounts)) = (groups, mounts) {
            let read = |path: &Path| kernel_text::read_known(path);
            let limits = cgroup::limits(&groups, &mount::parse(&mounts), read);
            self.cgroup_memory_limit_bytes = limits.memory_bytes;
            self.cgroup_cpu_limit_cores = limits.cpu_cores;
        }
    }

    fn read_data_directory(&mut self, data_dir: &Path) {
        let Some(directory) = system::nearest_existing(data_dir) else { return };
        self.disk_free_bytes = system::disk_free_bytes(&directory);
        self.data_dir_writable = system::writable(&directory);
        if let Some(text) = kernel_text::read_known("/proc/self/mountinfo") {
            let mounts = mount::parse(&text);
            if let Some(mount) = mount::of_path(&mounts, &directory) {
                self.filesystem = Some(mount.filesystem.clone());
                self.mount_point = Some(mount.point.clone());
                self.mount_options = Some(mount.options.clone());
            }
        }
        match block_device::of_directory(&directory) {
            Ok(device) => self.device = Some(device),
            Err(absent) => self.device_absent_reason = Some(absent.reason),
        }
    }

    /// Cores that this process can really use at once: online, allowed and within the CPU quota.
    pub fn cores_usable(&self) -> Option<f64> {
        let cores = [self.cores_online, self.cores_allowed].into_iter().flatten().min()? as f64;
        match self.cgroup_cpu_limit_cores {
            Some(Limit::At(quota)) => Some(quota.min(cores)),
            _ => Some(cores),
        }
    }

    /// Every fact by name, with its unit in the name; the list is the same on every host. What is not known reads
    /// `unknown`; a limit that is not set reads `unlimited`; yes and no are `true` and `false`.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let device = self.device.as_ref();
        let load = |index: usize| shown(self.load_average.map(|load| load[index]));
        vec![
            ("cpu_model", shown(self.cpu_model.as_ref())),
            ("cores_online", shown(self.cores_online)),
            ("cores_allowed", shown(self.cores_allowed)),
            ("sockets", shown(self.sockets)),
            ("hypervisor", shown(self.hypervisor)),
            ("cpu_governor", shown(self.cpu_governor.as_ref())),
            ("memory_bytes", shown(self.memory_bytes)),
            ("swap_total_bytes", shown(self.swap_total_bytes)),
            ("swap_used_bytes", shown(self.swap_used_bytes)),
            ("transparent_hugepages", shown(self.transparent_hugepages.as_ref())),
            ("kernel_release", shown(self.kernel_release.as_ref())),
            ("clock_source", shown(self.clock_source.as_ref())),
            ("clock_read_ns", shown(self.clock_read_ns.map(|cost| format!("{cost:.1}")))),
            ("clock_ticks_per_s", shown(self.clock_ticks_per_s)),
            ("load_average_1_min", load(0)),
            ("load_average_5_min", load(1)),
            ("load_average_15_min", load(2)),
            ("cgroup_memory_limit_bytes", shown_limit(self.cgroup_memory_limit_bytes)),
            ("cgroup_cpu_limit_cores", shown_limit(self.cgroup_cpu_limit_cores)),
            ("open_files_limit", shown(self.open_files_limit)),
            ("perf_event_paranoid", shown(self.perf_event_paranoid)),
            ("filesystem", shown(self.filesystem.as_ref())),
            ("mount_point", shown(self.mount_point.as_ref().map(|path| path.display()))),
            ("mount_options", shown(self.mount_options.as_ref())),
            ("disk_free_bytes", shown(self.disk_free_bytes)),
            ("data_dir_writable", shown(self.data_dir_writable)),
            ("device_name", shown(device.map(|device| &device.name))),
            ("device_number", shown(device.map(|device| device.number))),
            ("device_absent_reason", self.device_absent_reason.clone().unwrap_or_default()),
            ("read_ahead_kb", shown(device.and_then(|device| device.read_ahead_kb))),
            ("io_scheduler", shown(device.and_then(|device| device.scheduler.as_ref()))),
            ("rotational", shown(device.and_then(|device| device.rotational))),
        ]
    }
}

fn shown(fact: Option<impl Display>) -> String {
    fact.map_or_else(|| "unknown".to_string(), |fact| fact.to_string())
}

fn shown_limit(limit: Option<Limit<impl Display>>) -> String {
    match limit {
        None => "unknown".to_string(),
        Some(Limit::Unlimited) => "unlimited".to_string(),
        Some(Limit::At(limit)) => limit.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_host() {
        // Shows that the facts every Linux has are read, also for a data directory that does not exist yet.
        let directory = tempfile::tempdir().unwrap();
        let facts = HostFacts::read(&directory.path().join("not/yet"));
        assert!(facts.cores_online.is_some_and(|cores| cores >= 1), "{facts:?}");
        assert!(facts.cores_usable().is_some_and(|cores| cores > 0.0));
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(facts.kernel_release.is_some() && facts.filesystem.is_some());
        assert!(facts.disk_free_bytes.is_some());
        assert_eq!(facts.data_dir_writable, Some(true));
        assert_ne!(facts.device.is_some(), facts.device_absent_reason.is_some());
    }

    #[test]
    fn rows_are_the_same_on_every_host() {
        // Shows that names are unique and stay when nothing is known, and how values are written.
        let unknown = HostFacts::default().rows();
        let mut names: Vec<_> = unknown.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), unknown.len());
        assert!(unknown.contains(&("memory_bytes", "unknown".to_string())));
        let facts = HostFacts {
            cgroup_cpu_limit_cores: Some(Limit::At(1.5)),
            cgroup_memory_limit_bytes: Some(Limit::Unlimited),
            cores_online: Some(8),
            load_average: Some([0.5, 1.0, 2.25]),
            ..HostFacts::default()
        };
        assert_eq!(facts.cores_usable(), Some(1.5));
        for row in [
            ("cgroup_cpu_limit_cores", "1.5"),
            ("cgroup_memory_limit_bytes", "unlimited"),
            ("load_average_15_min", "2.25"),
        ] {
            assert!(facts.rows().contains(&(row.0, row.1.to_string())), "{row:?}");
        }
    }
}
