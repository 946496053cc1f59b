//! Facts that come from system calls and directory listings rather than from one text.

use crate::kernel_text;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::mem::{self, MaybeUninit};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The path itself or its nearest ancestor that exists, absolute and free of symbolic links.
pub(super) fn nearest_existing(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute.ancestors().find_map(|candidate| candidate.canonicalize().ok())
}

/// Number of cores in the affinity mask of the calling thread.
pub(super) fn cores_allowed() -> Option<u64> {
    // The kernel refuses a mask shorter than its own; 8,192 cores is the most that Linux is built for.
    let mut mask = [0_u64; 128];
    // SAFETY: the mask is a writable buffer of the length given; 0 means the calling thread.
    let result =
        unsafe { libc::sched_getaffinity(0, mem::size_of_val(&mask), mask.as_mut_ptr().cast()) };
    (result == 0).then(|| mask.iter().map(|word| u64::from(word.count_ones())).sum())
}

/// The different frequency governors of all cores, sorted, separated by commas.
pub(super) fn governors(cpus: &Path) -> Option<String> {
    let entries = std::fs::read_dir(cpus).ok()?;
    let names: BTreeSet<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| kernel_text::read_known(entry.path().join("cpufreq/scaling_governor")))
        .collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(","))
}

/// Soft limit on open files of this process.
pub(super) fn open_files_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid, writable rlimit for the whole call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (result == 0).then_some(limit.rlim_cur)
}

/// Bytes that an unprivileged user may still write in the filesystem of this path.
pub(crate) fn disk_free_bytes(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut filesystem = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte and the buffer is large enough for a statvfs.
    let result = unsafe { libc::statvfs(path.as_ptr(), filesystem.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: statvfs succeeded, so it has filled the whole structure.
    let filesystem = unsafe { filesystem.assume_init() };
    filesystem.f_bavail.checked_mul(filesystem.f_frsize)
}

/// Whether this process may create files in the directory.
pub(super) fn writable(directory: &Path) -> Option<bool> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: the path ends with a zero byte; access writes no memory of ours.
    let result = unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) };
    Some(result == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn reads_system_facts() {
        // Shows each call on this host, and governors on a made-up directory of cores.
        assert!(cores_allowed().is_some_and(|cores| cores >= 1));
        assert!(open_files_limit().is_some_and(|files| files > 10));
        assert_eq!(nearest_existing(Path::new("/no/such/dir")), Some(PathBuf::from("/")));
        assert_eq!(disk_free_bytes(Path::new("/no/such/dir")), None);
        assert_eq!(writable(Path::new("/no/such/dir")), Some(false));

        let cpus = tempfile::tempdir().unwrap();
        assert_eq!(governors(cpus.path()), None);
        for (core, governor) in [("cpu0", "powersave"), ("cpu1", "performance")] {
            let directory = cpus.path().join(core).join("cpufreq");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("scaling_governor"), format!("{governor}\n")).unwrap();
        }
        assert_eq!(governors(cpus.path()).as_deref(), Some("performance,powersave"));
    }
}
