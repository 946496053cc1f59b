//! Reads, writes and flushes of the data directory's device, from its row of /proc/diskstats.
//!
//! Of the whole disk: traffic of other partitions and other programs is in it. The columns are described in the
//! kernel's Documentation/admin-guide/iostats.rst. A filesystem without one device has no probe, with the reason.

use super::Subtraction;
use crate::block_device::{self, BlockDevice, DeviceNumber, NoDevice};
use crate::{HostError, clock, kernel_text};
use std::path::Path;

const DISKSTATS: &str = "/proc/diskstats";
/// The unit of sectors in diskstats, whatever the device's own sector is (SECTOR_SIZE in linux/blk_types.h).
const SECTOR_BYTES: u64 = 512;

/// Knows which device to sample.
#[derive(Debug, Clone)]
pub struct DiskProbe {
    device: BlockDevice,
}

/// Counters of one device since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSample {
    /// When, nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Which device.
    pub number: DeviceNumber,
    /// Reads completed, after merging.
    pub reads: u64,
    /// Sectors of 512 bytes read.
    pub sectors_read: u64,
    /// Writes completed, after merging.
    pub writes: u64,
    /// Sectors of 512 bytes written.
    pub sectors_written: u64,
    /// Milliseconds in which any request was in flight, modulo 2^32.
    pub io_time_ms: u32,
    /// Flush requests completed; `None` before Linux 5.5.
    pub flushes: Option<u64>,
}

/// What a device did between two samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskUse {
    /// Time between the samples, nanoseconds.
    pub elapsed_ns: u64,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes completed; `None` where the kernel does not count them.
    pub flushes: Option<u64>,
    /// Time in which any request was in flight, nanoseconds in steps of a millisecond.
    pub io_time_ns: u64,
    /// Names of counters that went back; they count as 0.
    pub went_back: Vec<&'static str>,
}

impl DiskProbe {
    /// The probe of the device that holds this directory, or why there is none.
    pub fn of_directory(directory: &Path) -> Result<Self, NoDevice> {
        block_device::of_directory(directory).map(|device| Self { device })
    }

    /// The device that is sampled.
    pub fn device(&self) -> &BlockDevice {
        &self.device
    }

    /// Reads the counters now. Fails if /proc/diskstats has no row of the device.
    pub fn sample(&self) -> Result<DiskSample, HostError> {
        let path = Path::new(DISKSTATS);
        let at_ns = clock::monotonic_ns();
        let text = kernel_text::read(path)?;
        parse(&text, self.device.number, at_ns)
            .ok_or_else(|| HostError::form(path, "row of the data directory's device"))
    }
}

/// What the device did from sample `first` to sample `second`. Fails if they are of different devices.
pub fn difference(first: &DiskSample, second: &DiskSample) -> Result<DiskUse, HostError> {
    if first.number != second.number {
        let (first, second) = (first.number.to_string(), second.number.to_string());
        return Err(HostError::DifferentDevice { first, second });
    }
    let mut subtract = Subtraction::default();
    let sectors_read = subtract.of("sectors_read", first.sectors_read, second.sectors_read);
    let sectors_written =
        subtract.of("sectors_written", first.sectors_written, second.sectors_written);
    // The kernel keeps this column in 32 bits, so it starts again after 49 days of work.
    let io_time_ms = second.io_time_ms.wrapping_sub(first.io_time_ms);
    Ok(DiskUse {
        elapsed_ns: subtract.of("time", first.at_ns, second.at_ns),
        reads: subtract.of("reads", first.reads, second.reads),
        read_bytes: sectors_read * SECTOR_BYTES,
        writes: subtract.of("writes", first.writes, second.writes),
        write_bytes: sectors_written * SECTOR_BYTES,
        flushes: match (first.flushes, second.flushes) {
            (Some(first), Some(second)) => Some(subtract.of("flushes", first, second)),
            _ => None,
        },
        io_time_ns: u64::from(io_time_ms) * 1_000_000,
        went_back: subtract.went_back,
    })
}

/// Columns: major, minor, name, reads, reads merged, sectors read, read ms, writes, writes merged, sectors written,
/// write ms, in flight, I/O ms, weighted ms, four of discards, flushes, flush ms.
fn parse(diskstats: &str, number: DeviceNumber, at_ns: u64) -> Option<DiskSample> {
    let (major, minor) = (number.major.to_string(), number.minor.to_string());
    let columns = diskstats.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let same = columns.first() == Some(&&*major) && columns.get(1) == Some(&&*minor);
        same.then_some(columns)
    })?;
    let column = |index: usize| columns.get(index)?.parse::<u64>().ok();
    Some(DiskSample {
        at_ns,
        number,
        reads: column(3)?,
        sectors_read: column(5)?,
        writes: column(7)?,
        sectors_written: column(9)?,
        io_time_ms: column(12)? as u32,
        flushes: column(18),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::FileExt;

    const SAMPLE: &str = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
254       0 vda 28117 5865 3318138 23385 5765 8576 465328 1424 0 9520 25357 3299 30 143272 541 318 5\n \
 25       4 old 10 2 80 1 20 3 160 4 0 7 5\n";

    #[test]
    fn parses_and_subtracts() {
        // Shows both lengths of row, an absent device, the wrap of I/O time, and a counter that went back.
        let of = |major, minor| parse(SAMPLE, DeviceNumber { major, minor }, 0);
        let vda = of(254, 0).unwrap();
        assert_eq!((vda.reads, vda.sectors_read), (28_117, 3_318_138));
        assert_eq!((vda.writes, vda.sectors_written), (5_765, 465_328));
        assert_eq!((vda.io_time_ms, vda.flushes), (9_520, Some(318)));
        assert_eq!(of(25, 4).unwrap().flushes, None);
        assert_eq!(of(254, 1), None);

        let mut first = vda;
        first.io_time_ms = u32::MAX - 9;
        let mut second = vda;
        second.at_ns = 1_000;
        second.io_time_ms = 10;
        second.sectors_written += 8;
        second.writes += 1;
        second.flushes = Some(320);
        second.reads -= 1;
        let used = difference(&first, &second).unwrap();
        assert_eq!((used.writes, used.write_bytes, used.flushes), (1, 4_096, Some(2)));
        assert_eq!((used.io_time_ns, used.reads), (20_000_000, 0));
        assert_eq!(used.went_back, ["reads"]);
        assert!(difference(&first, &of(25, 4).unwrap()).is_err());
    }

    #[test]
    fn counts_a_write_that_reached_the_device() {
        // Shows that a synced write of 1 MiB is counted, where this directory is on a block device at all.
        let directory = tempfile::tempdir().unwrap();
        let Ok(probe) = DiskProbe::of_directory(directory.path()) else { return };
        let first = probe.sample().unwrap();
        let file = fs::File::create(directory.path().join("data")).unwrap();
        file.write_all_at(&vec![7; 1 << 20], 0).unwrap();
        file.sync_all().unwrap();
        let used = difference(&first, &probe.sample().unwrap()).unwrap();
        assert!(used.writes >= 1 && used.write_bytes >= 1 << 20, "{used:?}");
    }
}
