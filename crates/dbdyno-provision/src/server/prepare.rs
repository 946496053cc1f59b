//! The server's own directory: made, and given to the user that the server runs as.

use super::Site;
use crate::error::{ProvisionError, Trouble};
use crate::identity::Identity;
use crate::launch::root::MOUNT_POINT;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::Path;

/// Makes what is not there, without the data directory, and gives everything to the server's user.
pub(super) fn directories(site: &Site, identity: Identity) -> Result<(), ProvisionError> {
    if !site.directory.is_absolute() {
        let text = format!(
            "{} is no absolute path, which a server's directory must be",
            site.directory.display()
        );
        return Err(ProvisionError::new(Trouble::CannotWrite, text));
    }
    let root = site.directory.join(MOUNT_POINT);
    for directory in [&site.directory, &site.run(), &site.tmp(), &root] {
        fs::create_dir_all(directory).map_err(cannot("make", directory))?;
    }
    let log = site.log();
    OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&log)
        .map_err(cannot("make", &log))?;
    give(site, identity)
}

/// Makes a directory of the server's and gives it to its user.
pub(super) fn directory(path: &Path, identity: Identity) -> Result<(), ProvisionError> {
    fs::create_dir_all(path).map_err(cannot("make", path))?;
    set_mode(path, 0o700)?;
    give_tree(path, identity)
}

/// A copied data directory belongs to who copied it; servers insist on their own, closed to others.
fn give(site: &Site, identity: Identity) -> Result<(), ProvisionError> {
    set_mode(&site.directory, 0o711)?;
    set_mode(&site.run(), 0o711)?;
    if site.data().exists() {
        set_mode(&site.data(), 0o700)?;
    }
    give_tree(&site.directory, identity)
}

fn give_tree(path: &Path, identity: Identity) -> Result<(), ProvisionError> {
    if !identity.from_root {
        return Ok(());
    }
    let facts = fs::symlink_metadata(path).map_err(cannot("read", path))?;
    if (facts.uid(), facts.gid()) != (identity.uid, identity.gid) {
        lchown(path, Some(identity.uid), Some(identity.gid)).map_err(cannot("give away", path))?;
    }
    if facts.is_dir() {
        for entry in fs::read_dir(path).map_err(cannot("read", path))? {
            give_tree(&entry.map_err(cannot("read", path))?.path(), identity)?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), ProvisionError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(cannot("set the permissions of", path))
}

/// An error about a path, with what to do.
pub(super) fn cannot(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> ProvisionError + use<> {
    let path = path.display().to_string();
    move |error| {
        let text = format!("cannot {what} {path}: {error}; use --results DIR to work elsewhere");
        ProvisionError::new(Trouble::CannotWrite, text)
    }
}
