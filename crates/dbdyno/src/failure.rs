//! What stops a command: a message for people and the exit code it ends with.

use crate::exit_code;
use dbdyno_host::HostError;
use dbdyno_load::driver::DriverError;
use dbdyno_provision::{ProvisionError, Trouble};
use dbdyno_record::RecordError;
use std::fmt;

/// Why a command stopped. The message says what, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub message: String,
    /// For scripts: one of [`exit_code`].
    pub code: u8,
}

impl Failure {
    /// With an exit code of its own.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure { message: message.into(), code }
    }

    /// Without one.
    pub fn other(message: impl Into<String>) -> Self {
        Failure::new(exit_code::ERROR, message)
    }

    /// An engine found no room for its data.
    pub fn disk_full(what: &str) -> Self {
        let advice = "free some space, or use --results DIR on another disk";
        Failure::new(exit_code::CANNOT_WRITE, format!("{what}; {advice}"))
    }

    /// JSON of our own that could not be made or read.
    pub fn json(error: serde_json::Error) -> Self {
        Failure::other(format!("JSON: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        match error.is_disk_full {
            true => Failure::disk_full(&error.to_string()),
            false => Failure::other(error.to_string()),
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Failure::other(error.to_string())
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let code = match &error {
            RecordError::NewerFormat { .. }
            | RecordError::Edited { .. }
            | RecordError::Truncated { .. }
            | RecordError::NotUnderstood { .. }
            | RecordError::FileChanged { .. } => exit_code::BAD_RECORD,
            RecordError::MissingPlan { .. }
            | RecordError::NotARun { .. }
            | RecordError::UnknownRun { .. }
            | RecordError::AmbiguousRun { .. } => exit_code::NO_RUN,
            RecordError::Io { .. } | RecordError::Locked { .. } | RecordError::Exists { .. } => {
                exit_code::CANNOT_WRITE
            }
            _ => exit_code::ERROR,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<ProvisionError> for Failure {
    fn from(error: ProvisionError) -> Self {
        let code = match error.trouble {
            Trouble::HostLacks => exit_code::HOST_UNFIT,
            Trouble::Download | Trouble::WrongContent => exit_code::FETCH_FAILED,
            Trouble::CannotWrite => exit_code::CANNOT_WRITE,
            Trouble::Server => exit_code::SERVER_FAILED,
        };
        Failure::new(code, error.to_string())
    }
}
