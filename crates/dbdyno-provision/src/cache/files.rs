//! What the cache does with files: make directories that everybody may enter, hash, remove, ask for room.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{ProvisionError, Trouble};

/// A server may run as another user than the one who fetched it, so directories are open to all.
const OPEN_TO_ALL: u32 = 0o755;

/// An error about a path that cannot be written.
pub(crate) fn cannot_write(verb: &str, path: &Path) -> impl Fn(io::Error) -> ProvisionError {
    let what = format!("cannot {verb} {}", path.display());
    move |error| {
        let advice = "use another directory: --cache DIR, or DBDYNO_CACHE in the environment";
        ProvisionError::new(Trouble::CannotWrite, format!("{what}: {error}; {advice}"))
    }
}

/// Makes a directory, and those above it, which everybody may enter whatever the umask is.
pub(crate) fn make_directory(path: &Path) -> Result<(), ProvisionError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    match DirBuilder::new().mode(OPEN_TO_ALL).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(cannot_write("make the directory", path)(error))
        }
        _ => fs::set_permissions(path, Permissions::from_mode(OPEN_TO_ALL))
            .map_err(cannot_write("open to all", path)),
    }
}

/// Removes a file, or a directory with all that is in it; nothing happens if it is not there.
pub(crate) fn remove(path: &Path) -> Result<(), ProvisionError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(cannot_write("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// SHA-256 of a file's content, as 64 lower-case hexadecimal digits.
pub(crate) fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// SHA-256 of a text, in the same form.
pub(crate) fn sha256_of_text(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Says so if the disk of a directory has not this much room.
pub(crate) fn need_room(directory: &Path, bytes: u64) -> Result<(), ProvisionError> {
    let Some(free) = free_bytes(directory).filter(|free| *free < bytes) else { return Ok(()) };
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let message = format!(
        "{} has {} MiB free, and about {} MiB are needed to fetch and unpack; make room, or use another directory: \
         --cache DIR, or DBDYNO_CACHE in the environment",
        directory.display(),
        mib(free),
        mib(bytes),
    );
    Err(ProvisionError::new(Trouble::CannotWrite, message))
}

/// Bytes that this user may still write there; unknown if the system does not say.
fn free_bytes(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    let mut filesystem = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte and the buffer is large enough for a statvfs.
    let result = unsafe { libc::statvfs(path.as_ptr(), filesystem.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: statvfs succeeded, so it has filled the whole structure.
    let filesystem = unsafe { filesystem.assume_init() };
    Some(filesystem.f_bavail * filesystem.f_frsize)
}
