//! A root directory for programs that bring their own libraries: an empty file system in memory onto which the parts of
//! the installed prefix are mounted, read-only, beside `/proc`, `/dev` and the server's directory at its own path.
//!
//! Nothing is written into the prefix, which other runs use at the same time, and everything goes with the namespace.

use super::namespace::private_shared_memory;
use super::order::LaunchOrder;
use crate::system_calls::{self, mount, mount_flags};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Name of the mount point in the server's directory.
pub(crate) const MOUNT_POINT: &str = "root";
/// What the prefix may have but the new root makes itself.
const OWN_PLACES: &[&str] = &["proc", "dev", "sys", "run", "tmp"];
/// What lists users: made anew, because the server's user may be one that the prefix does not know.
const USER_FILES: &[&str] = &["passwd", "group"];

/// Builds the root and enters it.
pub(super) fn enter(order: &LaunchOrder) -> io::Result<()> {
    let root = order.directory.join(MOUNT_POINT);
    mount(Path::new("tmpfs"), &root, "tmpfs", libc::MS_NOSUID | libc::MS_NODEV, "mode=755")
        .map_err(about("mount an empty root at", &root))?;
    let directory = order.directory.strip_prefix("/").unwrap_or(&order.directory);
    let opened = [directory.to_owned(), PathBuf::from("etc/passwd")];
    fill(&order.prefix, &root, Path::new(""), &opened)?;
    for place in ["proc", "dev"] {
        let target = root.join(place);
        fs::create_dir(&target)?;
        mount(&Path::new("/").join(place), &target, "", libc::MS_BIND | libc::MS_REC, "")
            .map_err(about("mount", &target))?;
    }
    private_shared_memory(&root.join("dev/shm"))?;
    for place in ["run", "tmp"] {
        let target = root.join(place);
        fs::create_dir(&target)?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o1777))?;
    }
    // What is below /tmp could not be shown if something else were mounted there.
    if !directory.starts_with("tmp") {
        bind(&order.directory.join("tmp"), &root.join("tmp"))?;
    }
    let own = root.join(directory);
    fs::create_dir_all(&own)?;
    // Without what is mounted below, which is this root.
    mount(&order.directory, &own, "", libc::MS_BIND, "").map_err(about("mount", &own))?;
    write_users(&root.join("etc"), order)?;
    system_calls::change_root(&root).map_err(about("enter", &root))
}

/// Shows each entry of `source` in `target`. Directories on the way to one of `opened` are made anew, so that more can
/// be put into them; everything else is mounted as it is.
fn fill(source: &Path, target: &Path, below: &Path, opened: &[PathBuf]) -> io::Result<()> {
    let entries = fs::read_dir(source).map_err(about("read", source))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let at_root = below.as_os_str().is_empty();
        let is_ours = at_root && OWN_PLACES.contains(&&*text)
            || below == Path::new("etc") && USER_FILES.contains(&&*text);
        if is_ours {
            continue;
        }
        let (from, to, path) = (entry.path(), target.join(&name), below.join(&name));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            if opened.iter().any(|opened| opened.starts_with(&path)) {
                fill(&from, &to, &path, opened)?;
            } else {
                bind_read_only(&from, &to)?;
            }
        } else if kind.is_file() {
            File::create(&to)?;
            bind_read_only(&from, &to)?;
        }
    }
    Ok(())
}

fn bind(source: &Path, target: &Path) -> io::Result<()> {
    mount(source, target, "", libc::MS_BIND | libc::MS_REC, "").map_err(about("mount", source))
}

fn bind_read_only(source: &Path, target: &Path) -> io::Result<()> {
    bind(source, target)?;
    // In a user namespace the flags that were there must stay; all but one have the same number in both calls.
    let there = mount_flags(target)?;
    let same = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOATIME;
    let same = same | libc::MS_NODIRATIME;
    let relative = if there & libc::ST_RELATIME != 0 { libc::MS_RELATIME } else { 0 };
    let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | there & same | relative;
    mount(source, target, "", flags, "").map_err(about("make read-only", target))
}

fn write_users(etc: &Path, order: &LaunchOrder) -> io::Result<()> {
    fs::create_dir_all(etc)?;
    let (uid, gid) = (order.identity.uid, order.identity.gid);
    let directory = order.within.display();
    let users = format!("root:x:0:0::/:/bin/false\nserver:x:{uid}:{gid}::{directory}:/bin/false\n");
    fs::write(etc.join("passwd"), users)?;
    fs::write(etc.join("group"), format!("root:x:0:\nserver:x:{gid}:\n"))
}

fn about(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error + use<> {
    let path = path.display().to_string();
    move |error| io::Error::new(error.kind(), format!("{doing} {path}: {error}"))
}
