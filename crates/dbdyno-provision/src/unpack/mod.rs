//! Unpacks zip and tar archives (plain, gzip, xz) into a prefix, by a recipe's list, without any tool of the host.
//!
//! What kind an archive is, is seen from its first bytes. Entries and links that lead out of the prefix are refused: a
//! package is trusted to hold a server, not to write anywhere.

mod pattern;
mod writer;

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use dbdyno_plan::Unpack;

use crate::error::{ProvisionError, Trouble};
use pattern::fits;
use writer::Writer;
pub(crate) use writer::{copy_tree, each_file, set_mode};

/// Unpacks a download by its recipe: first the download itself, then archives that came out of it, which are removed.
pub(crate) fn unpack(
    download: &Path,
    prefix: &Path,
    steps: &[Unpack],
) -> Result<(), ProvisionError> {
    for step in steps {
        let nested = match step.archive.as_str() {
            "" => None,
            pattern => Some(nested_archive(prefix, pattern)?),
        };
        let archive = nested.as_deref().unwrap_or(download);
        let into = prefix.join(&step.into);
        let mut writer =
            Writer::new(prefix, &into, false).map_err(|error| wrong(archive, error))?;
        read_archive(archive, &mut |path, entry| match wanted(step, path) {
            Some(path) => writer.write(&path, entry),
            None => Ok(()),
        })
        .map_err(|error| wrong(archive, error))?;
        if writer.entries() == 0 {
            let why = format!("it has nothing below `{}`", step.below);
            return Err(wrong(archive, io::Error::other(why)));
        }
        make_executable(&into, &step.executable).map_err(|error| wrong(archive, error))?;
        if let Some(nested) = nested {
            fs::remove_file(&nested).map_err(|error| wrong(&nested, error))?;
        }
    }
    Ok(())
}

/// Unpacks a whole root file system, in which links may begin at the root.
pub(crate) fn unpack_root(archive: &Path, prefix: &Path) -> Result<(), ProvisionError> {
    let unpack = || {
        let mut writer = Writer::new(prefix, prefix, true)?;
        read_archive(archive, &mut |path, entry| writer.write(path, entry))
    };
    unpack().map_err(|error| wrong(archive, error))
}

/// One entry of an archive.
pub(crate) enum Entry<'a> {
    /// A directory.
    Directory,
    /// A file with its mode and content.
    File { mode: u32, content: &'a mut dyn Read },
    /// A symbolic link to this.
    Symlink { target: PathBuf },
    /// A second name of a file that came before.
    Hardlink { target: String },
}

type Visit<'a> = &'a mut dyn FnMut(&str, Entry<'_>) -> io::Result<()>;

/// The path of an entry in the prefix, if the recipe wants it.
fn wanted(step: &Unpack, path: &str) -> Option<String> {
    let path = path.trim_start_matches("./").strip_prefix(step.below.as_str())?;
    let is_excluded = step.exclude.iter().any(|pattern| fits(pattern, path));
    (!path.is_empty() && !is_excluded).then(|| path.to_owned())
}

fn read_archive(archive: &Path, visit: Visit<'_>) -> io::Result<()> {
    let mut file = BufReader::new(File::open(archive)?);
    let mut first = [0; 6];
    let count = file.read(&mut first)?;
    file.rewind()?;
    match &first[..count] {
        [b'P', b'K', ..] => read_zip(file, visit),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            read_tar(liblzma::read::XzDecoder::new_multi_decoder(file), visit)
        }
        [0x1f, 0x8b, ..] => read_tar(flate2::read::MultiGzDecoder::new(file), visit),
        _ => read_tar(file, visit),
    }
}

fn read_zip(file: impl Read + Seek, visit: Visit<'_>) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(file)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let path = entry.name()?.into_owned();
        if entry.is_dir() {
            visit(&path, Entry::Directory)?;
        } else if entry.is_symlink() {
            let mut target = String::new();
            entry.read_to_string(&mut target)?;
            visit(&path, Entry::Symlink { target: target.into() })?;
        } else {
            let mode = entry.unix_mode().unwrap_or(0o644);
            visit(&path, Entry::File { mode, content: &mut entry })?;
        }
    }
    Ok(())
}

fn read_tar(stream: impl Read, visit: Visit<'_>) -> io::Result<()> {
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let target = entry.link_name()?.map(|target| target.into_owned());
        let mode = entry.header().mode()?;
        match (entry.header().entry_type(), target) {
            (tar::EntryType::Directory, _) => visit(&path, Entry::Directory)?,
            (tar::EntryType::Symlink, Some(target)) => visit(&path, Entry::Symlink { target })?,
            (tar::EntryType::Link, Some(target)) => {
                let target = target.to_string_lossy().into_owned();
                visit(&path, Entry::Hardlink { target })?;
            }
            (kind, _) if kind.is_file() || kind.is_gnu_sparse() => {
                visit(&path, Entry::File { mode, content: &mut entry })?;
            }
            // Devices and pipes of an image are of no use to a server.
            _ => {}
        }
    }
    Ok(())
}

/// The one file of the prefix that a pattern means.
fn nested_archive(prefix: &Path, pattern: &str) -> Result<PathBuf, ProvisionError> {
    let (parent, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let directory = prefix.join(parent);
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| fits(name, &entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (found, _) => {
            let count = if found.is_none() { "no file" } else { "several files" };
            let why = format!(
                "`archive = \"{pattern}\"` fits {count} of what was unpacked; correct the engine file"
            );
            Err(ProvisionError::new(Trouble::WrongContent, why))
        }
    }
}

/// Archives made for other systems may have lost the modes.
fn make_executable(directory: &Path, patterns: &[String]) -> io::Result<()> {
    for pattern in patterns {
        let mut count = 0;
        writer::each_file(directory, "", &mut |path, file| {
            if fits(pattern, path) {
                count += 1;
                writer::set_mode(file, 0o755)?;
            }
            Ok(())
        })?;
        if count == 0 {
            return Err(io::Error::other(format!(
                "`executable` has {pattern}, which fits no file"
            )));
        }
    }
    Ok(())
}

fn wrong(archive: &Path, error: io::Error) -> ProvisionError {
    let is_disk = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::PermissionDenied | io::ErrorKind::QuotaExceeded
    );
    let trouble = if is_disk { Trouble::CannotWrite } else { Trouble::WrongContent };
    ProvisionError::new(trouble, format!("cannot unpack {}: {error}", archive.display()))
}

#[cfg(test)]
mod tests;
