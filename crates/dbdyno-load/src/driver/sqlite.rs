//! SQLite, the bundled library: write-ahead log, one connection per client, one writer at a time for the whole file.
//!
//! Loading and reading back go through the library's usual wrapper; a client's statements are prepared once and
//! stepped directly. Waiting for the write lock is SQLite's busy handler, which is a named setting here and counts
//! what it does.

mod tables;

use super::{Client, ClientCounters, Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use crate::outcome::{Failure, FailureClass, NOT_MADE_FOR, Outcome};
use crate::tables::{SharedUse, Tables};
use dbdyno_workload::{Action, Request, RowId};
use rusqlite::{Connection, OpenFlags, OptionalExtension, ffi, params};
use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tables::TableClient;

const FILE: &str = "dbdyno.sqlite";
const MS_NS: u64 = 1_000_000;
/// Sleeps of SQLite's own busy timeout in ms; the last one repeats (SQLite source, `sqliteDefaultBusyCallback`).
const BACKOFF_MS: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

impl From<rusqlite::Error> for DriverError {
    fn from(error: rusqlite::Error) -> Self {
        let is_disk_full =
            error.sqlite_error().is_some_and(|error| is_disk_full(error.extended_code));
        DriverError { is_disk_full, ..DriverError::new(format!("sqlite: {error}")) }
    }
}

/// Whether there is no room for what was to be written. A limit on the size of files or on a user's space, unlike a full
/// disk, shows as a write that failed.
fn is_disk_full(code: c_int) -> bool {
    matches!(code, ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE)
}

/// What a connection does while another one writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BusyHandler {
    /// SQLite's own growing sleeps, 1 to 100 ms.
    Backoff,
    /// Sleep 1 ms, always.
    SleepOneMs,
    /// Give the processor to another thread and try again.
    Yield,
}

impl BusyHandler {
    fn parse(word: &str) -> Result<Self, DriverError> {
        match word {
            "backoff" => Ok(BusyHandler::Backoff),
            "sleep-1ms" => Ok(BusyHandler::SleepOneMs),
            "yield" => Ok(BusyHandler::Yield),
            other => Err(DriverError::new(format!(
                "sqlite: busy_handler must be backoff, sleep-1ms or yield, not \"{other}\""
            ))),
        }
    }

    /// How long the wait number `attempt` (from 0) sleeps.
    fn sleep_ns(self, attempt: usize) -> u64 {
        match self {
            BusyHandler::Backoff => BACKOFF_MS[attempt.min(BACKOFF_MS.len() - 1)] * MS_NS,
            BusyHandler::SleepOneMs => MS_NS,
            BusyHandler::Yield => 0,
        }
    }
}

/// Shared by a connection and its busy handler, which SQLite calls on the connection's own thread.
struct BusyState {
    handler: BusyHandler,
    timeout_ns: u64,
    /// Asked to sleep since the current request began to wait.
    waited_ns: u64,
    counters: ClientCounters,
}

/// SQLite calls this when the lock is taken: non-zero means "try again", zero "give up" (SQLITE_BUSY).
unsafe extern "C" fn on_busy(state: *mut c_void, attempt: c_int) -> c_int {
    // SAFETY: `state` is the connection's own boxed BusyState, registered in `connect` and alive as long as the
    // connection; nobody else refers to it while SQLite is inside a call.
    let state = unsafe { &mut *state.cast::<BusyState>() };
    if attempt == 0 {
        state.waited_ns = 0;
    }
    let sleep_ns = state.handler.sleep_ns(attempt.max(0) as usize);
    // A handler that only yields is bounded by count: 10,000 yields stand for one millisecond's worth of timeout.
    let spent = state.waited_ns + sleep_ns.max(MS_NS / 10_000);
    if spent > state.timeout_ns {
        return 0;
    }
    state.waited_ns = spent;
    state.counters.busy_waits += 1;
    state.counters.busy_sleep_ns += sleep_ns;
    if sleep_ns == 0 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(std::time::Duration::from_nanos(sleep_ns));
    }
    1
}

/// Settings that every connection gets, and that are read back for the receipt.
#[derive(Debug, Clone)]
struct Pragmas {
    synchronous: String,
    cache_mb: u64,
    wal_autocheckpoint_pages: u64,
    page_size: u64,
}

/// An opened database file.
pub struct Sqlite {
    path: PathBuf,
    pragmas: Pragmas,
    busy_handler: BusyHandler,
    busy_timeout_ns: u64,
    control: Mutex<Connection>,
}

fn open_connection(path: &Path, pragmas: &Pragmas) -> Result<Connection, DriverError> {
    // NO_MUTEX: a connection has one owner at a time, so the library need not lock it.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(60))?;
    connection.pragma_update(None, "page_size", pragmas.page_size as i64)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", &pragmas.synchronous)?;
    connection.pragma_update(None, "cache_size", -(pragmas.cache_mb as i64 * 1024))?;
    connection.pragma_update(
        None,
        "wal_autocheckpoint",
        pragmas.wal_autocheckpoint_pages as i64,
    )?;
    Ok(connection)
}

fn pragma_text(connection: &Connection, name: &str) -> Result<String, DriverError> {
    let value: rusqlite::types::Value =
        connection.pragma_query_value(None, name, |row| row.get(0))?;
    Ok(match value {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => format!("{other:?}"),
    })
}

impl Sqlite {
    /// A client that has prepared nothing yet.
    fn new_client(&self) -> Result<SqliteClient, DriverError> {
        let connection = open_connection(&self.path, &self.pragmas)?;
        // The box is kept by pointer from here on, because SQLite holds the same pointer; the client frees it.
        let busy = Box::into_raw(Box::new(BusyState {
            handler: self.busy_handler,
            timeout_ns: self.busy_timeout_ns,
            waited_ns: 0,
            counters: ClientCounters::default(),
        }));
        let client = SqliteClient { statements: Vec::new(), tables: None, busy, connection };
        // SAFETY: the handle is open; `on_busy` matches the pointer's type, which lives as long as the client.
        unsafe {
            ffi::sqlite3_busy_handler(client.connection.handle(), Some(on_busy), busy.cast())
        };
        Ok(client)
    }

    fn control(&self) -> MutexGuard<'_, Connection> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for Sqlite {
    type Client = SqliteClient;

    fn open(options: &OpenOptions) -> Result<Self, DriverError> {
        std::fs::create_dir_all(&options.directory)
            .map_err(|error| DriverError::new(format!("make the data directory: {error}")))?;
        let path = options.directory.join(FILE);
        let pragmas = Pragmas {
            synchronous: options.text("synchronous")?.to_owned(),
            cache_mb: options.number("cache_mb")?,
            wal_autocheckpoint_pages: options.number("wal_autocheckpoint_pages")?,
            page_size: options.number("page_size")?,
        };
        let busy_handler = BusyHandler::parse(options.text("busy_handler")?)?;
        let busy_timeout_ns = options.number("busy_timeout_ms")?.saturating_mul(MS_NS);
        let connection = open_connection(&path, &pragmas)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS dbdyno (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
        )?;
        let control = Mutex::new(connection);
        Ok(Sqlite { path, pragmas, busy_handler, busy_timeout_ns, control })
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        let connection = self.control();
        let names =
            ["journal_mode", "synchronous", "page_size", "cache_size", "wal_autocheckpoint"];
        let mut settings = BTreeMap::new();
        for name in names {
            settings.insert(name.to_owned(), pragma_text(&connection, name)?);
        }
        let handler = format!("{:?}", self.busy_handler).to_lowercase();
        settings.insert("busy_handler".to_owned(), handler);
        settings.insert("busy_timeout_ms".to_owned(), (self.busy_timeout_ns / MS_NS).to_string());
        if settings["journal_mode"] != "wal" {
            return Err(DriverError::new("sqlite: this file system does not allow WAL mode"));
        }
        Ok(Receipt { version: rusqlite::version().to_owned(), settings })
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        let connection = self.control();
        for table in 1..=tables {
            connection.execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS t{table} \
                 (id INTEGER PRIMARY KEY, counter INTEGER NOT NULL, filler BLOB NOT NULL)"
            ))?;
        }
        Ok(())
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        let sql = format!("SELECT max(id) FROM t{}", table + 1);
        let last: Option<i64> = self.control().query_row(&sql, [], |row| row.get(0))?;
        Ok(last.map(|last| last as u64))
    }

    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        let mut connection = self.control();
        let transaction = connection.transaction()?;
        {
            let sql =
                format!("INSERT INTO t{} (id, counter, filler) VALUES (?1, 0, ?2)", table + 1);
            let mut insert = transaction.prepare_cached(&sql)?;
            let mut filler = Vec::new();
            for row in rows {
                fill(RowId { table, row }, &mut filler);
                insert.execute(params![row as i64, filler.as_slice()])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        let mut connection = self.control();
        let transaction = connection.transaction()?;
        for &RowId { table, row } in rows {
            let sql = format!("UPDATE t{} SET counter = counter + 1 WHERE id = ?1", table + 1);
            transaction.prepare_cached(&sql)?.execute(params![row as i64])?;
        }
        transaction.execute(
            "INSERT INTO dbdyno VALUES ('aged', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1",
            params![progress as i64],
        )?;
        Ok(transaction.commit()?)
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        let sql = "SELECT value FROM dbdyno WHERE name = 'aged'";
        let value: Option<i64> = self.control().query_row(sql, [], |row| row.get(0)).optional()?;
        Ok(value.unwrap_or(0) as u64)
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        let sql = format!("SELECT counter, filler FROM t{} WHERE id = ?1", table + 1);
        let found = self.control().query_row(&sql, params![row as i64], |row| {
            Ok(Row { counter: row.get::<_, i64>(0)? as u64, filler: row.get(1)? })
        });
        Ok(found.optional()?)
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        let connection = self.control();
        let mut select = connection.prepare(&format!("SELECT counter FROM t{}", table + 1))?;
        let mut rows = select.query([])?;
        // Added up here: SQLite's own sum() fails where counters wrap.
        let mut sum = 0u64;
        while let Some(row) = rows.next()? {
            sum = sum.wrapping_add(row.get::<_, i64>(0)? as u64);
        }
        Ok(sum)
    }

    fn settle(&self) -> Result<(), DriverError> {
        let connection = self.control();
        // With FULL the checkpoint syncs log and file, whatever the trial's durability is.
        connection.pragma_update(None, "synchronous", "FULL")?;
        let busy: i64 =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", &self.pragmas.synchronous)?;
        if busy != 0 {
            return Err(DriverError::new("sqlite: the log could not be emptied: still in use"));
        }
        Ok(())
    }

    fn tables(&self) -> Option<&dyn Tables> {
        Some(self)
    }

    fn connect_to(&self, using: &SharedUse) -> Result<SqliteClient, DriverError> {
        let mut client = self.new_client()?;
        client.tables = Some(TableClient::prepare(&mut client, using)?);
        Ok(client)
    }

    fn connect(&self, tables: u16) -> Result<SqliteClient, DriverError> {
        let mut client = self.new_client()?;
        for table in 1..=tables {
            let sql = |text: &str| text.replace("TABLE", &format!("t{table}"));
            client.prepare(&sql("SELECT counter, filler FROM TABLE WHERE id = ?1"))?;
            client.prepare(&sql("UPDATE TABLE SET counter = counter + 1 WHERE id = ?1"))?;
            client.prepare(&sql("UPDATE TABLE SET counter = ?2 WHERE id = ?1"))?;
        }
        Ok(client)
    }
}

/// A prepared statement. It belongs to the connection that prepared it.
type Statement = *mut ffi::sqlite3_stmt;

/// Statements per table, in the order in which `connect` prepares them.
const READ: usize = 0;
const INCREMENT: usize = 1;
const ASSIGN: usize = 2;
const STATEMENTS: usize = 3;

/// One connection with its prepared statements.
pub struct SqliteClient {
    /// All of them; those over counters come first.
    statements: Vec<Statement>,
    /// What it asks of tables of a schema, if it was connected to some.
    tables: Option<TableClient>,
    busy: *mut BusyState,
    connection: Connection,
}

// SAFETY: connection, statements and busy state belong to this client alone; SQLite built thread-safe lets a
// connection move between threads as long as one uses it at a time.
unsafe impl Send for SqliteClient {}

impl Drop for SqliteClient {
    fn drop(&mut self) {
        for &statement in &self.statements {
            // SAFETY: each statement was prepared on this connection and is finalised once, before it closes.
            unsafe { ffi::sqlite3_finalize(statement) };
        }
        // SAFETY: the handler is taken away before its state is freed; the box came from `connect`.
        unsafe {
            ffi::sqlite3_busy_handler(self.connection.handle(), None, ptr::null_mut());
            drop(Box::from_raw(self.busy));
        }
    }
}

impl SqliteClient {
    fn prepare(&mut self, sql: &str) -> Result<Statement, DriverError> {
        let text = CString::new(sql).expect("our statements hold no zero byte");
        let mut statement = ptr::null_mut();
        // SAFETY: the connection is open and the text is a C string; `statement` receives the result.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                self.connection.handle(),
                text.as_ptr(),
                -1,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &mut statement,
                ptr::null_mut(),
            )
        };
        if code != ffi::SQLITE_OK {
            return Err(DriverError::new(format!("sqlite: cannot prepare \"{sql}\": code {code}")));
        }
        self.statements.push(statement);
        Ok(statement)
    }

    fn has_index(&self, name: &str) -> Result<bool, DriverError> {
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = ?1";
        let count: i64 = self.connection.query_row(sql, [name], |row| row.get(0))?;
        Ok(count > 0)
    }

    /// Runs a prepared update to its end; auto-commit happens inside the step.
    fn update(&mut self, statement: Statement) -> Outcome {
        // SAFETY: the statement belongs to this connection, has its parameters bound, and is reset after each use.
        let (code, changed) = unsafe {
            let code = ffi::sqlite3_step(statement);
            ffi::sqlite3_reset(statement);
            (code, ffi::sqlite3_changes(self.connection.handle()))
        };
        match (code, changed) {
            (ffi::SQLITE_DONE, 1) => Outcome::Acknowledged,
            (ffi::SQLITE_DONE, _) => {
                Outcome::Refused(Failure { class: FailureClass::NoSuchRow, code })
            }
            (code, _) => ended_badly(code),
        }
    }

    /// A request over tables of a schema.
    fn execute_on_tables(&mut self, request: &Request) -> Outcome {
        // SAFETY: the connection is open as long as the client.
        let handle = unsafe { self.connection.handle() };
        // SAFETY: as above; the count is that of the statement that has just ended.
        let changes = || unsafe { ffi::sqlite3_changes64(handle) } as u64;
        match &mut self.tables {
            Some(tables) => tables.execute(request, changes),
            None => NOT_MADE_FOR,
        }
    }

    fn read(&mut self, statement: Statement) -> Outcome {
        // SAFETY: as in `update`; the column pointers are used before the statement is reset.
        let code = unsafe {
            let code = ffi::sqlite3_step(statement);
            if code == ffi::SQLITE_ROW {
                std::hint::black_box((
                    ffi::sqlite3_column_int64(statement, 0),
                    ffi::sqlite3_column_blob(statement, 1),
                ));
            }
            ffi::sqlite3_reset(statement);
            code
        };
        match code {
            ffi::SQLITE_ROW => Outcome::Acknowledged,
            ffi::SQLITE_DONE => Outcome::Refused(Failure { class: FailureClass::NoSuchRow, code }),
            code => ended_badly(code),
        }
    }
}

#[cold]
fn ended_badly(code: c_int) -> Outcome {
    let class = match code & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => FailureClass::LockTimeout,
        _ if is_disk_full(code) => FailureClass::DiskFull,
        _ => FailureClass::Other,
    };
    let failure = Failure { class, code };
    // After an I/O error the commit may or may not be in the log. Everything else is rolled back by the library.
    if code & 0xff == ffi::SQLITE_IOERR {
        Outcome::Unknown(failure)
    } else {
        Outcome::Refused(failure)
    }
}

impl Client for SqliteClient {
    fn execute(&mut self, request: &Request) -> Outcome {
        let kind = match request.action {
            Action::Read => READ,
            Action::Increment => INCREMENT,
            Action::Assign(_) => ASSIGN,
            Action::Insert(_)
            | Action::Delete(_)
            | Action::Range { .. }
            | Action::Points { .. } => {
                return self.execute_on_tables(request);
            }
        };
        let statement = self.statements[usize::from(request.table) * STATEMENTS + kind];
        // SAFETY: the statement belongs to this connection and is reset, so parameters may be bound.
        unsafe {
            ffi::sqlite3_bind_int64(statement, 1, request.row as i64);
            if let Action::Assign(value) = request.action {
                ffi::sqlite3_bind_int64(statement, 2, value as i64);
            }
        }
        if request.action == Action::Read { self.read(statement) } else { self.update(statement) }
    }

    fn counters(&self) -> ClientCounters {
        // SAFETY: the state is freed only when this client is dropped, and SQLite is not inside a call now.
        unsafe { (*self.busy).counters }
    }
}
