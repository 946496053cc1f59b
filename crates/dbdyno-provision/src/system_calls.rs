//! The system calls of this crate that the standard library does not have, each as a safe function.
//!
//! They are made by the launcher, which has one thread, or concern one process id; none takes memory that outlives
//! the call.

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero byte"))
}

/// mount(2). Without a kind of file system it binds or changes what is there, as the flags say.
pub fn mount(source: &Path, target: &Path, kind: &str, flags: u64, data: &str) -> io::Result<()> {
    let (source, target) = (text(source)?, text(target)?);
    let (kind, data) = (text(Path::new(kind))?, text(Path::new(data))?);
    // SAFETY: all four are strings that end in a zero byte and live until the call returns.
    checked(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags as libc::c_ulong,
            data.as_ptr().cast(),
        )
    })
}

/// The flags of the file system at a path, as statvfs(3) tells them.
pub fn mount_flags(path: &Path) -> io::Result<u64> {
    let path = text(path)?;
    // SAFETY: zero bytes are a valid statvfs, which has only numbers.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero byte, and `facts` is writable for the whole call.
    checked(unsafe { libc::statvfs(path.as_ptr(), &mut facts) })?;
    Ok(facts.f_flag)
}

/// unshare(2).
pub fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes flags and touches no memory of ours.
    checked(unsafe { libc::unshare(flags) })
}

/// chroot(2), and into its root.
pub fn change_root(path: &Path) -> io::Result<()> {
    std::os::unix::fs::chroot(path)?;
    std::env::set_current_dir("/")
}

/// setsid(2): a session and a process group of its own. A process that leads its group already has one.
pub fn own_session() {
    // SAFETY: takes nothing and touches no memory of ours.
    unsafe { libc::setsid() };
}

/// Gives up all rights but those of this user and group, for good.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: a list of no groups needs no memory; the others take numbers.
    unsafe {
        checked(libc::setgroups(0, std::ptr::null()))?;
        checked(libc::setresgid(gid, gid, gid))?;
        checked(libc::setresuid(uid, uid, uid))
    }
}

/// No program that this process executes gets more rights than it has now.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: takes numbers and touches no memory of ours.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

/// Orphans among the descendants become children of this process.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: takes numbers and touches no memory of ours.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// Sets a limit: as much of `wanted` as this process may have.
pub fn limit(resource: libc::__rlimit_resource_t, wanted: u64) -> io::Result<()> {
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `old` is writable for the whole call.
    checked(unsafe { libc::getrlimit(resource, &mut old) })?;
    let all = libc::rlimit { rlim_cur: wanted, rlim_max: old.rlim_max.max(wanted) };
    // SAFETY: `all` is readable for the whole call.
    if checked(unsafe { libc::setrlimit(resource, &all) }).is_ok() {
        return Ok(());
    }
    let some = libc::rlimit { rlim_cur: wanted.min(old.rlim_max), rlim_max: old.rlim_max };
    // SAFETY: `some` is readable for the whole call.
    checked(unsafe { libc::setrlimit(resource, &some) })
}

/// Sets the permissions that new files never get.
pub fn mask_permissions(mask: u32) {
    // SAFETY: takes a number, touches no memory of ours and cannot fail.
    unsafe { libc::umask(mask) };
}

/// Makes descriptor `to` another name of `from`; `to` survives exec only if `survives`.
pub fn duplicate(from: RawFd, to: RawFd, survives: bool) -> io::Result<()> {
    let flags = if survives { 0 } else { libc::O_CLOEXEC };
    if from == to {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a descriptor onto itself"));
    }
    // SAFETY: takes numbers; the callers pass `to` only where nothing else of this process uses it.
    let result = unsafe { libc::dup3(from, to, flags) };
    if result == to { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Marks every descriptor from `first` on to be closed at exec.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: takes numbers; marking closes nothing that this process still uses.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 {
        return Ok(());
    }
    // Kernels before 5.11 do not know the call.
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        if let Some(number) = number.filter(|number| *number >= first as RawFd) {
            // SAFETY: takes numbers; a descriptor that is gone by now is an error without effect.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// Sends a signal to a process, or with a negative number to a process group.
pub fn send_signal(pid: i32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: takes numbers and touches no memory of ours.
    checked(unsafe { libc::kill(pid, signal) })
}

/// Takes the exit status of a child of ours, if it has ended. Whether it is gone or never was ours is not told.
pub fn reap(pid: u32) {
    // SAFETY: a null status pointer is allowed, and the call does not block.
    unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), libc::WNOHANG) };
}

/// Removes a System V shared memory segment.
pub fn remove_segment(id: i32) -> io::Result<()> {
    // SAFETY: IPC_RMID reads no structure.
    checked(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) })
}

/// Removes a set of System V semaphores.
pub fn remove_semaphores(id: i32) -> io::Result<()> {
    // SAFETY: IPC_RMID reads no fourth argument.
    checked(unsafe { libc::semctl(id, 0, libc::IPC_RMID) })
}

/// The process that last changed a semaphore of a System V set.
pub fn semaphore_pid(id: i32, index: i32) -> io::Result<u32> {
    // SAFETY: GETPID reads no fourth argument.
    let pid = unsafe { libc::semctl(id, index, libc::GETPID) };
    u32::try_from(pid).map_err(|_| io::Error::last_os_error())
}

/// Who this process is.
pub fn effective_user() -> (u32, u32) {
    // SAFETY: both take nothing and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Tries namespaces in a child that ends at once: 0, or the error number of what was refused.
pub fn try_namespaces(flags: libc::c_int) -> io::Result<i32> {
    // SAFETY: the child makes only system calls, which is allowed after a fork with threads, and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above; the strings are constants that end in a zero byte.
        unsafe {
            let root = c"/".as_ptr();
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let refused = libc::unshare(flags) != 0
                || libc::mount(c"none".as_ptr(), root, std::ptr::null(), private, std::ptr::null())
                    != 0;
            libc::_exit(if refused { *libc::__errno_location() } else { 0 });
        }
    }
    let mut status = 0;
    // SAFETY: `status` is writable for the whole call.
    if child < 0 || unsafe { libc::waitpid(child, &mut status, 0) } != child {
        return Err(io::Error::last_os_error());
    }
    Ok(libc::WEXITSTATUS(status))
}
