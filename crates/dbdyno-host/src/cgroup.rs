//! The limits that control groups set on this process: memory and CPU quota, versions 1 and 2.
//!
//! A group is bound by its ancestors too, so the limit in force is the smallest from the process's own group up to
//! the top that is mounted here. Pure over the texts; the caller lends a function that reads a file.

use crate::mount::Mount;
use std::path::{Path, PathBuf};

/// A limit that is either absent or a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit<T> {
    /// No group limits this.
    Unlimited,
    /// The smallest limit of the process's group and its ancestors.
    At(T),
}

/// Limits in force on this process. `None` where the hierarchy cannot be seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Memory in bytes.
    pub memory_bytes: Option<Limit<u64>>,
    /// CPU quota as a number of cores: quota / period.
    pub cpu_cores: Option<Limit<f64>>,
}

/// Version 1 writes "no limit" as the largest multiple of the page size in an i64; the page size varies, so
/// anything from 2^62 bytes up is read as no limit.
const VERSION_1_UNLIMITED: u64 = 1 << 62;

/// Limits from the text of /proc/self/cgroup and the mounts; `read` returns a file's text or `None`.
pub fn limits(cgroup: &str, mounts: &[Mount], read: impl Fn(&Path) -> Option<String>) -> Limits {
    let memory = Group::find(cgroup, mounts, "memory");
    let cpu = Group::find(cgroup, mounts, "cpu");
    Limits {
        memory_bytes: memory.and_then(|group| group.smallest(&read, memory_limit)),
        cpu_cores: cpu.and_then(|group| group.smallest(&read, cpu_limit)),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The group of this process in the hierarchy that holds one controller.
struct Group {
    version: Version,
    /// Its directory and those of its ancestors, deepest first.
    directories: Vec<PathBuf>,
}

impl Group {
    fn find(cgroup: &str, mounts: &[Mount], controller: &str) -> Option<Self> {
        // A line is `hierarchy:controllers:path`; the path itself may hold colons.
        let lines = cgroup.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            Some((parts.next()?, parts.next()?, parts.next()?))
        });
        let (mut one, mut two) = (None, None);
        for (_, controllers, path) in lines {
            if controllers.is_empty() {
                two = Some(path);
            } else if controllers.split(',').any(|name| name == controller) {
                one = Some(path);
            }
        }
        let (version, path) = match (one, two) {
            (Some(path), _) => (Version::One, path),
            (None, path) => (Version::Two, path?),
        };
        let mount = mounts.iter().rfind(|mount| match version {
            Version::One => mount.filesystem == "cgroup" && mount.has_option(controller),
            Version::Two => mount.filesystem == "cgroup2",
        })?;
        Some(Self { version, directories: directories(mount, path) })
    }

    /// The smallest limit over all levels, or `None` if no level could be read.
    fn smallest<T: PartialOrd>(
        &self,
        read: impl Fn(&Path) -> Option<String>,
        limit: impl Fn(Version, &dyn Fn(&str) -> Option<String>) -> Option<Limit<T>>,
    ) -> Option<Limit<T>> {
        let mut smallest = None;
        for directory in &self.directories {
            let found = limit(self.version, &|name| read(&directory.join(name)));
            smallest = match (smallest, found) {
                (Some(Limit::At(old)), Some(Limit::At(new))) if new < old => Some(Limit::At(new)),
                (Some(Limit::At(old)), _) => Some(Limit::At(old)),
                (_, Some(new)) => Some(new),
                (old, None) => old,
            };
        }
        // In version 2 the top group has no limit files, nor has a group whose parent did not enable the
        // controller; that the hierarchy can be seen at all is told by this file, which every group has.
        let visible = || {
            let top = self.directories.last()?;
            (self.version == Version::Two).then(|| read(&top.join("cgroup.controllers")))?
        };
        smallest.or_else(|| visible().map(|_| Limit::Unlimited))
    }
}

/// The directories of a group, deepest first, up to the mount point. In a container the hierarchy is often mounted
/// from the container's own group (`root`); a path outside that root can only be seen as the mount point itself.
fn directories(mount: &Mount, path: &str) -> Vec<PathBuf> {
    let inside = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let climbs = inside.components().any(|part| part.as_os_str() == "..");
    let inside = if climbs { Path::new("") } else { inside };
    inside.ancestors().map(|part| mount.point.join(part)).collect()
}

fn memory_limit(version: Version, read: &dyn Fn(&str) -> Option<String>) -> Option<Limit<u64>> {
    let name = match version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    };
    let text = read(name)?;
    if text.trim() == "max" {
        return Some(Limit::Unlimited);
    }
    let bytes: u64 = text.trim().parse().ok()?;
    Some(if bytes >= VERSION_1_UNLIMITED { Limit::Unlimited } else { Limit::At(bytes) })
}

fn cpu_limit(version: Version, read: &dyn Fn(&str) -> Option<String>) -> Option<Limit<f64>> {
    let (quota, period) = match version {
        Version::One => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
        Version::Two => {
            let text = read("cpu.max")?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_string(), period.to_string())
        }
    };
    if quota.trim() == "max" || quota.trim() == "-1" {
        return Some(Limit::Unlimited);
    }
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(Limit::At(quota / period))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount;

    fn check(cgroup: &str, mountinfo: &str, files: &[(&str, &str)], expected: Limits) {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| text.to_string())
        };
        assert_eq!(limits(cgroup, &mount::parse(mountinfo), read), expected, "{cgroup}");
    }

    const VERSION_2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn version_2_takes_the_smallest_on_the_way_up() {
        // Shows limits on different levels, "max", and the top level that has no files.
        let files = [
            ("/sys/fs/cgroup/cgroup.controllers", "cpu memory"),
            ("/sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"),
        ];
        let both =
            Limits { memory_bytes: Some(Limit::At(1 << 30)), cpu_cores: Some(Limit::At(1.5)) };
        check("0::/a/b\n", VERSION_2, &files, both);
        let free =
            Limits { memory_bytes: Some(Limit::Unlimited), cpu_cores: Some(Limit::Unlimited) };
        check("0::/\n", VERSION_2, &files, free);
        check("0::/../outside\n", VERSION_2, &files, free);
        check("0::/a/b\n", VERSION_2, &[], Limits::default());
        check("0::/a/b\n", "", &files, Limits::default());
    }

    #[test]
    fn version_1_and_hybrid() {
        // Shows joined controllers, a bound root as in a container, the huge "no limit", and -1.
        let mounts = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 /docker/c1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
        let cgroup = "5:cpu,cpuacct:/docker/c1\n4:memory:/docker/c1\n1:name=systemd:/x\n0::/\n";
        let files = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("/sys/fs/cgroup/memory/docker/c1/memory.limit_in_bytes", "536870912"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ];
        let both =
            Limits { memory_bytes: Some(Limit::At(512 << 20)), cpu_cores: Some(Limit::At(0.5)) };
        check(cgroup, mounts, &files, both);
        let mut files = files;
        files[1].1 = "9223372036854771712\n";
        files[2].1 = "-1\n";
        let free =
            Limits { memory_bytes: Some(Limit::Unlimited), cpu_cores: Some(Limit::Unlimited) };
        check(cgroup, mounts, &files, free);
        check(cgroup, mounts, &[], Limits::default());
    }
}
