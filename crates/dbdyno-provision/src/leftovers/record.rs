//! What is written down before a server begins, so that it can be found after dbdyno was killed.
//!
//! Records lie in one directory per user: `$XDG_RUNTIME_DIR/dbdyno` if that is the user's own, else `/run/dbdyno` if
//! it can be made, else `/tmp/dbdyno-UID`. They cannot lie beside the results, because nobody says which those were.

use crate::error::{ProvisionError, Trouble};
use crate::identity::{Identity, ProcessMark};
use crate::system_calls;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file or directory by device and number, whatever it is called in which namespace.
pub(crate) type FileMark = (u64, u64);

/// One server that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The number of this format.
    pub format: u32,
    /// What the server is called in messages.
    pub name: String,
    /// Its secret name, which is in its environment.
    pub nonce: String,
    /// Which start of the host it belongs to.
    pub boot: String,
    /// Who it runs as.
    pub identity: Identity,
    /// Its process.
    pub server: ProcessMark,
    /// Who started it.
    pub parent: ProcessMark,
    /// Its own directory.
    pub directory: PathBuf,
    /// Its socket.
    pub socket: PathBuf,
    /// Its program, below the prefix.
    pub program: String,
    /// Its program file.
    pub program_mark: FileMark,
    /// Directories that its processes work in: data and run directory.
    pub work_marks: Vec<FileMark>,
    /// What is mounted for it, in its own namespace, which goes with its last process.
    pub mounts: Vec<String>,
    /// When it was started, seconds of the wall clock: older shared memory is not its own.
    pub started_s: u64,
    /// Files in `/dev/shm` that were seen in its memory.
    pub shared_files: Vec<PathBuf>,
}

/// The number of the format of records.
pub(crate) const RECORD_FORMAT: u32 = 1;

impl Record {
    /// Writes it, whole or not at all.
    pub(crate) fn write(&self, path: &Path) -> Result<(), ProvisionError> {
        let fresh = path.with_extension("new");
        let text = serde_json::to_vec(self).unwrap_or_default();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&fresh)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&fresh, path));
        written.map_err(|error| cannot_write(path, &error))
    }

    /// All records of a directory, with their paths; what cannot be read is of another format and left alone.
    pub(crate) fn all(state: &Path) -> Result<Vec<(PathBuf, Record)>, ProvisionError> {
        let entries = match fs::read_dir(state) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(cannot_write(state, &error)),
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
        let read = |path: PathBuf| {
            let record: Record = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            (record.format == RECORD_FORMAT).then_some((path, record))
        };
        Ok(paths.filter_map(read).collect())
    }
}

/// The file of a server's record.
pub(crate) fn record_path(state: &Path, nonce: &str) -> PathBuf {
    state.join(nonce).with_extension("json")
}

/// Where the calling user's records are; made if it is not there.
///
/// # Errors
/// If none of the three places can be used.
pub fn state_directory() -> Result<PathBuf, ProvisionError> {
    let (uid, _) = system_calls::effective_user();
    let is_own = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir() && facts.uid() == uid)
    };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && is_own(path));
    let places = [
        runtime.map(|path| path.join("dbdyno")),
        (uid == 0).then(|| PathBuf::from("/run/dbdyno")),
        Some(PathBuf::from(format!("/tmp/dbdyno-{uid}"))),
    ];
    for place in places.into_iter().flatten() {
        let _ = DirBuilder::new().mode(0o700).create(&place);
        // Somebody else may have made the name in /tmp before: then it is not used.
        let facts = fs::symlink_metadata(&place);
        if is_own(&place) && facts.is_ok_and(|facts| facts.mode() & 0o077 == 0) {
            return Ok(place);
        }
    }
    let text = format!(
        "there is no place for the records of running servers: make /tmp/dbdyno-{uid} a directory of your own with mode 700, or set XDG_RUNTIME_DIR to such a directory"
    );
    Err(ProvisionError::new(Trouble::CannotWrite, text))
}

fn cannot_write(path: &Path, error: &io::Error) -> ProvisionError {
    let text = format!(
        "cannot write the record of a server, {}: {error}; set XDG_RUNTIME_DIR to a directory of your own",
        path.display()
    );
    ProvisionError::new(Trouble::CannotWrite, text)
}

/// Device and number of what a path leads to.
pub(crate) fn file_mark(path: &Path) -> Option<FileMark> {
    fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()))
}
