//! The detail directory of one trial, written by the trial's own process.
//!
//! It is made under a name that begins with `.partial-`, each file and the directory are synced, and one rename puts
//! it in place: a detail directory with its final name is complete. It counts once its trial line is sealed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::error::{RecordError, Result};
use crate::layout::{self, LARGEST_TRIAL, TRIALS_DIRECTORY};

/// Writes the detail directory of one trial. Dropping it unfinished leaves a partial directory, which the next
/// resume or the end of the run removes.
#[derive(Debug)]
pub struct DetailWriter {
    run_directory: PathBuf,
    trial: u32,
    files: BTreeMap<String, String>,
}

impl DetailWriter {
    /// Begins the detail of a trial; what an earlier attempt left half-written is removed.
    ///
    /// # Errors
    /// [`RecordError::Exists`] if the detail is there already, [`RecordError::Refused`] if the plan index is too
    /// large, [`RecordError::Io`].
    pub fn create(run_directory: &Path, trial: u32) -> Result<DetailWriter> {
        if trial > LARGEST_TRIAL {
            let what = format!("trial numbers go up to {LARGEST_TRIAL}: split the experiment");
            return Err(RecordError::Refused { trial, what });
        }
        let path = layout::detail_path(run_directory, trial);
        if fs::exists(&path).map_err(RecordError::io("look for", &path))? {
            return Err(RecordError::Exists { path });
        }
        let partial = layout::partial_detail_path(run_directory, trial);
        disk::remove(&partial)?;
        fs::create_dir(&partial).map_err(RecordError::io("create", &partial))?;
        let files = BTreeMap::new();
        Ok(DetailWriter { run_directory: run_directory.to_owned(), trial, files })
    }

    /// Where the files are until [`DetailWriter::finish`].
    pub fn path(&self) -> PathBuf {
        layout::partial_detail_path(&self.run_directory, self.trial)
    }

    /// Writes one file and syncs it. Usual names are in [`layout::DETAIL_FILES`].
    ///
    /// # Errors
    /// [`RecordError::BadName`], [`RecordError::Exists`] if this file was written before, [`RecordError::Io`].
    pub fn write_file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        layout::check_name(name)?;
        let path = self.path().join(name);
        if self.files.contains_key(name) {
            return Err(RecordError::Exists { path });
        }
        disk::write_synced(&path, bytes)?;
        self.files.insert(name.to_owned(), disk::sha256_hex(bytes));
        Ok(())
    }

    /// Puts the directory in place and gives the SHA-256 (hexadecimal) of each file, for
    /// [`crate::TrialRecord::files`].
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub fn finish(self) -> Result<BTreeMap<String, String>> {
        let partial = self.path();
        disk::sync_directory(&partial)?;
        let path = layout::detail_path(&self.run_directory, self.trial);
        fs::rename(&partial, &path).map_err(RecordError::io("rename", &partial))?;
        disk::sync_directory(&self.run_directory.join(TRIALS_DIRECTORY))?;
        Ok(self.files)
    }
}

/// Names of the files in the detail directory of a trial, sorted; none if there is no directory.
pub(crate) fn file_names(run_directory: &Path, trial: u32) -> Result<Vec<String>> {
    let path = layout::detail_path(run_directory, trial);
    if !fs::exists(&path).map_err(RecordError::io("look for", &path))? {
        return Ok(Vec::new());
    }
    disk::names_in(&path)
}
