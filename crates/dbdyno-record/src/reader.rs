//! Opens a run, sealed or not, and gives what it says. Only the plan and `trials.jsonl` are read until detail is asked for.
//!
//! Opening checks the whole chain of seals and the plan; [`Run::verify`] looks at the other files too. A run that was
//! stopped is readable: what is missing is in [`Run::gaps`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{RecordError, Result};
use crate::format::{Ended, Header, TrialRecord};
use crate::layout::{self, PLAN_FILE, TRIALS_FILE};
use crate::log::{self, Log};
use crate::{detail, disk};

/// A run as it was recorded.
#[derive(Debug)]
pub struct Run {
    /// The run directory.
    pub path: PathBuf,
    /// First line of the record.
    pub header: Header,
    /// The plan, byte for byte.
    pub plan: Vec<u8>,
    /// The sealed trials, in the order in which they ended.
    pub trials: Vec<TrialRecord>,
    /// SHA-256 (hexadecimal) of the added files, by name.
    pub files: BTreeMap<String, String>,
    /// Last line of the record; `None` if the run was stopped or still goes on.
    pub end: Option<Ended>,
    /// What is missing, apart from planned trials, which only the plan knows.
    pub gaps: Vec<Gap>,
}

/// Something that an unsealed run lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gap {
    /// The run has no last line: it was stopped, or still goes on.
    Unsealed,
    /// A line was being written when the run was stopped, or is being written now.
    TornLine {
        /// One-based line number in `trials.jsonl`.
        line: usize,
        /// How many bytes of it there are.
        bytes: usize,
    },
}

impl fmt::Display for Gap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::Unsealed => formatter.write_str(
                "the run is not sealed: it was stopped or still goes on; --resume measures what is missing",
            ),
            Gap::TornLine { line, bytes } => write!(
                formatter,
                "{TRIALS_FILE}, line {line}: not complete ({bytes} bytes), left out; --resume measures that trial again"
            ),
        }
    }
}

/// How far [`Run::verify`] looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyDepth {
    /// Whether each recorded file is there and no other is in a detail directory.
    Names,
    /// Also whether each file has the recorded SHA-256, which reads every byte of the run.
    Contents,
}

impl Run {
    /// Opens the run in a directory.
    ///
    /// # Errors
    /// [`RecordError::NotARun`], [`RecordError::MissingPlan`], [`RecordError::NewerFormat`],
    /// [`RecordError::Truncated`], [`RecordError::Edited`], [`RecordError::NotUnderstood`],
    /// [`RecordError::FileChanged`] for the plan, [`RecordError::Io`].
    pub fn open(run_directory: &Path) -> Result<Run> {
        let path = run_directory.join(TRIALS_FILE);
        let plan = read_plan(run_directory);
        // A newer format may keep its plan elsewhere, so the format is looked at before the plan is missed.
        if let Err(error @ RecordError::NotARun { .. }) = plan {
            return Err(error);
        }
        let bytes = fs::read(&path).map_err(RecordError::io("read", &path))?;
        let log = Log::parse(run_directory, &bytes)?;
        let plan = plan?;
        log::check_plan(run_directory, &log.header, &plan)?;
        let mut gaps = Vec::new();
        if log.end.is_none() {
            gaps.push(Gap::Unsealed);
        }
        if log.torn_bytes > 0 {
            gaps.push(Gap::TornLine { line: log.lines + 1, bytes: log.torn_bytes });
        }
        let Log { header, trials, files, end, .. } = log;
        Ok(Run { path: run_directory.to_owned(), header, plan, trials, files, end, gaps })
    }

    /// Whether the run is finished and sealed.
    pub fn is_sealed(&self) -> bool {
        self.end.is_some()
    }

    /// The sealed trial of this plan index.
    pub fn trial(&self, trial: u32) -> Option<&TrialRecord> {
        self.trials.iter().find(|record| record.trial == trial)
    }

    /// Plan indexes of the sealed trials.
    pub fn sealed(&self) -> BTreeSet<u32> {
        self.trials.iter().map(|record| record.trial).collect()
    }

    /// Reads a file of a trial's detail and checks it against the record.
    ///
    /// # Errors
    /// [`RecordError::FileChanged`] if the record has no such file or its SHA-256 differs, [`RecordError::Io`].
    pub fn read_detail(&self, trial: &TrialRecord, name: &str) -> Result<Vec<u8>> {
        let path = layout::detail_path(&self.path, trial.trial).join(name);
        read_checked(path, trial.files.get(name))
    }

    /// Reads an added file, for example `host.json`, and checks it against the record.
    ///
    /// # Errors
    /// [`RecordError::FileChanged`] if the record has no such file or its SHA-256 differs, [`RecordError::Io`].
    pub fn read_file(&self, name: &str) -> Result<Vec<u8>> {
        read_checked(self.path.join(name), self.files.get(name))
    }

    /// Looks at every file that the record names and gives each one that is missing, changed or not recorded.
    pub fn verify(&self, depth: VerifyDepth) -> Vec<RecordError> {
        let mut problems = Vec::new();
        for (name, sha256) in &self.files {
            problems.extend(verify_file(&self.path.join(name), sha256, depth));
        }
        for trial in &self.trials {
            let directory = layout::detail_path(&self.path, trial.trial);
            for (name, sha256) in &trial.files {
                problems.extend(verify_file(&directory.join(name), sha256, depth));
            }
            match detail::file_names(&self.path, trial.trial) {
                Ok(names) => problems.extend(
                    names.into_iter().filter(|name| !trial.files.contains_key(name)).map(|name| {
                        let what = "it was added after its trial was sealed";
                        RecordError::FileChanged { path: directory.join(name), what }
                    }),
                ),
                Err(error) => problems.push(error),
            }
        }
        problems
    }
}

/// Reads the plan of a run directory, and sees whether it is one.
pub(crate) fn read_plan(run_directory: &Path) -> Result<Vec<u8>> {
    let not_a_run = |why| Err(RecordError::NotARun { path: run_directory.to_owned(), why });
    if !run_directory.exists() {
        return not_a_run("it does not exist");
    }
    if !run_directory.is_dir() {
        return not_a_run("it is not a directory");
    }
    if !run_directory.join(TRIALS_FILE).exists() {
        return not_a_run("it has no trials.jsonl");
    }
    let path = run_directory.join(PLAN_FILE);
    match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(RecordError::MissingPlan { path })
        }
        read => read.map_err(RecordError::io("read", &path)),
    }
}

fn read_checked(path: PathBuf, sha256: Option<&String>) -> Result<Vec<u8>> {
    let Some(sha256) = sha256 else {
        return Err(RecordError::FileChanged { path, what: "the record names no such file" });
    };
    let bytes = fs::read(&path).map_err(RecordError::io("read", &path))?;
    if disk::sha256_hex(&bytes) != *sha256 {
        return Err(RecordError::FileChanged { path, what: CHANGED });
    }
    Ok(bytes)
}

fn verify_file(path: &Path, sha256: &str, depth: VerifyDepth) -> Option<RecordError> {
    let changed = |what| Some(RecordError::FileChanged { path: path.to_owned(), what });
    if !path.is_file() {
        return changed("missing");
    }
    match depth {
        VerifyDepth::Names => None,
        VerifyDepth::Contents => match disk::sha256_of_file(path) {
            Ok(found) if found == sha256 => None,
            Ok(_) => changed(CHANGED),
            Err(error) => Some(error),
        },
    }
}

const CHANGED: &str = "edited or truncated: its SHA-256 is not the recorded one";
