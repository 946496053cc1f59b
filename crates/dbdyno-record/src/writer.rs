//! The one writer of a run: makes the directory, seals trials as they end, adds files, seals the run.
//!
//! Whatever a call of this file has returned `Ok` for is on the device and survives a kill and a power cut. A lock on
//! `trials.jsonl`, held as long as the writer lives, keeps a second writer out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{RecordError, Result};
use crate::format::{Ended, FileRecord, Header, TrialRecord};
use crate::layout::{
    self, PARTIAL_PREFIX, PLAN_FILE, PLAN_FORMAT, RECORD_FORMAT, TRIALS_DIRECTORY, TRIALS_FILE,
};
use crate::log::{self, Log};
use crate::{detail, disk, seal};

/// What a new run begins with.
#[derive(Debug, Clone, Copy)]
pub struct NewRun<'a> {
    /// Run id, see [`crate::new_run_id`].
    pub run: &'a str,
    /// The resolved plan as JSON text; its top level has `"format": 1`. Written byte for byte.
    pub plan: &'a [u8],
    /// When the run began, see [`crate::utc_text`].
    pub started_utc: &'a str,
}

/// Something that resuming removed because it was never sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// The last line of `trials.jsonl`, which was not complete.
    TornLine {
        /// One-based line number.
        line: usize,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A complete detail directory of a trial that was not sealed.
    UnsealedDetail {
        /// Plan index of the trial.
        trial: u32,
    },
    /// A file or directory that was being written.
    Partial {
        /// Its path in the run directory.
        name: String,
    },
}

impl fmt::Display for Dropped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dropped::TornLine { line, bytes } => {
                write!(
                    formatter,
                    "{TRIALS_FILE}, line {line}: {bytes} bytes of a line that was being written"
                )
            }
            Dropped::UnsealedDetail { trial } => {
                write!(formatter, "the detail of trial {trial}, which was not sealed")
            }
            Dropped::Partial { name } => write!(formatter, "{name}, which was being written"),
        }
    }
}

/// Writes one run.
#[derive(Debug)]
pub struct RunWriter {
    path: PathBuf,
    log: File,
    /// Length of the log up to its last sealed line, in bytes.
    log_bytes: u64,
    last_seal: String,
    plan_sha256: String,
    sealed: BTreeSet<u32>,
    files: BTreeMap<String, String>,
    /// An append failed and could not be taken back.
    is_stopped: bool,
}

impl RunWriter {
    /// Makes the directory of a new run in `results` (made too if missing), under a partial name first, so that a
    /// directory with the name of a run always has its plan and header.
    ///
    /// # Errors
    /// [`RecordError::BadName`], [`RecordError::BadPlan`], [`RecordError::Exists`], [`RecordError::Io`].
    pub fn create(results: &Path, new: &NewRun<'_>) -> Result<RunWriter> {
        layout::check_run_id(new.run)?;
        match log::plan_format(new.plan) {
            Ok(PLAN_FORMAT) => {}
            Ok(other) => {
                let what = format!("its format is {other}, this program writes {PLAN_FORMAT}");
                return Err(RecordError::BadPlan { what });
            }
            Err(what) => return Err(RecordError::BadPlan { what }),
        }
        let path = results.join(new.run);
        if fs::exists(&path).map_err(RecordError::io("look for", &path))? {
            return Err(RecordError::Exists { path });
        }
        fs::create_dir_all(results).map_err(RecordError::io("create", results))?;
        let partial = results.join(format!("{PARTIAL_PREFIX}{}", new.run));
        fs::create_dir(&partial).map_err(RecordError::io("create", &partial))?;
        let begun = RunWriter::begin(&partial, new).and_then(|writer| {
            fs::rename(&partial, &path).map_err(RecordError::io("rename", &partial))?;
            disk::sync_directory(results)?;
            Ok(RunWriter { path, ..writer })
        });
        if begun.is_err() {
            // Nothing was recorded; the reason why it failed is worth more than a failure to tidy up.
            let _ = disk::remove(&partial);
        }
        begun
    }

    fn begin(directory: &Path, new: &NewRun<'_>) -> Result<RunWriter> {
        disk::write_synced(&directory.join(PLAN_FILE), new.plan)?;
        let trials = directory.join(TRIALS_DIRECTORY);
        fs::create_dir(&trials).map_err(RecordError::io("create", &trials))?;
        let log_path = directory.join(TRIALS_FILE);
        let log = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&log_path)
            .map_err(RecordError::io("create", &log_path))?;
        lock(&log, &log_path)?;
        let plan_sha256 = disk::sha256_hex(new.plan);
        let mut writer = RunWriter {
            path: directory.to_owned(),
            log,
            log_bytes: 0,
            last_seal: String::new(),
            plan_sha256: plan_sha256.clone(),
            sealed: BTreeSet::new(),
            files: BTreeMap::new(),
            is_stopped: false,
        };
        let header = Header {
            format: RECORD_FORMAT,
            run: new.run.to_owned(),
            plan_sha256,
            started_utc: new.started_utc.to_owned(),
        };
        writer.append("record", &header)?;
        disk::sync_directory(directory)?;
        Ok(writer)
    }

    /// Opens an unsealed run to go on with it. Every seal and the plan are checked; what was not sealed is removed
    /// and reported.
    ///
    /// # Errors
    /// [`RecordError::Locked`] while another process writes it, [`RecordError::AlreadySealed`], and what
    /// [`crate::Run::open`] gives for a record that cannot be read.
    pub fn resume(run_directory: &Path) -> Result<(RunWriter, Vec<Dropped>)> {
        let log_path = run_directory.join(TRIALS_FILE);
        let plan = crate::reader::read_plan(run_directory)?;
        let mut log = OpenOptions::new()
            .read(true)
            .append(true)
            .open(&log_path)
            .map_err(RecordError::io("open", &log_path))?;
        lock(&log, &log_path)?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes).map_err(RecordError::io("read", &log_path))?;
        let parsed = Log::parse(run_directory, &bytes)?;
        log::check_plan(run_directory, &parsed.header, &plan)?;
        if parsed.end.is_some() {
            return Err(RecordError::AlreadySealed { path: run_directory.to_owned() });
        }
        let mut writer = RunWriter {
            path: run_directory.to_owned(),
            log,
            log_bytes: (bytes.len() - parsed.torn_bytes) as u64,
            last_seal: parsed.last_seal,
            plan_sha256: parsed.header.plan_sha256,
            sealed: parsed.trials.iter().map(|trial| trial.trial).collect(),
            files: parsed.files,
            is_stopped: false,
        };
        let mut dropped = Vec::new();
        if parsed.torn_bytes > 0 {
            writer.truncate().map_err(RecordError::io("truncate", &log_path))?;
            dropped.push(Dropped::TornLine { line: parsed.lines + 1, bytes: parsed.torn_bytes });
        }
        writer.remove_partials(&mut dropped)?;
        writer.remove_unsealed_details(&mut dropped)?;
        Ok((writer, dropped))
    }

    /// The run directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Plan indexes of the trials that are sealed.
    pub fn sealed(&self) -> &BTreeSet<u32> {
        &self.sealed
    }

    /// SHA-256 (hexadecimal) of the files that were added, by name.
    pub fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }

    /// Appends the line of a trial that ended and waits until it is on the device. Its detail directory, if it has
    /// one, must be in place and hold exactly the files of the record.
    ///
    /// # Errors
    /// [`RecordError::Refused`] if the record says something that must not be written or the trial is sealed
    /// already, [`RecordError::Io`]; in both cases the run is as before.
    pub fn seal_trial(&mut self, trial: &TrialRecord) -> Result<()> {
        let refuse = |what| RecordError::Refused { trial: trial.trial, what };
        trial.check().map_err(refuse)?;
        if self.sealed.contains(&trial.trial) {
            return Err(refuse(
                "it is sealed already, and a record is never overwritten".to_owned(),
            ));
        }
        let present = detail::file_names(&self.path, trial.trial)?;
        if !present.iter().eq(trial.files.keys()) {
            let recorded: Vec<&str> = trial.files.keys().map(String::as_str).collect();
            return Err(refuse(format!(
                "its detail directory holds [{}], its record [{}]",
                present.join(", "),
                recorded.join(", ")
            )));
        }
        self.append("trial", trial)?;
        self.sealed.insert(trial.trial);
        Ok(())
    }

    /// Removes the detail, complete or not, of a trial that is not sealed: for one that failed after writing it.
    ///
    /// # Errors
    /// [`RecordError::Refused`] if the trial is sealed, [`RecordError::Io`].
    pub fn discard_detail(&mut self, trial: u32) -> Result<()> {
        if self.sealed.contains(&trial) {
            let what = "it is sealed, and its detail stays".to_owned();
            return Err(RecordError::Refused { trial, what });
        }
        disk::remove(&layout::partial_detail_path(&self.path, trial))?;
        disk::remove(&layout::detail_path(&self.path, trial))
    }

    /// Adds a file to the run directory, at any time before the run is sealed.
    ///
    /// # Errors
    /// [`RecordError::BadName`], [`RecordError::Exists`] if the run has this file already, [`RecordError::Io`].
    pub fn add_file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        layout::check_name(name)?;
        let path = self.path.join(name);
        let is_taken = [PLAN_FILE, TRIALS_FILE, TRIALS_DIRECTORY].contains(&name);
        if is_taken || self.files.contains_key(name) || path.is_dir() {
            return Err(RecordError::Exists { path });
        }
        let partial = self.path.join(format!("{PARTIAL_PREFIX}{name}"));
        disk::remove(&partial)?;
        disk::write_synced(&partial, bytes)?;
        fs::rename(&partial, &path).map_err(RecordError::io("rename", &partial))?;
        disk::sync_directory(&self.path)?;
        let file = FileRecord { name: name.to_owned(), sha256: disk::sha256_hex(bytes) };
        self.append("file", &file)?;
        self.files.insert(file.name, file.sha256);
        Ok(())
    }

    /// Seals the run: nothing can be added afterwards.
    ///
    /// # Errors
    /// [`RecordError::Io`]; the run is then unsealed as before and can be resumed.
    pub fn finish(mut self, ended_utc: &str) -> Result<()> {
        self.remove_partials(&mut Vec::new())?;
        let mut files = self.files.clone();
        files.insert(PLAN_FILE.to_owned(), self.plan_sha256.clone());
        let trials = self.sealed.len() as u32;
        self.append("end", &Ended { trials, ended_utc: ended_utc.to_owned(), files })
    }

    /// Appends one line and syncs it, or takes back what was written of it.
    fn append(&mut self, kind: &str, body: &impl Serialize) -> Result<()> {
        let path = self.path.join(TRIALS_FILE);
        if self.is_stopped {
            return Err(RecordError::WriterStopped { path });
        }
        let body = serde_json::to_string(body)
            .map_err(|error| RecordError::io("encode", &path)(error.into()))?;
        let (mut line, seal) = seal::seal_line(&self.last_seal, kind, &body);
        line.push('\n');
        let written = self.log.write_all(line.as_bytes()).and_then(|()| self.log.sync_data());
        if let Err(error) = written {
            self.is_stopped = self.truncate().is_err();
            return Err(RecordError::io("write", &path)(error));
        }
        self.log_bytes += line.len() as u64;
        self.last_seal = seal;
        Ok(())
    }

    /// Cuts the log behind its last sealed line.
    fn truncate(&mut self) -> std::io::Result<()> {
        self.log.set_len(self.log_bytes)?;
        self.log.sync_data()
    }

    fn remove_partials(&self, dropped: &mut Vec<Dropped>) -> Result<()> {
        for (directory, shown) in
            [(self.path.clone(), ""), (self.path.join(TRIALS_DIRECTORY), "trials/")]
        {
            for name in disk::names_in(&directory)? {
                if name.starts_with(PARTIAL_PREFIX) {
                    disk::remove(&directory.join(&name))?;
                    dropped.push(Dropped::Partial { name: format!("{shown}{name}") });
                }
            }
        }
        Ok(())
    }

    fn remove_unsealed_details(&self, dropped: &mut Vec<Dropped>) -> Result<()> {
        for name in disk::names_in(&self.path.join(TRIALS_DIRECTORY))? {
            let Ok(trial) = name.parse::<u32>() else { continue };
            if name == layout::detail_name(trial) && !self.sealed.contains(&trial) {
                disk::remove(&layout::detail_path(&self.path, trial))?;
                dropped.push(Dropped::UnsealedDetail { trial });
            }
        }
        Ok(())
    }
}

fn lock(log: &File, path: &Path) -> Result<()> {
    log.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => RecordError::Locked { path: path.to_owned() },
        TryLockError::Error(source) => RecordError::io("lock", path)(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_that_cannot_be_taken_back_stops_the_writer_and_says_what_to_do() {
        let results = tempfile::tempdir().unwrap();
        let new = NewRun { run: "r", plan: b"{\"format\":1}", started_utc: "x" };
        let mut writer = RunWriter::create(results.path(), &new).unwrap();
        // This device is always full, and it cannot be truncated.
        writer.log = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let full = writer.add_file("host.json", b"{}").unwrap_err().to_string();
        assert!(full.contains("cannot write") && full.contains("free some space"), "{full}");
        let stopped = writer.add_file("host.json", b"{}").unwrap_err();
        assert!(matches!(stopped, RecordError::WriterStopped { .. }), "{stopped}");
        let path = writer.path().to_owned();
        drop(writer);
        let (mut writer, _) = RunWriter::resume(&path).unwrap();
        writer.add_file("host.json", b"{}").unwrap();
        writer.finish("y").unwrap();
    }
}
