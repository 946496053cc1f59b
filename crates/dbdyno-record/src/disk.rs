//! The few file operations that a record needs: hash, write so that it survives a power cut, put in place by rename.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{RecordError, Result};

/// SHA-256 of the bytes, as 64 lower-case hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal digits of the bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// SHA-256 of a file's content, read piece by piece.
pub(crate) fn sha256_of_file(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(RecordError::io("read", path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match io::Read::read(&mut file, &mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(RecordError::io("read", path)(error)),
        }
    }
}

/// Writes a new file and waits until it is on the device. It must not exist.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create_new(path).map_err(RecordError::io("create", path))?;
    file.write_all(bytes).map_err(RecordError::io("write", path))?;
    file.sync_all().map_err(RecordError::io("sync", path))
}

/// Waits until the entries of a directory are on the device.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let directory = File::open(path).map_err(RecordError::io("open", path))?;
    directory.sync_all().map_err(RecordError::io("sync", path))
}

/// Removes a file, or a directory with all that is in it; nothing happens if it does not exist.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(RecordError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// The names in a directory, sorted; names that are not UTF-8 are left out, since no record has one.
pub(crate) fn names_in(path: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(RecordError::io("list", path))? {
        let entry = entry.map_err(RecordError::io("list", path))?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}
