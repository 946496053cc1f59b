//! A template: a dataset loaded once into an engine's data directory, to be copied for every block.
//!
//! It is complete when `complete.json` says so for the same fingerprint and the same programs. One that was left half
//! loaded goes on where it stopped, unless the host was restarted since: loading forces nothing to disk before its end,
//! so what an unclean restart left cannot be trusted and is loaded again.

use crate::failure::Failure;
use crate::workspace::cannot;
use dbdyno_load::driver::STORAGE_FORMAT;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const COMPLETE: &str = "complete.json";
const LOADING: &str = "loading.json";
const LOCK: &str = "lock";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What a template directory says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    fingerprint: String,
    /// Version of a library, or what exactly was installed of a server.
    engine_version: String,
    storage_format: u32,
    boot_id: String,
}

/// A template directory, locked: another run that wants the same waits and finds it complete.
pub struct Template {
    directory: PathBuf,
    marker: Marker,
    _lock: File,
}

/// How far a template is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Loaded, and forced to disk.
    Complete,
    /// Half loaded by an attempt that can be trusted: loading goes on.
    Begun,
    /// There is nothing of use.
    Empty,
}

impl Template {
    /// Opens a template directory, making it if need be, and waits for its lock.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(
        directory: &Path,
        fingerprint: &str,
        engine_version: &str,
    ) -> Result<Template, Failure> {
        let lock = lock(directory)?;
        let marker = Marker {
            fingerprint: fingerprint.to_owned(),
            engine_version: engine_version.to_owned(),
            storage_format: STORAGE_FORMAT,
            boot_id: fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned(),
        };
        Ok(Template { directory: directory.to_owned(), marker, _lock: lock })
    }

    /// How far it is.
    pub fn state(&self) -> State {
        let finished = read_marker(&self.directory.join(COMPLETE));
        let same = |found: &Marker| {
            // Once complete and forced to disk, it does not matter whether the host was restarted since.
            *found == Marker { boot_id: found.boot_id.clone(), ..self.marker.clone() }
        };
        if finished.as_ref().is_some_and(same) {
            State::Complete
        } else if read_marker(&self.directory.join(LOADING)).as_ref() == Some(&self.marker) {
            State::Begun
        } else {
            State::Empty
        }
    }

    /// Notes that loading goes on or begins; what lies in `data` is removed if it is of no use.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn begin(&self, data: &Path) -> Result<State, Failure> {
        let state = self.state();
        if state == State::Empty {
            remove_if_there(&self.directory.join(COMPLETE))?;
            remove_if_there(&self.directory.join(LOADING))?;
            if data.exists() {
                fs::remove_dir_all(data).map_err(cannot("remove", data))?;
            }
        }
        Ok(state)
    }

    /// Notes that what lies there now is the beginning of a load that can be gone on with.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn begun(&self) -> Result<(), Failure> {
        write_marker(&self.directory.join(LOADING), &self.marker)
    }

    /// Notes that it is complete. The data must have been forced to disk before.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn complete(&self) -> Result<(), Failure> {
        write_marker(&self.directory.join(COMPLETE), &self.marker)?;
        remove_if_there(&self.directory.join(LOADING))
    }
}

fn lock(directory: &Path) -> Result<File, Failure> {
    fs::create_dir_all(directory).map_err(cannot("make", directory))?;
    let path = directory.join(LOCK);
    let lock = File::create(&path).map_err(cannot("make", &path))?;
    lock.lock().map_err(cannot("lock", &path))?;
    Ok(lock)
}

fn read_marker(path: &Path) -> Option<Marker> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Writes a marker so that it is there whole or not at all, also after a host crash.
fn write_marker(path: &Path, marker: &Marker) -> Result<(), Failure> {
    let text = serde_json::to_string(marker).map_err(Failure::json)?;
    let partial = path.with_extension("partial");
    let write = || {
        let file = File::create(&partial)?;
        std::io::Write::write_all(&mut &file, text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    };
    write().map_err(cannot("write", path))
}

fn remove_if_there(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(cannot("remove", path)(error))
        }
        _ => Ok(()),
    }
}
