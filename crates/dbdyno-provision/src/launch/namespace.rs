//! Namespaces of a server: mounts, System V memory and `/dev/shm` of its own, so that what it leaves goes with it.
//!
//! Root always gives a server its own, if the host allows it; then nothing of it can stay behind in shared memory.
//! Another user does so only for programs that need their own root, in a user namespace, because it changes who the
//! server believes to be. Directories that the server's user may not pass are covered by an empty file system on which
//! only the server's own paths are mounted.

use super::order::LaunchOrder;
use super::root;
use crate::error::{ProvisionError, Trouble};
use crate::identity::Identity;
use crate::system_calls::{self, mount};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const NOTHING: &str = "none";

/// Whether programs with a root of their own can run here; else the reason, and what to do.
///
/// # Errors
/// The reason, as a sentence.
pub fn can_isolate() -> Result<(), String> {
    let is_root = system_calls::effective_user().0 == 0;
    let user = if is_root { 0 } else { libc::CLONE_NEWUSER };
    let refused = match system_calls::try_namespaces(libc::CLONE_NEWNS | user) {
        Ok(0) => return Ok(()),
        Ok(number) => io::Error::from_raw_os_error(number),
        Err(error) => error,
    };
    Err(lacking(is_root, &refused))
}

fn lacking(is_root: bool, refused: &io::Error) -> String {
    if is_root {
        format!(
            "this host lets not even root make mount namespaces ({refused}): run outside of the container, or give it CAP_SYS_ADMIN"
        )
    } else {
        format!(
            "this host lets only root make mount namespaces ({refused}): run dbdyno with sudo, or allow user namespaces"
        )
    }
}

/// Enters the namespaces that the order needs, and says where the program is in them.
pub(super) fn enter(order: &LaunchOrder) -> Result<PathBuf, ProvisionError> {
    let program = order.prefix.join(&order.program);
    let covered = covered(order);
    if !order.own_root && !order.identity.from_root {
        return Ok(program);
    }
    match unshare(order.identity) {
        Ok(()) => {}
        Err(_) if !order.own_root && covered.is_empty() => return Ok(program),
        Err(error) => {
            let reason = lacking(order.identity.from_root, &error);
            return Err(ProvisionError::new(Trouble::HostLacks, reason));
        }
    }
    let failed = |error: io::Error| {
        let text = format!("cannot arrange the server's mounts: {error}");
        ProvisionError::new(Trouble::HostLacks, text)
    };
    if order.own_root {
        root::enter(order).map_err(failed)?;
        return Ok(Path::new("/").join(&order.program));
    }
    // The server's own paths may lie in what gets covered: results in memory are below /dev/shm.
    let kept = [&order.prefix, &order.directory];
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        cover(shared_memory, &kept, "mode=1777").map_err(failed)?;
    }
    for ancestor in covered {
        cover(&ancestor, &kept, "mode=755").map_err(failed)?;
    }
    Ok(program)
}

fn unshare(identity: Identity) -> io::Result<()> {
    if identity.from_root {
        system_calls::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWIPC)?;
    } else {
        system_calls::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC)?;
        let Identity { uid, gid, .. } = identity;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    let private = libc::MS_REC | libc::MS_PRIVATE;
    mount(Path::new(NOTHING), Path::new("/"), "", private, "")
}

/// An empty `/dev/shm` in a new root, which goes with the namespace.
pub(super) fn private_shared_memory(place: &Path) -> io::Result<()> {
    if !place.is_dir() {
        return Ok(());
    }
    mount(Path::new("tmpfs"), place, "tmpfs", libc::MS_NOSUID | libc::MS_NODEV, "mode=1777")
}

/// The highest directories on the way to prefix and directory that the server's user may not pass.
fn covered(order: &LaunchOrder) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in [&order.prefix, &order.directory] {
        let mut ancestors: Vec<&Path> = path.ancestors().skip(1).collect();
        ancestors.reverse();
        let blocked = ancestors.into_iter().find(|ancestor| !may_pass(ancestor, order.identity));
        if let Some(blocked) = blocked
            && !found.iter().any(|known| known == blocked)
        {
            found.push(blocked.to_owned());
        }
    }
    found
}

/// Whether the permission bits let the user through. Access lists are not asked: covering once too often is harmless.
fn may_pass(directory: &Path, identity: Identity) -> bool {
    let Ok(facts) = fs::metadata(directory) else { return true };
    let shift = if facts.uid() == identity.uid {
        6
    } else if facts.gid() == identity.gid {
        3
    } else {
        0
    };
    facts.mode() >> shift & 1 == 1
}

/// Covers a directory with an empty file system that shows only those of `kept` that lie in it.
fn cover(ancestor: &Path, kept: &[&PathBuf], mode: &str) -> io::Result<()> {
    let mut open = Vec::new();
    for path in kept.iter().filter(|path| path.starts_with(ancestor)) {
        let handle = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(path)?;
        open.push((*path, handle));
    }
    mount(Path::new("tmpfs"), ancestor, "tmpfs", libc::MS_NOSUID | libc::MS_NODEV, mode)?;
    for (path, handle) in &open {
        fs::create_dir_all(path)?;
        bind_handle(handle, path)?;
    }
    Ok(())
}

/// Mounts an open directory or file at a place.
pub(super) fn bind_handle(handle: &File, place: &Path) -> io::Result<()> {
    let source = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    mount(&source, place, "", libc::MS_BIND | libc::MS_REC, "")
}
