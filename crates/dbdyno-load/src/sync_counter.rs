//! Counts what the process asks the kernel to force to disk, so that a durability setting can be held to its name.
//!
//! The C library's `fsync`, `fdatasync` and `msync` are defined here again: engines linked into this program call ours,
//! which count and then make the system call. So do libraries opened at run time, because a linker exports from a program
//! what a shared library that it links defines as well (`tests/sync_counter.rs` holds it to that). Writes to a file opened for synchronous writing are not seen.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

static SYNCS: AtomicU64 = AtomicU64::new(0);

/// Syncs of files and maps since the process began, all threads together.
pub fn syncs() -> u64 {
    SYNCS.load(Ordering::Relaxed)
}

fn as_c_int(result: libc::c_long) -> c_int {
    // The system call wrapper has set errno already; the C function's result is the same number.
    result as c_int
}

/// Replaces the C library's `fsync`.
///
/// # Safety
/// Any file descriptor may be passed; a wrong one is the kernel's error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(file: c_int) -> c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the call takes a descriptor only, and no memory.
    as_c_int(unsafe { libc::syscall(libc::SYS_fsync, file) })
}

/// Replaces the C library's `fdatasync`.
///
/// # Safety
/// Any file descriptor may be passed; a wrong one is the kernel's error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(file: c_int) -> c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the call takes a descriptor only, and no memory.
    as_c_int(unsafe { libc::syscall(libc::SYS_fdatasync, file) })
}

/// Replaces the C library's `msync`.
///
/// # Safety
/// As for the C function: the range must be mapped, otherwise the kernel returns an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(start: *mut c_void, length: usize, flags: c_int) -> c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel checks the range; nothing is dereferenced here.
    as_c_int(unsafe { libc::syscall(libc::SYS_msync, start, length, flags) })
}
