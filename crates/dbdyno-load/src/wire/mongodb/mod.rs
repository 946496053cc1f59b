//! The client side of MongoDB's protocol as servers since 3.6 speak it: commands and answers are BSON documents in
//! OP_MSG messages. FerretDB speaks it too, and is then reported as FerretDB.
//!
//! [`control`] asks questions and waits, after [`login`]; [`session`] is the conversation of a measured client, whose
//! commands are [`template`]s and whose answers are read by [`reply`]. What the server's error codes mean is said here.

pub mod control;
pub mod elements;
pub mod login;
pub mod message;
pub mod reply;
pub mod scram;
pub mod session;
pub mod template;

use crate::driver::DriverError;
use crate::outcome::FailureClass;
use crate::wire::Broken;

/// The server's code for a command that it does not have.
const COMMAND_NOT_FOUND: i32 = 59;
/// FerretDB's code for a part of a command that it does not have.
const NOT_IMPLEMENTED: i32 = 238;
/// The server's code for an aggregation stage that it does not have.
const UNKNOWN_STAGE: i32 = 40_324;

/// Why something outside the request loop did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mongodb: {message}")]
pub struct Fault {
    /// One sentence.
    pub message: String,
    /// The server's code for it, 0 if the server did not say one.
    pub code: i32,
}

impl Fault {
    /// A fault of which the server did not speak.
    pub fn new(message: impl Into<String>) -> Self {
        Fault { message: message.into(), code: 0 }
    }

    /// The fault with its place in front.
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        Fault { message: format!("{place}: {}", self.message), ..self }
    }

    /// Whether the server lacks what was asked for, as FerretDB lacks many commands.
    pub fn is_missing(&self) -> bool {
        matches!(self.code, COMMAND_NOT_FOUND | NOT_IMPLEMENTED | UNKNOWN_STAGE)
    }

    /// Whether there is no room for what was to be written. FerretDB hands on what its database says.
    fn is_disk_full(&self) -> bool {
        let message = self.message.to_ascii_lowercase();
        let says_so = |words| message.contains(words);
        class_of(self.code) == FailureClass::DiskFull
            || says_so("no space left on device")
            || says_so("database or disk is full")
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Fault::new("the server did not answer in time")
            }
            ErrorKind::UnexpectedEof => Fault::new("the server closed the connection"),
            _ => Fault::new(error.to_string()),
        }
    }
}

impl From<Broken> for Fault {
    fn from(broken: Broken) -> Self {
        Fault { message: broken.message, code: broken.code }
    }
}

impl From<Fault> for DriverError {
    fn from(fault: Fault) -> Self {
        let mut error = DriverError::new(fault.to_string());
        error.is_disk_full = fault.is_disk_full();
        error
    }
}

/// What an error code says about the request that it answers.
pub fn class_of(code: i32) -> FailureClass {
    match code {
        // A lock was not had in time; a lock is busy.
        24 | 46 => FailureClass::LockTimeout,
        // Somebody else wrote the document first; the snapshot is gone.
        112 | 246 => FailureClass::Serialization,
        // Memory is used up; the storage engine's cache is.
        146 | 365 => FailureClass::Overload,
        14_031 => FailureClass::DiskFull,
        _ if closes_connection(code) => FailureClass::LostConnection,
        _ => FailureClass::Other,
    }
}

/// Whether the server shuts down, so that whatever is under way stays unknown.
pub fn closes_connection(code: i32) -> bool {
    matches!(code, 91 | 11_600)
}

/// Whether a write that ended with this code may have been made nevertheless: the server failed in itself (1, 8, and 0
/// where it gives no code), lost another server (6, 7, 89, 9001), ran out of time (50, 64, 262), or was interrupted by
/// somebody (11601) or by an election (189, 11602).
pub fn leaves_unknown(code: i32) -> bool {
    matches!(code, 0 | 1 | 6 | 7 | 8 | 50 | 64 | 89 | 189 | 262 | 9_001 | 11_601 | 11_602)
}
