//! Copies a data directory template, so that every block starts from the same loaded dataset.
//!
//! A file shares its blocks with the original where the filesystem can do that; otherwise its data is copied and
//! its holes stay holes (a memory-mapped engine's file is mostly hole). Nothing is synced: the caller decides.

use crate::HostError;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Size of one piece of a copy by reading and writing, bytes.
const PIECE_BYTES: usize = 1 << 20;

/// How the data of a file was copied. Later ones cost more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyMethod {
    /// The copy shares its blocks with the original until one of them is changed (FICLONE).
    Reflink,
    /// The kernel copied the data (copy_file_range); some filesystems share blocks here too.
    InKernel,
    /// The data was read and written.
    ReadWrite,
}

/// What a copy did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// The most costly method that any file needed; `None` if no file holds data.
    pub method: Option<CopyMethod>,
    /// Regular files copied.
    pub files: u64,
    /// Directories made, the destination itself included.
    pub directories: u64,
    /// Sum of the file lengths, holes included, bytes.
    pub length_bytes: u64,
    /// Bytes that were copied rather than shared or left as holes.
    pub copied_bytes: u64,
}

/// Copies the directory tree `from` to `to`, which must be absent or an empty directory outside of `from`. Modes and
/// owners are kept. Fails on anything that is no regular file or directory, at the first error, and then leaves
/// what it has made so far for the caller to remove. The tree must not change meanwhile.
pub fn copy_directory(from: &Path, to: &Path) -> Result<CopyReport, HostError> {
    let source = from.canonicalize().map_err(|error| HostError::file("open", from, error))?;
    let refuse = |reason| Err(HostError::Destination { path: to.to_path_buf(), reason });
    // The parent is asked before anything is made, so that a template never gains a directory.
    let parent = std::path::absolute(to).ok().and_then(|path| path.parent()?.canonicalize().ok());
    let is_within = |path: &Path| path.starts_with(&source);
    if parent.as_deref().is_some_and(is_within) {
        return refuse("it lies within the directory that is copied; choose another place");
    }
    make_directory(to)?;
    let destination = to.canonicalize().map_err(|error| HostError::file("open", to, error))?;
    if is_within(&destination) {
        return refuse("it is the directory that is copied; choose another place");
    }
    if !list(&destination)?.is_empty() {
        return refuse("the directory is not empty; remove it or choose another place");
    }
    let mut copy = Copy { report: CopyReport::default(), best: CopyMethod::Reflink };
    copy.directory(&source, &destination)?;
    Ok(copy.report)
}

struct Copy {
    report: CopyReport,
    /// The best method that has not been refused yet: a filesystem that refused one is not asked again.
    best: CopyMethod,
}

impl Copy {
    /// Fills the existing, empty directory `to`.
    fn directory(&mut self, from: &Path, to: &Path) -> Result<(), HostError> {
        for entry in list(from)? {
            let source = entry.path();
            let kind =
                entry.file_type().map_err(|error| HostError::file("read", &source, error))?;
            let target = to.join(entry.file_name());
            if kind.is_dir() {
                make_directory(&target)?;
                self.directory(&source, &target)?;
            } else if kind.is_file() {
                self.file(&source, &target)?;
            } else {
                let kind = if kind.is_symlink() { "a symbolic link" } else { "a special file" };
                return Err(HostError::NotCopied { path: source, kind });
            }
        }
        // Last, because the original's mode may forbid writing.
        let original = open(from)?;
        keep_owner_and_mode(&original, from, &open(to)?, to)?;
        self.report.directories += 1;
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<(), HostError> {
        let original = open(from)?;
        let copy = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(to)
            .map_err(|error| HostError::file("create", to, error))?;
        let length =
            original.metadata().map_err(|error| HostError::file("read", from, error))?.len();
        self.content(&original, &copy, length)
            .map_err(|error| HostError::file("copy data to", to, error))?;
        keep_owner_and_mode(&original, from, &copy, to)?;
        self.report.files += 1;
        self.report.length_bytes += length;
        Ok(())
    }

    fn content(&mut self, from: &File, to: &File, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        if self.best == CopyMethod::Reflink {
            if reflink(from, to)? {
                self.report.method = self.report.method.max(Some(CopyMethod::Reflink));
                return Ok(());
            }
            self.best = CopyMethod::InKernel;
        }
        to.set_len(length)?;
        let mut at = 0;
        while let Some((start, end)) = next_data(from, at, length)? {
            self.range(from, to, start, end)?;
            at = end;
        }
        Ok(())
    }

    /// Copies the bytes from `at` to `end`.
    fn range(&mut self, from: &File, to: &File, mut at: u64, end: u64) -> io::Result<()> {
        self.report.copied_bytes += end - at;
        while at < end && self.best == CopyMethod::InKernel {
            match copy_in_kernel(from, to, at, end - at)? {
                Some(count) => {
                    at += count;
                    self.report.method = self.report.method.max(Some(CopyMethod::InKernel));
                }
                None => self.best = CopyMethod::ReadWrite,
            }
        }
        if at == end {
            return Ok(());
        }
        self.report.method = Some(CopyMethod::ReadWrite);
        let mut piece = vec![0; PIECE_BYTES.min((end - at) as usize)];
        while at < end {
            let count = piece.len().min((end - at) as usize);
            from.read_exact_at(&mut piece[..count], at)?;
            to.write_all_at(&piece[..count], at)?;
            at += count as u64;
        }
        Ok(())
    }
}

/// Errors by which a kernel or filesystem says that it cannot copy in this way, rather than that copying failed.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [
        libc::EOPNOTSUPP,
        libc::ENOSYS,
        libc::ENOTTY,
        libc::EINVAL,
        libc::EXDEV,
        libc::EPERM,
        libc::ETXTBSY,
    ];
    error.raw_os_error().is_some_and(|code| refusals.contains(&code))
}

/// Lets the empty file `to` share all blocks of `from`; `false` if that cannot be done here.
fn reflink(from: &File, to: &File) -> io::Result<bool> {
    // SAFETY: both descriptors are open for the whole call; FICLONE takes a descriptor number, not a pointer.
    let result = unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE as _, from.as_raw_fd()) };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if is_refusal(&error) { Ok(false) } else { Err(error) }
}

/// Copies up to `count` bytes at the same place of both files; `None` if that cannot be done here.
fn copy_in_kernel(from: &File, to: &File, at: u64, count: u64) -> io::Result<Option<u64>> {
    let (mut source_at, mut target_at) = (at as libc::off64_t, at as libc::off64_t);
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(1 << 30);
    // SAFETY: both descriptors are open and both offsets are valid and writable for the whole call.
    let copied = unsafe {
        libc::copy_file_range(
            from.as_raw_fd(),
            &mut source_at,
            to.as_raw_fd(),
            &mut target_at,
            count,
            0,
        )
    };
    match copied {
        // Nothing before the end of the data: some filesystems say this instead of refusing. Reading decides.
        0 => Ok(None),
        1.. => Ok(Some(copied as u64)),
        _ => {
            let error = io::Error::last_os_error();
            if is_refusal(&error) { Ok(None) } else { Err(error) }
        }
    }
}

/// The next stretch of data at or after `at`, as start and end; `None` if only a hole follows. A filesystem that
/// knows no holes gives the rest of the file.
fn next_data(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= length {
        return Ok(None);
    }
    let Some(start) = seek(file, at, libc::SEEK_DATA).transpose()? else {
        return Ok(None);
    };
    let end = match seek(file, start, libc::SEEK_HOLE) {
        Some(end) => end?.min(length),
        None => length,
    };
    Ok((start < end).then_some((start, end)))
}

/// Seeks data or a hole. `None` if there is none before the end.
fn seek(file: &File, at: u64, whence: libc::c_int) -> Option<io::Result<u64>> {
    // SAFETY: the descriptor is open for the whole call; lseek touches no memory of ours.
    let found = unsafe { libc::lseek64(file.as_raw_fd(), at as libc::off64_t, whence) };
    if found >= 0 {
        return Some(Ok(found as u64));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENXIO) => None,
        Some(libc::EINVAL) if whence == libc::SEEK_DATA => Some(Ok(at)),
        Some(libc::EINVAL) => None,
        _ => Some(Err(error)),
    }
}

/// Makes the directory, open to this user only; an existing directory is left as it is.
fn make_directory(path: &Path) -> Result<(), HostError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(HostError::file("create the directory", path, error)),
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(|error| HostError::file("set the mode of", path, error)),
    }
}

fn list(path: &Path) -> Result<Vec<fs::DirEntry>, HostError> {
    let entries = fs::read_dir(path).and_then(Iterator::collect);
    entries.map_err(|error| HostError::file("list", path, error))
}

fn open(path: &Path) -> Result<File, HostError> {
    File::open(path).map_err(|error| HostError::file("open", path, error))
}

/// An engine that runs as its own user needs its own files back, and some refuse a directory that others can read.
fn keep_owner_and_mode(
    original: &File,
    from: &Path,
    copy: &File,
    to: &Path,
) -> Result<(), HostError> {
    let old = original.metadata().map_err(|error| HostError::file("read", from, error))?;
    let new = copy.metadata().map_err(|error| HostError::file("read", to, error))?;
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        fchown(copy, Some(old.uid()), Some(old.gid()))
            .map_err(|error| HostError::file("keep the owner of", to, error))?;
    }
    // Only now: a change of owner clears the special bits of the mode.
    copy.set_permissions(Permissions::from_mode(old.mode() & 0o7777))
        .map_err(|error| HostError::file("set the mode of", to, error))
}

#[cfg(test)]
mod tests;
