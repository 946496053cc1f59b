//! LMDB, the bundled library: one writer at a time for the whole database, readers that never wait, a memory map.
//!
//! One environment per process, shared by all clients; one named database per table with integer keys; a value is the
//! counter (8 bytes, little endian) and the filler. Every request is a transaction of its own. The library is called
//! directly, because what its wrappers add is what this project measures.

use super::{Client, Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use crate::outcome::{Failure, FailureClass, NOT_MADE_FOR, Outcome};
use dbdyno_workload::{Action, Request, RowId};
use lmdb_master_sys as ffi;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int, c_uint};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

const COUNTER_BYTES: usize = 8;
const PROGRESS_KEY: &[u8] = b"aged";
/// Settings that are flags of the environment, with LMDB's values for them.
const FLAGS: [(&str, c_uint); 2] = [("no_sync", ffi::MDB_NOSYNC), ("write_map", ffi::MDB_WRITEMAP)];

fn check(code: c_int, doing: &str) -> Result<(), DriverError> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: mdb_strerror returns a static string for any code (system errors go through strerror).
    let words = unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) }.to_string_lossy();
    let error = DriverError::new(format!("lmdb: {doing}: {words} (code {code})"));
    Err(DriverError { is_disk_full: is_disk_full(code), ..error })
}

/// Whether there is no room for what was to be written, on the disk or below a limit on the size of files.
fn is_disk_full(code: c_int) -> bool {
    matches!(code, libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
}

/// An open environment; closed when the last handle is dropped.
struct Environment(*mut ffi::MDB_env);

// SAFETY: an LMDB environment may be used from any thread; transactions are what must stay with one (except that
// MDB_NOTLS, which is always set here, lets read-only ones move).
unsafe impl Send for Environment {}
// SAFETY: as above; the library locks internally.
unsafe impl Sync for Environment {}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: every transaction and handle borrows or holds this environment, so none is left.
        unsafe { ffi::mdb_env_close(self.0) };
    }
}

/// A transaction that is aborted unless it is committed.
struct Transaction<'env> {
    handle: *mut ffi::MDB_txn,
    _environment: &'env Environment,
}

impl<'env> Transaction<'env> {
    fn begin(environment: &'env Environment, flags: c_uint) -> Result<Self, c_int> {
        let mut handle = ptr::null_mut();
        // SAFETY: the environment is open, and `handle` receives the transaction.
        let code =
            unsafe { ffi::mdb_txn_begin(environment.0, ptr::null_mut(), flags, &mut handle) };
        if code == 0 { Ok(Transaction { handle, _environment: environment }) } else { Err(code) }
    }

    fn commit(mut self) -> c_int {
        let handle = std::mem::replace(&mut self.handle, ptr::null_mut());
        // SAFETY: the transaction is live, and is not used after this call, whatever it returns.
        unsafe { ffi::mdb_txn_commit(handle) }
    }

    /// The value under a key; valid until the transaction writes or ends.
    fn get(&self, table: ffi::MDB_dbi, key: &[u8]) -> Result<Option<&[u8]>, c_int> {
        get(self.handle, table, key)
    }

    fn put(
        &mut self,
        table: ffi::MDB_dbi,
        key: &[u8],
        value: &[u8],
        flags: c_uint,
    ) -> Result<(), c_int> {
        let (mut key, mut value) = (borrowed(key), borrowed(value));
        // SAFETY: the transaction is live and both values outlive the call, which copies them.
        match unsafe { ffi::mdb_put(self.handle, table, &mut key, &mut value, flags) } {
            0 => Ok(()),
            code => Err(code),
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the transaction is live and is not used afterwards.
            unsafe { ffi::mdb_txn_abort(self.handle) };
        }
    }
}

fn borrowed(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len() as _, mv_data: bytes.as_ptr().cast_mut().cast() }
}

fn get<'txn>(
    handle: *mut ffi::MDB_txn,
    table: ffi::MDB_dbi,
    key: &[u8],
) -> Result<Option<&'txn [u8]>, c_int> {
    let mut key = borrowed(key);
    let mut value = ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() };
    // SAFETY: callers pass a live transaction that outlives the slice; the library fills in `value` on success.
    match unsafe { ffi::mdb_get(handle, table, &mut key, &mut value) } {
        // SAFETY: on success the value is that many readable bytes of the memory map.
        0 => Ok(Some(unsafe { std::slice::from_raw_parts(value.mv_data.cast(), value.mv_size) })),
        ffi::MDB_NOTFOUND => Ok(None),
        code => Err(code),
    }
}

fn counter_of(value: &[u8]) -> Result<u64, DriverError> {
    let bytes = value.first_chunk::<COUNTER_BYTES>();
    bytes
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or_else(|| DriverError::new("lmdb: a value is shorter than its counter"))
}

/// An opened LMDB environment.
pub struct Lmdb {
    environment: Arc<Environment>,
    tables: Mutex<Vec<ffi::MDB_dbi>>,
    progress: ffi::MDB_dbi,
}

impl Lmdb {
    fn write(&self) -> Result<Transaction<'_>, DriverError> {
        Transaction::begin(&self.environment, 0).map_err(failed("begin a write transaction"))
    }

    fn read(&self) -> Result<Transaction<'_>, DriverError> {
        Transaction::begin(&self.environment, ffi::MDB_RDONLY)
            .map_err(failed("begin a read transaction"))
    }

    fn table(&self, table: u16) -> Result<ffi::MDB_dbi, DriverError> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        while tables.len() <= usize::from(table) {
            let name = format!("t{}", tables.len() + 1);
            let opened =
                open_database(&self.environment, &name, ffi::MDB_CREATE | ffi::MDB_INTEGERKEY)?;
            tables.push(opened);
        }
        Ok(tables[usize::from(table)])
    }
}

fn failed(doing: &str) -> impl Fn(c_int) -> DriverError + '_ {
    move |code| match check(code, doing) {
        Err(error) => error,
        Ok(()) => DriverError::new(format!("lmdb: {doing}")),
    }
}

fn open_database(
    environment: &Environment,
    name: &str,
    flags: c_uint,
) -> Result<ffi::MDB_dbi, DriverError> {
    let transaction = Transaction::begin(environment, 0).map_err(failed("open a table"))?;
    let name = CString::new(name).expect("table names hold no zero byte");
    let mut database = 0;
    // SAFETY: the transaction is live and the name is a C string; the caller opens one database at a time.
    let code =
        unsafe { ffi::mdb_dbi_open(transaction.handle, name.as_ptr(), flags, &mut database) };
    check(code, "open a table")?;
    check(transaction.commit(), "open a table")?;
    Ok(database)
}

fn flags_from(options: &OpenOptions) -> Result<c_uint, DriverError> {
    FLAGS.iter().try_fold(0, |flags, (name, flag)| {
        Ok(if options.flag(name)? { flags | flag } else { flags })
    })
}

impl Driver for Lmdb {
    type Client = LmdbClient;

    fn open(options: &OpenOptions) -> Result<Self, DriverError> {
        std::fs::create_dir_all(&options.directory)
            .map_err(|error| DriverError::new(format!("make the data directory: {error}")))?;
        let flags = flags_from(options)?;
        let map_bytes = options.number("map_size_mb")? << 20;
        let path = CString::new(options.directory.as_os_str().as_bytes())
            .map_err(|_| DriverError::new("the data directory's name holds a zero byte"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` receives a new environment; it is wrapped at once, so it is closed on every way out, as
        // the library asks even where opening fails.
        check(unsafe { ffi::mdb_env_create(&mut handle) }, "make an environment")?;
        let environment = Environment(handle);
        // SAFETY: the environment is made but not open, which is when these three may be set.
        unsafe {
            check(ffi::mdb_env_set_mapsize(handle, map_bytes as _), "set map_size_mb")?;
            check(ffi::mdb_env_set_maxdbs(handle, 256), "set the number of tables")?;
            check(ffi::mdb_env_set_maxreaders(handle, options.clients + 16), "set readers")?;
        }
        // SAFETY: the path is a C string; MDB_NOTLS lets a client's read transaction move to its thread.
        let code =
            unsafe { ffi::mdb_env_open(handle, path.as_ptr(), flags | ffi::MDB_NOTLS, 0o600) };
        check(code, &format!("open {}", options.directory.display()))?;
        let progress = open_database(&environment, "dbdyno", ffi::MDB_CREATE)?;
        let environment = Arc::new(environment);
        Ok(Lmdb { environment, tables: Mutex::new(Vec::new()), progress })
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        // SAFETY: mdb_version returns a static string and takes null for the numbers.
        let version = unsafe {
            CStr::from_ptr(ffi::mdb_version(ptr::null_mut(), ptr::null_mut(), ptr::null_mut()))
        };
        let mut flags = 0;
        // SAFETY: the environment is open; all three calls only fill in what they are given.
        let (info, readers) = unsafe {
            check(ffi::mdb_env_get_flags(self.environment.0, &mut flags), "read flags")?;
            let mut info: ffi::MDB_envinfo = std::mem::zeroed();
            check(ffi::mdb_env_info(self.environment.0, &mut info), "read the map's size")?;
            let mut readers = 0;
            check(ffi::mdb_env_get_maxreaders(self.environment.0, &mut readers), "read readers")?;
            (info, readers)
        };
        let mut settings = BTreeMap::from([
            ("map_size_mb".to_owned(), (info.me_mapsize as u64 >> 20).to_string()),
            ("max_readers".to_owned(), readers.to_string()),
        ]);
        for (name, flag) in FLAGS {
            settings.insert(name.to_owned(), (flags & flag != 0).to_string());
        }
        Ok(Receipt { version: version.to_string_lossy().into_owned(), settings })
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        (0..tables).try_for_each(|table| self.table(table).map(drop))
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        let table = self.table(table)?;
        let mut last = None;
        for_each(&self.read()?, table, ffi::MDB_LAST, |key, _| {
            last = key.first_chunk().map(|key| u64::from_ne_bytes(*key));
            Ok(false)
        })?;
        Ok(last)
    }

    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        let database = self.table(table)?;
        let mut transaction = self.write()?;
        let (mut value, mut filler) = (Vec::new(), Vec::new());
        for row in rows {
            fill(RowId { table, row }, &mut filler);
            value.clear();
            value.extend_from_slice(&[0; COUNTER_BYTES]);
            value.extend_from_slice(&filler);
            transaction
                .put(database, &row.to_ne_bytes(), &value, ffi::MDB_APPEND)
                .map_err(failed("insert a row"))?;
        }
        check(transaction.commit(), "commit inserted rows")
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        let mut transaction = self.write()?;
        let mut value = Vec::new();
        for &RowId { table, row } in rows {
            let (database, key) = (self.table(table)?, row.to_ne_bytes());
            let found = transaction.get(database, &key).map_err(failed("read a row"))?;
            let found = found.ok_or_else(|| DriverError::new(format!("no row {row}")))?;
            let counter = counter_of(found)?.wrapping_add(1);
            value.clear();
            value.extend_from_slice(found);
            value[..COUNTER_BYTES].copy_from_slice(&counter.to_le_bytes());
            transaction.put(database, &key, &value, 0).map_err(failed("age a row"))?;
        }
        transaction
            .put(self.progress, PROGRESS_KEY, &progress.to_le_bytes(), 0)
            .map_err(failed("note progress"))?;
        check(transaction.commit(), "commit aged rows")
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        let transaction = self.read()?;
        let value =
            transaction.get(self.progress, PROGRESS_KEY).map_err(failed("read progress"))?;
        value.map_or(Ok(0), counter_of)
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        let database = self.table(table)?;
        let transaction = self.read()?;
        let value = transaction.get(database, &row.to_ne_bytes()).map_err(failed("read a row"))?;
        value
            .map(|value| {
                let counter = counter_of(value)?;
                Ok(Row { counter, filler: value[COUNTER_BYTES..].to_vec() })
            })
            .transpose()
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        let table = self.table(table)?;
        let mut sum = 0u64;
        for_each(&self.read()?, table, ffi::MDB_FIRST, |_, value| {
            sum = sum.wrapping_add(counter_of(value)?);
            Ok(true)
        })?;
        Ok(sum)
    }

    fn settle(&self) -> Result<(), DriverError> {
        // SAFETY: the environment is open.
        check(unsafe { ffi::mdb_env_sync(self.environment.0, 1) }, "sync")
    }

    fn connect(&self, tables: u16) -> Result<LmdbClient, DriverError> {
        let databases =
            (0..tables).map(|table| self.table(table)).collect::<Result<Vec<_>, _>>()?;
        let mut reader = ptr::null_mut();
        // SAFETY: the environment is open and kept open by the client. A reader holds a slot from here on; it is
        // reset at once so that it pins no page until it is renewed.
        unsafe {
            let code = ffi::mdb_txn_begin(
                self.environment.0,
                ptr::null_mut(),
                ffi::MDB_RDONLY,
                &mut reader,
            );
            check(code, "open a connection")?;
            ffi::mdb_txn_reset(reader);
        }
        // Values are copied here to be changed; rows are never longer than this, because loading wrote them.
        let value = Vec::with_capacity(64 << 10);
        Ok(LmdbClient { environment: Arc::clone(&self.environment), databases, reader, value })
    }
}

/// Walks a table from its first or to its last entry while `visit` says so.
fn for_each(
    transaction: &Transaction<'_>,
    table: ffi::MDB_dbi,
    start: ffi::MDB_cursor_op,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, DriverError>,
) -> Result<(), DriverError> {
    let mut cursor = ptr::null_mut();
    // SAFETY: the transaction is live and outlives the cursor, which is closed below.
    let code = unsafe { ffi::mdb_cursor_open(transaction.handle, table, &mut cursor) };
    check(code, "open a cursor")?;
    let mut step = start;
    let result = loop {
        let (mut key, mut value) = (borrowed(&[]), borrowed(&[]));
        // SAFETY: the cursor is open; on success key and value are readable until the transaction ends.
        let (code, key, value) = unsafe {
            let code = ffi::mdb_cursor_get(cursor, &mut key, &mut value, step);
            let bytes = |val: &ffi::MDB_val| {
                std::slice::from_raw_parts(val.mv_data.cast::<u8>(), val.mv_size)
            };
            (code, bytes(&key), bytes(&value))
        };
        match code {
            0 => match visit(key, value) {
                Ok(true) => step = ffi::MDB_NEXT,
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            },
            ffi::MDB_NOTFOUND => break Ok(()),
            code => break check(code, "walk a table"),
        }
    };
    // SAFETY: the cursor is open and not used afterwards.
    unsafe { ffi::mdb_cursor_close(cursor) };
    result
}

/// One client: a read transaction that is renewed for each read, and a buffer for changed values.
pub struct LmdbClient {
    environment: Arc<Environment>,
    databases: Vec<ffi::MDB_dbi>,
    reader: *mut ffi::MDB_txn,
    value: Vec<u8>,
}

// SAFETY: with MDB_NOTLS a read-only transaction may be used by one thread after another; a client has one owner.
unsafe impl Send for LmdbClient {}

impl Drop for LmdbClient {
    fn drop(&mut self) {
        // SAFETY: the reader is live, reset or not, and the environment is still open.
        unsafe { ffi::mdb_txn_abort(self.reader) };
    }
}

impl Client for LmdbClient {
    #[inline]
    fn execute(&mut self, request: &Request) -> Outcome {
        let database = self.databases[usize::from(request.table)];
        match request.action {
            Action::Read => self.read(database, request.row),
            Action::Increment => self.update(database, request.row, |old| old.wrapping_add(1)),
            Action::Assign(value) => self.update(database, request.row, |_| value),
            _ => NOT_MADE_FOR,
        }
    }
}

impl LmdbClient {
    #[inline]
    fn read(&mut self, database: ffi::MDB_dbi, row: u64) -> Outcome {
        // SAFETY: the reader is live and was reset by the last read or by `connect`.
        let code = unsafe { ffi::mdb_txn_renew(self.reader) };
        if code != 0 {
            return refused(code);
        }
        let outcome = match get(self.reader, database, &row.to_ne_bytes()) {
            Ok(Some(value)) => {
                std::hint::black_box(value);
                Outcome::Acknowledged
            }
            Ok(None) => refused(ffi::MDB_NOTFOUND),
            Err(code) => refused(code),
        };
        // SAFETY: the reader is live; the value is not used any more.
        unsafe { ffi::mdb_txn_reset(self.reader) };
        outcome
    }

    fn update(
        &mut self,
        database: ffi::MDB_dbi,
        row: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Outcome {
        let mut transaction = match Transaction::begin(&self.environment, 0) {
            Ok(transaction) => transaction,
            Err(code) => return refused(code),
        };
        let key = row.to_ne_bytes();
        match transaction.get(database, &key) {
            Ok(Some(found)) => {
                self.value.clear();
                self.value.extend_from_slice(found);
            }
            Ok(None) => return refused(ffi::MDB_NOTFOUND),
            Err(code) => return refused(code),
        }
        let Some(counter) = self.value.first_chunk_mut::<COUNTER_BYTES>() else {
            return refused(ffi::MDB_CORRUPTED);
        };
        *counter = change(u64::from_le_bytes(*counter)).to_le_bytes();
        if let Err(code) = transaction.put(database, &key, &self.value, 0) {
            return refused(code);
        }
        match transaction.commit() {
            0 => Outcome::Acknowledged,
            // A commit that fails may have written its last page or not: nobody knows.
            code => Outcome::Unknown(failure(code)),
        }
    }
}

fn failure(code: c_int) -> Failure {
    let class = match code {
        ffi::MDB_NOTFOUND => FailureClass::NoSuchRow,
        ffi::MDB_MAP_FULL | ffi::MDB_TXN_FULL => FailureClass::Full,
        code if is_disk_full(code) => FailureClass::DiskFull,
        _ => FailureClass::Other,
    };
    Failure { class, code }
}

/// Before commit nothing was changed, so a failure is a refusal.
#[cold]
fn refused(code: c_int) -> Outcome {
    Outcome::Refused(failure(code))
}
