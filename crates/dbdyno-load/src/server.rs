//! Where a server listens, who asks, and how clients speak to it: what a wire driver must know besides SQL.
//!
//! Passwords are wrapped so that no message, log or record shows one by accident.

use crate::driver::DriverError;
use std::fmt;
use std::path::PathBuf;
use std::thread;

/// A server and a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// How it is reached.
    pub address: Address,
    /// Login name.
    pub user: String,
    /// Its password, if the server asks for one.
    pub password: Option<Password>,
    /// The database (PostgreSQL) or schema (MySQL) that everything happens in.
    pub database: String,
    /// Whether and how the connection is encrypted.
    pub tls: Tls,
    /// A statement whose only value is the server's version.
    pub version_query: String,
    /// A statement that lists the effective settings: name, value.
    pub settings_query: String,
}

/// The table by which a database is known as one that dbdyno made; it also notes which dataset is loaded.
pub(crate) const MARKER: &str = "made_by_dbdyno";

/// The refusal of a database that somebody else made.
pub(crate) fn not_ours(server: &Server) -> DriverError {
    DriverError::new(format!(
        "the server at {} has a database \"{}\" that dbdyno did not make (no table in it is named {MARKER}): \
         rename or drop it yourself, or use another server; nothing in it was touched. If it is empty, a dbdyno that was \
         killed as it made it may have left it",
        server.address, server.database
    ))
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A host, as a name or a number, and a port.
    Tcp {
        /// Name or number.
        host: String,
        /// Port.
        port: u16,
    },
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(out, "{}", path.display()),
            Address::Tcp { host, port } => write!(out, "{host}:{port}"),
        }
    }
}

/// Encryption of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// None.
    Off,
    /// Encrypted, and the server's certificate is checked against its name and the certificates that are trusted:
    /// those in the file, or the host's own.
    Verified {
        /// A file with trusted certificates in PEM form, instead of the host's own.
        trusted: Option<PathBuf>,
    },
}

/// A password. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Password(..)")
    }
}

/// How clients speak to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// Worker threads; 0 is a quarter of the cores, at least one.
    pub threads: u32,
    /// Requests that one client may have under way at a time.
    pub pipeline: u32,
    /// How statements are sent.
    pub statements: Statements,
    /// What one request is.
    pub transaction: Transaction,
    /// How the kernel tells what has happened on connections.
    pub event_queue: EventQueue,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            threads: 0,
            pipeline: 1,
            statements: Statements::Prepared,
            transaction: Transaction::Autocommit,
            event_queue: EventQueue::Automatic,
        }
    }
}

impl ClientOptions {
    /// Worker threads for so many clients: as many as are asked for, or a quarter of the cores, which leaves the rest
    /// to a server on the same host.
    pub fn threads_for(&self, clients: u32) -> u32 {
        let a_quarter =
            || thread::available_parallelism().map_or(1, |cores| cores.get() as u32 / 4);
        let wanted = if self.threads == 0 { a_quarter() } else { self.threads };
        wanted.clamp(1, clients.max(1))
    }
}

/// The kernel's queue that tells what has happened on connections. Encrypted connections always use epoll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventQueue {
    /// What costs less, as far as the kernel has it.
    Automatic,
    /// One system call to wait, one to receive and one to send.
    Epoll,
    /// One system call for all that is ready, or epoll where the kernel has no io_uring.
    IoUring,
}

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statements {
    /// Prepared once on each connection, then executed with binary parameters.
    Prepared,
    /// As text, parsed by the server each time.
    Text,
}

/// What one request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// One statement that commits by itself.
    Autocommit,
    /// Begin, the statement, commit: three round trips.
    BeginCommit,
}
