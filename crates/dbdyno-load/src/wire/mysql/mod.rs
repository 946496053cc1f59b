//! The client side of the MySQL protocol, version 4.1, as MySQL since 5.5 and MariaDB since 10.1 speak it.
//!
//! [`login`] opens a connection, [`control`] asks questions on it and waits, [`session`] is the conversation of a
//! measured client; all three read and write through [`packet`]. What the server's error numbers mean is said here.

pub mod control;
pub mod login;
pub mod packet;
pub mod session;
pub mod table_speech;

use crate::driver::DriverError;
use crate::outcome::FailureClass;
use packet::ServerError;

/// Why something outside the request loop did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mysql: {message}")]
pub struct Fault {
    /// One sentence.
    pub message: String,
    /// The server's number for it, 0 if the server did not say anything.
    pub code: u16,
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

    /// Whether there is no room for what was to be written. InnoDB says "the table is full" when it cannot make a file
    /// larger, and other engines hand on the system's error 28.
    fn is_disk_full(&self) -> bool {
        matches!(self.code, 1021 | 1114) || (self.code == 1030 && self.message.contains("error 28"))
    }
}

impl From<ServerError<'_>> for Fault {
    fn from(error: ServerError<'_>) -> Self {
        Fault { message: format!("{} (error {})", error.text(), error.code), code: error.code }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        let is_timeout =
            matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
        match error.kind() {
            _ if is_timeout => Fault::new("the server did not answer in time"),
            std::io::ErrorKind::UnexpectedEof => Fault::new("the server closed the connection"),
            _ => Fault::new(error.to_string()),
        }
    }
}

impl From<Fault> for DriverError {
    fn from(fault: Fault) -> Self {
        let mut error = DriverError::new(fault.to_string());
        error.is_disk_full = fault.is_disk_full();
        error
    }
}

/// What an error number says about the request that it answers.
pub fn class_of(code: u16) -> FailureClass {
    match code {
        // Lock wait timeout; lock not available at once.
        1205 | 3572 => FailureClass::LockTimeout,
        1213 => FailureClass::Deadlock,
        // The row has changed since it was read; rolled back while it committed.
        1020 | 3101 => FailureClass::Serialization,
        // Memory, connections, threads, locks, or prepared statements are used up.
        1037 | 1038 | 1040 | 1041 | 1135 | 1203 | 1206 | 1226 | 1461 => FailureClass::Overload,
        1021 => FailureClass::DiskFull,
        1114 => FailureClass::Full,
        _ if closes_connection(code) => FailureClass::LostConnection,
        _ => FailureClass::Other,
    }
}

/// Whether the server closes the connection with this error, so that what is under way stays unknown: it shuts down
/// (1053, 1077, 1079), ends the connection (1080, 1152, 1184, 1927, 3169, 4031), or cannot read or write it (1153 to
/// 1161). Numbers of 2000 and more are a client library's own, which a proxy may hand on.
pub fn closes_connection(code: u16) -> bool {
    let is_in_client_library = matches!(code, 2006 | 2013);
    let is_in_network = matches!(code, 1152..=1161);
    is_in_client_library
        || is_in_network
        || matches!(code, 1053 | 1077 | 1079 | 1080 | 1184 | 1927 | 3169 | 4031)
}
