//! Writes entries of an archive below a prefix, and refuses those that would be written elsewhere.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::Entry;

/// Writes below one directory of a prefix.
pub(crate) struct Writer {
    prefix: PathBuf,
    into: PathBuf,
    may_begin_at_root: bool,
    entries: usize,
    checked: Option<PathBuf>,
}

impl Writer {
    /// Into a directory of a prefix. Links that begin at the root are for prefixes that will be the root.
    pub(crate) fn new(prefix: &Path, into: &Path, may_begin_at_root: bool) -> io::Result<Writer> {
        fs::create_dir_all(into)?;
        let (prefix, into) = (prefix.canonicalize()?, into.canonicalize()?);
        if !into.starts_with(&prefix) {
            return Err(io::Error::other(format!("{} is not in the prefix", into.display())));
        }
        Ok(Writer { prefix, into, may_begin_at_root, entries: 0, checked: None })
    }

    /// How many entries were written.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Writes one entry.
    pub(crate) fn write(&mut self, path: &str, entry: Entry<'_>) -> io::Result<()> {
        let Some(below) = inside(Path::new(path)) else { return Err(leaves(path)) };
        if below.as_os_str().is_empty() {
            return Ok(());
        }
        let full = self.into.join(&below);
        if let Entry::Directory = entry {
            self.make_parent(&full.join("."), path)?;
            self.entries += 1;
            return Ok(());
        }
        self.make_parent(&full, path)?;
        self.clear(&full)?;
        match entry {
            Entry::Directory => {}
            Entry::File { mode, content } => {
                io::copy(content, &mut File::create_new(&full)?)?;
                // Everybody may read what a server has to read, whoever it runs as.
                set_mode(&full, (mode & 0o777) | 0o644)?;
            }
            Entry::Symlink { target } => {
                let parent = below.parent().unwrap_or(Path::new(""));
                let stays = inside(&parent.join(&target)).is_some();
                if !(stays || self.may_begin_at_root && target.is_absolute()) {
                    return Err(leaves(&format!("{path} -> {}", target.display())));
                }
                std::os::unix::fs::symlink(&target, &full)?;
            }
            Entry::Hardlink { target } => {
                let Some(first) = inside(Path::new(&target)) else { return Err(leaves(&target)) };
                let first = self.into.join(first).canonicalize()?;
                if !first.starts_with(&self.prefix) {
                    return Err(leaves(&target));
                }
                fs::hard_link(first, &full)?;
            }
        }
        self.entries += 1;
        Ok(())
    }

    /// Makes the directory of an entry, following no link out of the prefix.
    fn make_parent(&mut self, full: &Path, path: &str) -> io::Result<()> {
        let Some(parent) = full.parent() else { return Err(leaves(path)) };
        if self.checked.as_deref() == Some(parent) {
            return Ok(());
        }
        let mut made = self.into.clone();
        for part in parent.strip_prefix(&self.into).unwrap_or(Path::new("")).components() {
            made.push(part);
            match fs::symlink_metadata(&made) {
                Ok(found) if found.is_dir() => {}
                Ok(_) if made.canonicalize().is_ok_and(|real| real.starts_with(&self.prefix)) => {}
                Ok(_) => return Err(leaves(path)),
                Err(_) => {
                    fs::create_dir(&made)?;
                    set_mode(&made, 0o755)?;
                }
            }
        }
        self.checked = Some(parent.to_owned());
        Ok(())
    }

    /// Makes place for an entry: writing over a link would write to what it points to.
    fn clear(&mut self, full: &Path) -> io::Result<()> {
        match fs::symlink_metadata(full) {
            Ok(found) if found.is_dir() => {
                Err(io::Error::other(format!("{} is a directory already", full.display())))
            }
            Ok(_) => {
                self.checked = None;
                fs::remove_file(full)
            }
            Err(_) => Ok(()),
        }
    }
}

/// The path without `.` and `..`, if it does not begin at the root or lead above where it begins.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut below = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !below.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(below)
}

fn leaves(path: &str) -> io::Error {
    io::Error::other(format!("its entry {path} leads out of the directory it is unpacked into"))
}

/// Sets the mode of a file or directory.
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// What is done with a file: its path below the first directory, with `/`, and where it is.
pub(crate) type EachFile<'a> = &'a mut dyn FnMut(&str, &Path) -> io::Result<()>;

/// Visits all files and links below a directory in the order of their names; links are not followed.
pub(crate) fn each_file(directory: &Path, below: &str, visit: EachFile<'_>) -> io::Result<()> {
    let mut entries: Vec<fs::DirEntry> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        match entry.file_type()?.is_dir() {
            true => each_file(&entry.path(), &path, visit)?,
            false => visit(&path, &entry.path())?,
        }
    }
    Ok(())
}

/// Copies a directory with all that is in it into one that is there; directories become writable for their owner.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
            set_mode(&target, 0o755)?;
            copy_tree(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else {
            fs::copy(&source, &target)?;
            let mode = fs::metadata(&target)?.permissions().mode();
            set_mode(&target, (mode & 0o777) | 0o644)?;
        }
    }
    Ok(())
}
