//! What can go wrong with a record, each with the file, the line where there is one, and what to do.
//!
//! Nothing here ends the program: the command maps these to exit codes.

use std::io;
use std::path::{Path, PathBuf};

use crate::layout::{PLAN_FILE, RECORD_FORMAT, TRIALS_FILE};

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused a file operation.
    #[error("cannot {doing} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// The operation, as a verb: "write", "read", "sync", ...
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The record says a format number that this program does not know yet.
    #[error(
        "{}, line 1: written by a newer dbdyno (format {found}, this one reads up to {newest}): upgrade dbdyno",
        path.display()
    )]
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// Its format number.
        found: u32,
        /// The newest format number that this program reads.
        newest: u32,
    },
    /// The record ends before its first line does: there is nothing to read or to resume.
    #[error("{}, line 1: truncated, the header is not complete: nothing was recorded, delete the run", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// A line was changed, moved, removed or inserted after it was sealed.
    #[error(
        "{}, line {line}: {what}. A record is never edited: restore this run from a copy, or measure again",
        path.display()
    )]
    Edited {
        /// The file.
        path: PathBuf,
        /// One-based line number.
        line: usize,
        /// What does not agree.
        what: String,
    },
    /// A line is sealed correctly but says something that this program cannot read.
    #[error(
        "{}, line {line}: not understood ({what}). Another version of dbdyno wrote it: use the newest",
        path.display()
    )]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// One-based line number.
        line: usize,
        /// What the parser said.
        what: String,
    },
    /// A file of the run is not the one that was recorded.
    #[error("{}: {what}. Restore this run from a copy, or measure again", path.display())]
    FileChanged {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// The run directory has no plan.
    #[error("{}: missing. A run without its plan cannot be read: restore it from a copy of the run", path.display())]
    MissingPlan {
        /// Where the plan should be.
        path: PathBuf,
    },
    /// The directory is not a run.
    #[error(
        "{} is not a run directory ({why}): name a directory that holds {PLAN_FILE} and {TRIALS_FILE}",
        path.display()
    )]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        why: &'static str,
    },
    /// No run has this id.
    #[error("no run `{name}` in {}{}", results.display(), near_names(near))]
    UnknownRun {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        results: PathBuf,
        /// Ids that look like it, nearest first; empty when the directory holds no run.
        near: Vec<String>,
    },
    /// Several runs begin with this.
    #[error("`{name}` begins several runs in {}: {}. Give more of the id", results.display(), matches.join(", "))]
    AmbiguousRun {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        results: PathBuf,
        /// The ids that begin with it.
        matches: Vec<String>,
    },
    /// Another process is writing this run.
    #[error("{}: another dbdyno is writing this run: wait for it or stop it, then try again", path.display())]
    Locked {
        /// The locked file.
        path: PathBuf,
    },
    /// There is a run, trial or file of this name already, and records are never overwritten.
    #[error("{}: exists already, and a record is never overwritten", path.display())]
    Exists {
        /// What exists.
        path: PathBuf,
    },
    /// The run is finished: nothing can be added to it.
    #[error("{}: the run is sealed, nothing can be added: start a new run", path.display())]
    AlreadySealed {
        /// The run directory.
        path: PathBuf,
    },
    /// The plan given to a new run is not one.
    #[error("the plan cannot be recorded: {what}")]
    BadPlan {
        /// What is wrong with it.
        what: String,
    },
    /// A name cannot be used for a file or directory of a record.
    #[error("the name {name:?} cannot be used in a record: {what}")]
    BadName {
        /// The name.
        name: String,
        /// The rule that it breaks.
        what: &'static str,
    },
    /// A trial record was refused: it says something that must not be written.
    #[error("trial {trial} cannot be sealed: {what}")]
    Refused {
        /// The plan index of the trial.
        trial: u32,
        /// What is wrong with it.
        what: String,
    },
    /// An interval log could not be written or read.
    #[error("interval log, line {line}: {what}")]
    IntervalLog {
        /// One-based line number, or 0 where an interval to be written is wrong.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// An earlier write failed and could not be undone, so the writer stopped.
    #[error("{}: an earlier write failed half-way; make room, then use --resume", path.display())]
    WriterStopped {
        /// The file.
        path: PathBuf,
    },
}

/// Result of everything in this crate.
pub type Result<T> = std::result::Result<T, RecordError>;

impl RecordError {
    /// Names the operation and the path of an operating system error.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
        move |source| RecordError::Io { doing, path: path.to_owned(), source }
    }

    /// A record format that is newer than this program.
    pub(crate) fn newer_record(path: &Path, found: u32) -> RecordError {
        RecordError::NewerFormat { path: path.to_owned(), found, newest: RECORD_FORMAT }
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ": free some space (what was sealed before is safe), then use --resume"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ": give a directory that you may write with --results DIR"
        }
        _ => "",
    }
}

fn near_names(near: &[String]) -> String {
    if near.is_empty() {
        return ": there are no runs there; is --results DIR right?".to_owned();
    }
    format!("; did you mean {}?", near.join(" or "))
}
