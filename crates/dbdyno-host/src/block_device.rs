//! The block device under a directory, and the kernel's settings for it.
//!
//! Found by device number, not by name: a partition is resolved to its disk, because queue settings and flush
//! counts exist only there. A filesystem of memory, of a network or of several devices has none, with the reason.

use crate::kernel_text;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Major and minor number of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.major, self.minor)
    }
}

/// A whole disk or a mapped device, with its queue settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Name as in /proc/diskstats.
    pub name: String,
    /// Device number of the disk.
    pub number: DeviceNumber,
    /// How far the kernel reads ahead, in KiB.
    pub read_ahead_kb: Option<u64>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// Whether the device says that it has moving parts; virtual disks often say so wrongly.
    pub rotational: Option<bool>,
}

/// Why a directory has no block device of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NoDevice {
    /// One sentence.
    pub reason: String,
}

/// The block device that holds `directory`, which must exist.
pub fn of_directory(directory: &Path) -> Result<BlockDevice, NoDevice> {
    let metadata = fs::metadata(directory)
        .map_err(|error| NoDevice { reason: format!("{}: {error}", directory.display()) })?;
    let device = metadata.dev();
    let number = DeviceNumber { major: libc::major(device), minor: libc::minor(device) };
    resolve(Path::new("/sys"), number)
}

/// The disk with this number, or the disk of the partition with this number, below a sysfs mounted at `sys`.
fn resolve(sys: &Path, number: DeviceNumber) -> Result<BlockDevice, NoDevice> {
    if number.major == 0 {
        // Major 0 is given out for filesystems without one device: tmpfs, overlay, btrfs, ZFS, NFS.
        let reason = format!("the filesystem is not on one block device (device {number})");
        return Err(NoDevice { reason });
    }
    let unknown = || NoDevice { reason: format!("the kernel does not describe device {number}") };
    let link = sys.join("dev/block").join(number.to_string());
    let mut directory = fs::canonicalize(link).map_err(|_| unknown())?;
    if directory.join("partition").exists() {
        directory.pop();
    }
    let name = directory.file_name().ok_or_else(unknown)?;
    let disk = kernel_text::read_known(directory.join("dev"));
    let queue = directory.join("queue");
    let scheduler = kernel_text::read_known(queue.join("scheduler"));
    Ok(BlockDevice {
        // sysfs writes the slash of names like cciss/c0d0 as an exclamation mark.
        name: name.to_string_lossy().replace('!', "/"),
        number: disk.as_deref().and_then(parse_number).ok_or_else(unknown)?,
        read_ahead_kb: kernel_text::read_number(queue.join("read_ahead_kb")),
        scheduler: scheduler.as_deref().and_then(kernel_text::chosen).map(str::to_string),
        rotational: kernel_text::read_number::<u8>(queue.join("rotational")).map(|flag| flag != 0),
    })
}

fn parse_number(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn resolves_a_partition_to_its_disk() {
        // Shows on a made-up sysfs that partition and disk give the same device, and unknown numbers a reason.
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/pci0/block/sda");
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        fs::write(disk.join("dev"), "8:0\n").unwrap();
        fs::write(disk.join("sda1/dev"), "8:1\n").unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        fs::write(disk.join("queue/scheduler"), "none [mq-deadline]\n").unwrap();
        fs::write(disk.join("queue/read_ahead_kb"), "128\n").unwrap();
        fs::write(disk.join("queue/rotational"), "0\n").unwrap();
        symlink(&disk, sys.path().join("dev/block/8:0")).unwrap();
        symlink(disk.join("sda1"), sys.path().join("dev/block/8:1")).unwrap();

        let expected = BlockDevice {
            name: "sda".into(),
            number: DeviceNumber { major: 8, minor: 0 },
            read_ahead_kb: Some(128),
            scheduler: Some("mq-deadline".into()),
            rotational: Some(false),
        };
        for minor in [0, 1] {
            assert_eq!(resolve(sys.path(), DeviceNumber { major: 8, minor }), Ok(expected.clone()));
        }
        let reason = |major| resolve(sys.path(), DeviceNumber { major, minor: 7 }).unwrap_err();
        assert!(reason(0).to_string().contains("not on one block device"));
        assert!(reason(8).to_string().contains("does not describe device 8:7"));
    }

    #[test]
    fn a_directory_of_memory_has_no_device() {
        // Shows the reason for a filesystem without a device, and for a directory that is absent.
        assert!(of_directory(Path::new("/proc")).unwrap_err().reason.contains("not on one"));
        assert!(of_directory(Path::new("/no-such-directory")).is_err());
    }
}
