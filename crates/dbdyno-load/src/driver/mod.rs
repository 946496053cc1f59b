//! Drivers: client code for one library or wire protocol each. What a driver must do is in three traits; which
//! drivers there are is in `with_driver!`. An engine's name, versions and settings are data and not known here.
//!
//! Loading, reading back and settling happen outside measured time and may be slow; [`Client::execute`] is the data
//! plane and must not allocate, lock beyond what the library does itself, or read a clock.

pub mod lmdb;
pub mod memory;
pub mod mongodb;
pub mod mysql;
pub mod null;
pub mod postgres;
pub mod rocksdb;
pub mod sqlite;
pub mod wiredtiger;

use crate::outcome::Outcome;
use crate::recorder::Recorder;
use crate::server::{ClientOptions, Server};
use crate::tables::{SharedUse, Tables, no_tables};
use crate::worker::{Lane, Limits, WorkerEnd, work_in_turn};
use dbdyno_workload::{Request, RequestStream, RowId};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Runs `$body` with the type alias `$Driver` standing for the driver of that name; an unknown name is an
/// [`DriverError`]. A new driver is one file and one line here.
#[macro_export]
macro_rules! with_driver {
    ($name:expr, $Driver:ident => $body:expr) => {{
        macro_rules! with {
            ($driver:ty) => {{
                type $Driver = $driver;
                $body
            }};
        }
        match $name {
            "null" => with!($crate::driver::null::Null),
            "memory" => with!($crate::driver::memory::Memory),
            "sqlite" => with!($crate::driver::sqlite::Sqlite),
            "lmdb" => with!($crate::driver::lmdb::Lmdb),
            "mongodb" => with!($crate::driver::mongodb::Mongodb),
            "mysql" => with!($crate::driver::mysql::Mysql),
            "postgres" => with!($crate::driver::postgres::Postgres),
            "rocksdb" => with!($crate::driver::rocksdb::Rocksdb),
            "wiredtiger" => with!($crate::driver::wiredtiger::WiredTiger),
            other => Err($crate::driver::DriverError::new(format!(
                "this dbdyno has no driver \"{other}\""
            ))
            .into()),
        }
    }};
}

/// Raised when a driver stores rows in another form, so that datasets loaded before are not taken for new ones.
pub const STORAGE_FORMAT: u32 = 1;

/// What went wrong outside the request loop, in the engine's own words where it had some.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DriverError {
    message: String,
    /// Whether the engine could not write because there is no room, which is nobody's fault and can be mended.
    pub is_disk_full: bool,
}

impl DriverError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        DriverError { message: message.into(), is_disk_full: false }
    }
}

/// How to open an engine's data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// The data directory; made if it is not there.
    pub directory: PathBuf,
    /// Settings by name, as the engine file resolved them: durability's own and the configuration's.
    pub settings: BTreeMap<String, String>,
    /// How many clients will connect at most, for engines that must know beforehand.
    pub clients: u32,
    /// The shared object to open, if the engine is a library that is not built in.
    pub library: Option<PathBuf>,
    /// Where the engine listens, if it is a server.
    pub server: Option<Server>,
    /// How clients of a server speak to it; an engine library has no use for this.
    pub client: ClientOptions,
}

impl OpenOptions {
    /// A library's data directory.
    pub fn of_directory(
        directory: PathBuf,
        settings: BTreeMap<String, String>,
        clients: u32,
    ) -> Self {
        OpenOptions {
            directory,
            settings,
            clients,
            library: None,
            server: None,
            client: ClientOptions::default(),
        }
    }

    /// The shared object of an engine that is not built in.
    pub fn library(&self) -> Result<&std::path::Path, DriverError> {
        self.library.as_deref().ok_or_else(|| {
            DriverError::new("no shared library was given for an engine that needs one")
        })
    }

    /// The setting as a word.
    pub fn text(&self, name: &str) -> Result<&str, DriverError> {
        self.settings
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| DriverError::new(format!("setting \"{name}\" is missing")))
    }

    /// The setting as yes or no.
    pub fn flag(&self, name: &str) -> Result<bool, DriverError> {
        let text = self.text(name)?;
        text.parse().map_err(|_| {
            DriverError::new(format!("setting \"{name}\" must be true or false, not \"{text}\""))
        })
    }

    /// The setting as a whole number.
    pub fn number(&self, name: &str) -> Result<u64, DriverError> {
        let text = self.text(name)?;
        text.parse().map_err(|_| {
            DriverError::new(format!("setting \"{name}\" must be a whole number, not \"{text}\""))
        })
    }
}

/// What the engine says of itself: version, and settings read back from it after opening.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// The engine's own version string.
    pub version: String,
    /// Effective settings by the engine's own names.
    pub settings: BTreeMap<String, String>,
}

/// A row as the engine gives it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The counter column.
    pub counter: u64,
    /// The filler column.
    pub filler: Vec<u8>,
}

/// Makes a buffer hold the filler of one row.
pub type FillRow<'a> = &'a dyn Fn(RowId, &mut Vec<u8>);

/// One opened database: the control plane.
pub trait Driver: Sized + Sync {
    /// One connection.
    type Client: Client + Send;

    /// Whether rows are kept at all, so that a check means something.
    const KEEPS_ROWS: bool = true;

    /// Whether rows outlive the process; if not, there is no template and each trial loads for itself.
    const KEEPS_FILES: bool = true;

    /// Makes the database that a server is asked to use, where it does not exist; a library has none beside its files.
    ///
    /// # Errors
    /// The server's, and if a database of that name exists that dbdyno did not make.
    fn create_database(_: &OpenOptions) -> Result<(), DriverError> {
        Ok(())
    }

    /// Removes that database, if dbdyno made it.
    ///
    /// # Errors
    /// The server's, and if dbdyno did not make it.
    fn drop_database(_: &OpenOptions) -> Result<(), DriverError> {
        Ok(())
    }

    /// Which dataset was noted in a server's database as loaded completely; a library's template says that itself.
    ///
    /// # Errors
    /// The server's.
    fn noted_dataset(&self) -> Result<Option<String>, DriverError> {
        Ok(None)
    }

    /// Notes in a server's database which dataset is loaded, by its fingerprint.
    ///
    /// # Errors
    /// The server's.
    fn note_dataset(&self, _fingerprint: &str) -> Result<(), DriverError> {
        Ok(())
    }

    /// Runs one statement in the server's own language and returns the last value of its first row as a number, if
    /// that is what it gives.
    ///
    /// # Errors
    /// The server's; a library takes no statements.
    fn statement(&self, text: &str) -> Result<Option<u64>, DriverError> {
        Err(DriverError::new(format!("this engine takes no statements, so not \"{text}\"")))
    }

    /// Opens, or makes, the database in a directory.
    fn open(options: &OpenOptions) -> Result<Self, DriverError>;

    /// Version and settings, read back from the engine.
    fn receipt(&self) -> Result<Receipt, DriverError>;

    /// Counters of the engine's own, by its own names, since it was opened; empty where it keeps none or was not told to.
    ///
    /// # Errors
    /// The engine's.
    fn statistics(&self) -> Result<BTreeMap<String, u64>, DriverError> {
        Ok(BTreeMap::new())
    }

    /// Makes tables 0 to `tables` - 1 where they do not exist.
    fn create_tables(&self, tables: u16) -> Result<(), DriverError>;

    /// The largest primary key in a table, if it has rows.
    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError>;

    /// Inserts rows `rows` of a table, counters at zero, in one transaction.
    fn insert_rows(
        &self,
        table: u16,
        rows: std::ops::RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError>;

    /// Adds one to each of the rows' counters and notes `progress`, in one transaction.
    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError>;

    /// The last progress noted by [`Driver::age_rows`]; 0 if none.
    fn age_progress(&self) -> Result<u64, DriverError>;

    /// One row, if it is there.
    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError>;

    /// The sum of all counters of a table, wrapping.
    fn counter_sum(&self, table: u16) -> Result<u64, DriverError>;

    /// Brings everything to disk and pays outstanding debts, so that the next opener starts from a known state.
    fn settle(&self) -> Result<(), DriverError>;

    /// A new connection to tables 0 to `tables` - 1, ready to execute.
    fn connect(&self, tables: u16) -> Result<Self::Client, DriverError>;

    /// The control plane over tables of a schema, if this driver has such tables.
    fn tables(&self) -> Option<&dyn Tables> {
        None
    }

    /// A new connection to tables of a schema, ready to execute. What can be asked depends on what there is: queries
    /// over indexes only once they are made.
    ///
    /// # Errors
    /// The engine's, and if this driver has no such tables.
    fn connect_to(&self, _using: &SharedUse) -> Result<Self::Client, DriverError> {
        Err(no_tables())
    }

    /// Worker threads that serve so many clients. A call into an engine library blocks its thread, so there each
    /// client has its own; a server's clients wait on sockets, and a few threads serve them all.
    fn threads(&self, clients: u32) -> u32 {
        clients
    }
}

/// What a connection counted about its own waiting, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Times it found the engine busy and waited.
    pub busy_waits: u64,
    /// Nanoseconds it asked to sleep in those waits.
    pub busy_sleep_ns: u64,
    /// Times its connection was lost and opened again.
    pub reconnects: u64,
}

impl ClientCounters {
    /// Both clients' counts together.
    pub fn and(self, other: ClientCounters) -> ClientCounters {
        ClientCounters {
            busy_waits: self.busy_waits + other.busy_waits,
            busy_sleep_ns: self.busy_sleep_ns + other.busy_sleep_ns,
            reconnects: self.reconnects + other.reconnects,
        }
    }
}

/// One connection: the data plane.
pub trait Client: Sized {
    /// Does one request and says how it ended.
    fn execute(&mut self, request: &Request) -> Outcome;

    /// Runs the schedules of one worker thread's clients, a lane each, until they end. This one is for clients that
    /// block, of which a thread has one; see [`Driver::threads`].
    fn run<S: RequestStream>(
        clients: &mut [Self],
        lanes: &mut [Lane<S>],
        recorder: &mut Recorder<'_>,
        limits: Limits,
    ) -> WorkerEnd {
        work_in_turn(clients, lanes, recorder, limits)
    }

    /// What it counted so far.
    fn counters(&self) -> ClientCounters {
        ClientCounters::default()
    }
}
