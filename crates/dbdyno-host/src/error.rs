//! The one error type of this crate. Each message names the file, process or call and, where it helps, what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be read from or done on this host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file or directory operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was attempted, as a verb phrase: "read", "create".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A kernel file does not have the form that this program knows.
    #[error("{} does not have the expected form: no {missing}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The field that was looked for.
        missing: &'static str,
    },
    /// A system call failed.
    #[error("{call} failed for {about}: {source}")]
    Call {
        /// Name of the system or library call.
        call: &'static str,
        /// The process, thread or setting it was about.
        about: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Two samples that were to be subtracted are not of the same process.
    #[error(
        "the samples are of different processes: pid {first_pid} started at tick {first_start}, \
         pid {second_pid} started at tick {second_start}"
    )]
    DifferentProcess {
        /// Process id of the first sample.
        first_pid: u32,
        /// Start time of the first process, clock ticks after boot.
        first_start: u64,
        /// Process id of the second sample.
        second_pid: u32,
        /// Start time of the second process, clock ticks after boot.
        second_start: u64,
    },
    /// Two samples that were to be subtracted are not of the same block device.
    #[error("the samples are of different block devices, {first} and {second}")]
    DifferentDevice {
        /// Device number of the first sample.
        first: String,
        /// Device number of the second sample.
        second: String,
    },
    /// A directory tree holds something that a data directory template must not hold.
    #[error("{} is {kind}; a data directory template may hold only regular files and directories", path.display())]
    NotCopied {
        /// The entry.
        path: PathBuf,
        /// What it is, with its article: "a symbolic link".
        kind: &'static str,
    },
    /// The destination of a copy cannot be used.
    #[error("cannot copy to {}: {reason}", path.display())]
    Destination {
        /// The destination directory.
        path: PathBuf,
        /// Why not, and what to do.
        reason: &'static str,
    },
}

impl HostError {
    /// Wraps an I/O error with what was attempted on which path.
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { action, path: path.to_path_buf(), source }
    }

    /// A kernel file that lacks a field.
    pub(crate) fn form(path: &Path, missing: &'static str) -> Self {
        Self::Form { path: path.to_path_buf(), missing }
    }
}
