//! How fast the device of the data directory is: a short profile within a budget, taken before and after a run.
//!
//! One temporary file, unlinked as soon as it is open, so nothing is left even if this process is killed. Each
//! figure comes with its count, duration and error, or with the reason why there is none. Caches of a disk or of a
//! hypervisor are not avoided: a figure says what this host gives to a file of this size.

use crate::facts::disk_free_bytes;
use crate::{HostError, clock, kernel_text, mount};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Largest size of the temporary file: small enough for the budget, larger than the cache of most disks.
const FILE_BYTES: u64 = 256 << 20;
/// The temporary file takes at most this part of the free space.
const FREE_SPACE_PART: u64 = 10;
/// Below this size a file says nothing about random reads.
const SMALLEST_FILE_BYTES: u64 = 8 << 20;
/// Size of one sequential transfer.
const CHUNK_BYTES: usize = 1 << 20;
/// Alignment that O_DIRECT needs on every device with sectors of up to 4 KiB.
const ALIGNMENT: usize = 4096;

/// How long a profile may take in total. A single transfer that is under way is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget(pub Duration);

impl Default for Budget {
    /// Eight seconds, which leaves two of the ten that a run allows for transfers under way at the end.
    fn default() -> Self {
        Self(Duration::from_secs(8))
    }
}

/// One measured figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Operations, or for sequential transfers megabytes (10^6 bytes), per second.
    pub per_second: f64,
    /// Standard error of the mean time of an operation, as a part of that mean. Times of neighbouring operations
    /// resemble each other, so this is rather too small.
    pub relative_error: f64,
    /// Operations done.
    pub count: u64,
    /// Time they took together, nanoseconds.
    pub duration_ns: u64,
}

/// A figure, or why there is none.
pub type Measurement = Result<Figure, String>;

/// What the device gave.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceProfile {
    /// Size of the temporary file that the reads went to, bytes.
    pub file_bytes: u64,
    /// Append 4 KiB and fdatasync, one after the other: pairs per second.
    pub fsync_per_s: Measurement,
    /// Direct reads of 4 KiB at random places, one at a time, per second.
    pub random_read_4k_per_s: Measurement,
    /// Direct reads of 16 KiB at random places, one at a time, per second.
    pub random_read_16k_per_s: Measurement,
    /// Direct writes of 1 MiB one after the other, megabytes (10^6 bytes) per second.
    pub sequential_write_mb_per_s: Measurement,
    /// Direct reads of 1 MiB one after the other, megabytes (10^6 bytes) per second.
    pub sequential_read_mb_per_s: Measurement,
    /// Time that the whole profile took, nanoseconds.
    pub duration_ns: u64,
}

impl DeviceProfile {
    /// Measures the device of an existing directory, in which this user may write.
    pub fn measure(directory: &Path, budget: Budget) -> Self {
        let start_ns = clock::monotonic_ns();
        let mut profile = match measure_figures(directory, budget) {
            Ok(profile) => profile,
            Err(reason) => Self::without_figures(&reason),
        };
        profile.duration_ns = clock::monotonic_ns() - start_ns;
        profile
    }

    fn without_figures(reason: &str) -> Self {
        let none = || Err(reason.to_string());
        Self {
            file_bytes: 0,
            fsync_per_s: none(),
            random_read_4k_per_s: none(),
            random_read_16k_per_s: none(),
            sequential_write_mb_per_s: none(),
            sequential_read_mb_per_s: none(),
            duration_ns: 0,
        }
    }

    /// Every value by name; the list is always the same. A figure that is not available reads
    /// `unavailable: <reason>`, and its count, duration and error are 0.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("profile_file_bytes", self.file_bytes.to_string()),
            ("profile_duration_ns", self.duration_ns.to_string()),
        ];
        let mut push = |names: [&'static str; 4], measurement: &Measurement| {
            let (value, error, count, duration_ns) = match measurement {
                Ok(figure) => (
                    format!("{:.1}", figure.per_second),
                    figure.relative_error,
                    figure.count,
                    figure.duration_ns,
                ),
                Err(reason) => (format!("unavailable: {reason}"), 0.0, 0, 0),
            };
            let details = [format!("{error:.4}"), count.to_string(), duration_ns.to_string()];
            rows.push((names[0], value));
            rows.extend(names[1..].iter().copied().zip(details));
        };
        macro_rules! figure {
            ($name:ident) => {
                push(
                    [
                        stringify!($name),
                        concat!(stringify!($name), "_relative_error"),
                        concat!(stringify!($name), "_count"),
                        concat!(stringify!($name), "_duration_ns"),
                    ],
                    &self.$name,
                )
            };
        }
        figure!(fsync_per_s);
        figure!(random_read_4k_per_s);
        figure!(random_read_16k_per_s);
        figure!(sequential_write_mb_per_s);
        figure!(sequential_read_mb_per_s);
        rows
    }
}

/// Runs all loops, each with its part of the budget, or says why none can run.
fn measure_figures(directory: &Path, budget: Budget) -> Result<DeviceProfile, String> {
    if let Some(memory) = memory_filesystem(directory) {
        return Err(format!("{memory} keeps files in memory and has no device"));
    }
    let free = disk_free_bytes(directory).ok_or("free disk space is not known")?;
    let target = FILE_BYTES.min(free / FREE_SPACE_PART) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
    if target < SMALLEST_FILE_BYTES {
        return Err(format!("too little free disk space ({free} bytes)"));
    }
    let part = |percent: u64| budget.0.as_nanos() as u64 * percent / 100;
    let fsync_per_s = temporary_file(directory, 0)
        .map_err(|error| error.to_string())
        .and_then(|file| measure_fsync(&file, part(20)));
    // The written file must be read past the page cache; where that is refused nothing can be said of the device.
    let file = match temporary_file(directory, libc::O_DIRECT) {
        Ok(file) => file,
        Err(error) => {
            let reason = format!("direct I/O is refused: {error}");
            return Ok(DeviceProfile { fsync_per_s, ..DeviceProfile::without_figures(&reason) });
        }
    };
    let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
    let written = measure_sequential_write(&file, &mut buffer, target, part(25));
    let file_bytes = match &written {
        Ok(figure) => figure.count * CHUNK_BYTES as u64,
        Err(_) => 0,
    };
    let mut random = |size: usize, percent: u64| {
        if file_bytes < SMALLEST_FILE_BYTES {
            return Err(format!("only {file_bytes} bytes could be written in time to be read"));
        }
        measure_random_read(&file, &mut buffer.bytes()[..size], file_bytes, part(percent))
    };
    let random_read_4k_per_s = random(4 << 10, 20);
    let random_read_16k_per_s = random(16 << 10, 20);
    let sequential_read = measure_sequential_read(&file, buffer.bytes(), file_bytes, part(15));
    Ok(DeviceProfile {
        file_bytes,
        fsync_per_s,
        random_read_4k_per_s,
        random_read_16k_per_s,
        sequential_write_mb_per_s: written.map(in_megabytes),
        sequential_read_mb_per_s: sequential_read.map(in_megabytes),
        duration_ns: 0,
    })
}

/// Appends of 4 KiB through the page cache, each followed by fdatasync: what a log does at each commit.
fn measure_fsync(file: &File, limit_ns: u64) -> Measurement {
    let block = [0x5a; 4096];
    timed(limit_ns, u64::MAX, |index| {
        file.write_all_at(&block, index * 4096)?;
        file.sync_data()
    })
}

/// Writes up to `target` bytes in order. Direct writes skip the page cache but may stay in the device's own cache.
fn measure_sequential_write(
    file: &File,
    buffer: &mut AlignedBuffer,
    target: u64,
    limit_ns: u64,
) -> Measurement {
    let mut numbers = SplitMix64(clock::monotonic_ns());
    for word in buffer.bytes().chunks_exact_mut(8) {
        word.copy_from_slice(&numbers.next().to_le_bytes());
    }
    timed(limit_ns, target / CHUNK_BYTES as u64, |index| {
        // Every 4 KiB block differs from all others, so that no device saves the work of storing it.
        for (place, block) in buffer.bytes().chunks_exact_mut(4096).enumerate() {
            block[..8].copy_from_slice(&(index << 16 | place as u64).to_le_bytes());
        }
        file.write_all_at(buffer.bytes(), index * CHUNK_BYTES as u64)
    })
}

fn measure_sequential_read(
    file: &File,
    buffer: &mut [u8],
    file_bytes: u64,
    limit_ns: u64,
) -> Measurement {
    if file_bytes == 0 {
        return Err("nothing could be written to be read".to_string());
    }
    let chunks = file_bytes / CHUNK_BYTES as u64;
    timed(limit_ns, chunks, |index| file.read_exact_at(buffer, index * CHUNK_BYTES as u64))
}

/// Reads of the buffer's size at random multiples of it.
fn measure_random_read(
    file: &File,
    buffer: &mut [u8],
    file_bytes: u64,
    limit_ns: u64,
) -> Measurement {
    let places = file_bytes / buffer.len() as u64;
    let size = buffer.len() as u64;
    let mut numbers = SplitMix64(clock::monotonic_ns());
    timed(limit_ns, u64::MAX, |_| file.read_exact_at(buffer, numbers.next() % places * size))
}

/// Repeats an operation until the time or the count is reached, at least once, and times each.
fn timed(
    limit_ns: u64,
    most: u64,
    mut operation: impl FnMut(u64) -> std::io::Result<()>,
) -> Measurement {
    let start_ns = clock::monotonic_ns();
    let (mut count, mut sum, mut sum_of_squares, mut last_ns) = (0, 0.0, 0.0, start_ns);
    while count == 0 || (count < most && last_ns - start_ns < limit_ns) {
        operation(count).map_err(|error| error.to_string())?;
        let now_ns = clock::monotonic_ns();
        let took = (now_ns - last_ns) as f64;
        (sum, sum_of_squares) = (sum + took, sum_of_squares + took * took);
        (count, last_ns) = (count + 1, now_ns);
    }
    let n = count as f64;
    let mean = sum / n;
    // With one operation nothing is known of the spread: the error is then as large as the figure.
    let variance = if count > 1 {
        (sum_of_squares - n * mean * mean).max(0.0) / (n - 1.0)
    } else {
        mean * mean
    };
    Ok(Figure {
        per_second: 1e9 / mean,
        relative_error: (variance / n).sqrt() / mean,
        count,
        duration_ns: last_ns - start_ns,
    })
}

fn in_megabytes(figure: Figure) -> Figure {
    Figure { per_second: figure.per_second * CHUNK_BYTES as f64 / 1e6, ..figure }
}

/// The type of the directory's filesystem, if that is one of memory. Newer kernels accept O_DIRECT there, so a
/// refusal cannot be relied on to tell.
fn memory_filesystem(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = mount::parse(&kernel_text::read_known("/proc/self/mountinfo")?);
    let filesystem = &mount::of_path(&mounts, &directory)?.filesystem;
    mount::is_memory(filesystem).then(|| filesystem.clone())
}

/// A new file without a name. The name that it has between the two calls holds the process id and the time.
fn temporary_file(directory: &Path, flags: i32) -> Result<File, HostError> {
    let name = format!(".dbdyno-device-profile-{}-{}", std::process::id(), clock::monotonic_ns());
    let path = directory.join(name);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(&path);
    // A filesystem that refuses a flag may have made the file all the same.
    let removed = fs::remove_file(&path);
    let file = file.map_err(|error| HostError::file("create", &path, error))?;
    removed.map_err(|error| HostError::file("remove", &path, error))?;
    Ok(file)
}

/// Memory that starts at a multiple of [`ALIGNMENT`].
struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// The SplitMix64 generator (Steele, Lea, Flood 2014): places and contents need no better one.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_within_the_budget_and_leaves_nothing() {
        // Shows figures or reasons for all, the bound on time, and that the directory is empty afterwards.
        let directory = tempfile::tempdir().unwrap();
        let profile = DeviceProfile::measure(directory.path(), Budget(Duration::from_millis(400)));
        assert!(profile.duration_ns < 5_000_000_000, "{profile:?}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        for measurement in [&profile.fsync_per_s, &profile.sequential_read_mb_per_s] {
            match measurement {
                Ok(figure) => assert!(figure.per_second > 0.0 && figure.count > 0, "{profile:?}"),
                Err(reason) => assert!(!reason.is_empty()),
            }
        }
        assert_eq!(profile.rows().len(), 22);
    }

    #[test]
    fn gives_reasons_where_there_is_no_device() {
        // Shows the reason on a memory filesystem and for a directory that cannot be written.
        if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
            let profile = DeviceProfile::measure(memory.path(), Budget::default());
            let reason = profile.fsync_per_s.clone().unwrap_err();
            assert!(reason.contains("in memory"), "{reason}");
            let (name, value) = &profile.rows()[2];
            assert_eq!(*name, "fsync_per_s");
            assert!(value.starts_with("unavailable: "), "{value}");
        }
        let absent = DeviceProfile::measure(Path::new("/no/such/directory"), Budget::default());
        assert!(absent.random_read_4k_per_s.is_err());
    }

    #[test]
    fn times_and_aligns() {
        // Shows the count limit, one operation at least, an error as reason, and the alignment of the buffer.
        let figure = timed(u64::MAX, 5, |_| Ok(())).unwrap();
        assert_eq!(figure.count, 5);
        let figure = timed(0, 5, |_| Ok(())).unwrap();
        assert_eq!((figure.count, figure.relative_error), (1, 1.0));
        let refused = || std::io::Error::from_raw_os_error(libc::ENOSPC);
        assert!(timed(0, 5, |_| Err(refused())).unwrap_err().contains("No space"));
        let mut buffer = AlignedBuffer::new(8192);
        assert_eq!(buffer.bytes().as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(buffer.bytes().len(), 8192);
    }
}
