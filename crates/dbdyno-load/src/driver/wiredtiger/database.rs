//! Connections, sessions and cursors of WiredTiger as values that close themselves, and its codes as errors in its words.
//!
//! The control plane's side; a client's requests are in `client.rs`.

use super::shim::{Connection, Cursor, Session, Shim};
use crate::driver::DriverError;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// Room for a message of the library's and for what its catalogue says of a table.
const MESSAGE_BYTES: usize = 512;
const METADATA_BYTES: usize = 16 << 10;

/// Codes of WiredTiger's own, the same in all versions (wiredtiger.h, "Error returns").
pub const WT_ROLLBACK: c_int = -31_800;
/// Nothing was found.
pub const WT_NOTFOUND: c_int = -31_803;
/// The library can no longer be used.
const WT_PANIC: c_int = -31_804;
/// The cache cannot take more.
pub const WT_CACHE_FULL: c_int = -31_807;

/// Whether there is no room for what was to be written.
pub fn is_disk_full(code: c_int) -> bool {
    matches!(code, libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
}

/// An open database; closed when the last session is gone.
pub struct Database {
    /// The library's functions.
    pub shim: Shim,
    connection: *mut Connection,
}

// SAFETY: a WiredTiger connection may be used from any thread; sessions are what must stay with one at a time.
unsafe impl Send for Database {}
// SAFETY: as above; the library locks internally, and so does the shim around its message.
unsafe impl Sync for Database {}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: every session holds this database, so none is left. A failure to close shows when it is opened next.
        unsafe { (self.shim.close)(self.connection) };
    }
}

impl Database {
    /// Opens, or makes, a database in a directory.
    pub fn open(shim: Shim, directory: &Path, config: &str) -> Result<Database, DriverError> {
        let path = c_string(&directory.to_string_lossy())?;
        let mut database = Database { shim, connection: ptr::null_mut() };
        let config_text = c_string(config)?;
        // SAFETY: both texts are C strings that outlive the call; the handle is kept, and closed, also if it fails.
        let code = unsafe {
            (database.shim.open)(path.as_ptr(), config_text.as_ptr(), &mut database.connection)
        };
        database.check(code, &format!("open {}", directory.display()))?;
        Ok(database)
    }

    /// An error with the library's last message, unless the code is none.
    pub fn check(&self, code: c_int, doing: &str) -> Result<(), DriverError> {
        if code == 0 {
            return Ok(());
        }
        let (said, is_about_full_disk) = self.last_message();
        // SAFETY: the library returns a text for every code, which lives until this thread asks again.
        let words = unsafe { CStr::from_ptr((self.shim.words)(code)) }.to_string_lossy();
        let detail = if said.is_empty() { String::new() } else { format!(": {said}") };
        let is_disk_full = is_disk_full(code) || is_about_full_disk;
        let advice = match code {
            WT_PANIC => "; the library has given up and works again only when it is opened anew",
            _ => "",
        };
        let message = format!("wiredtiger: {doing}: {words}{detail}{advice}");
        Err(DriverError { is_disk_full, ..DriverError::new(message) })
    }

    /// Whether the library gave up because the disk is full.
    pub fn gave_up_on_full_disk(&self, code: c_int) -> bool {
        code == WT_PANIC && self.last_message().1
    }

    /// Whether it always had room for what it wrote: on a full disk it may wait in a commit until some is there, and go on.
    pub fn check_room(&self) -> Result<(), DriverError> {
        match self.last_message() {
            (said, true) => {
                let error = DriverError::new(format!("wiredtiger: there was no room: {said}"));
                Err(DriverError { is_disk_full: true, ..error })
            }
            _ => Ok(()),
        }
    }

    /// What it said last, and whether that is about a full disk.
    fn last_message(&self) -> (String, bool) {
        if self.connection.is_null() {
            return (String::new(), false);
        }
        let mut text: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
        // SAFETY: the handle is there and the buffer has as many bytes as is said; the shim ends it with a zero.
        let (is_about_full_disk, said) = unsafe {
            let code = (self.shim.message)(self.connection, text.as_mut_ptr(), text.len());
            (code != 0, CStr::from_ptr(text.as_ptr()))
        };
        (said.to_string_lossy().into_owned(), is_about_full_disk)
    }

    /// The library's version.
    pub fn version(&self) -> String {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the three numbers are filled in.
        unsafe { (self.shim.version)(&mut major, &mut minor, &mut patch) };
        format!("{major}.{minor}.{patch}")
    }
}

/// A C string; none of our names holds a zero byte, but a directory given by a user might.
fn c_string(text: &str) -> Result<CString, DriverError> {
    CString::new(text).map_err(|_| DriverError::new(format!("{text:?} holds a zero byte")))
}

/// One session, which one thread uses at a time. Its cursors live as long as it does.
pub struct OpenSession {
    /// Its database.
    pub database: Arc<Database>,
    /// Never null.
    pub session: *mut Session,
}

// SAFETY: a session may be used by one thread after another, and has one owner.
unsafe impl Send for OpenSession {}

impl Drop for OpenSession {
    fn drop(&mut self) {
        // SAFETY: the session is open and is not used afterwards; its cursors are closed with it.
        unsafe { (self.database.shim.end_session)(self.session) };
    }
}

impl OpenSession {
    /// Opens one.
    pub fn of(database: &Arc<Database>) -> Result<OpenSession, DriverError> {
        let mut session = ptr::null_mut();
        // SAFETY: the connection is open; `session` receives the handle.
        let code = unsafe { (database.shim.session)(database.connection, &mut session) };
        database.check(code, "open a session")?;
        Ok(OpenSession { database: Arc::clone(database), session })
    }

    /// Opens a cursor.
    pub fn cursor(&self, uri: &str) -> Result<*mut Cursor, DriverError> {
        let (uri_text, mut cursor) = (c_string(uri)?, ptr::null_mut());
        // SAFETY: the session is open and the text is a C string; `cursor` receives the handle.
        let code =
            unsafe { (self.database.shim.cursor)(self.session, uri_text.as_ptr(), &mut cursor) };
        self.database.check(code, &format!("open {uri}"))?;
        Ok(cursor)
    }

    /// Makes a table, unless it is there.
    pub fn create(&self, uri: &str, config: &str) -> Result<(), DriverError> {
        let (uri_text, config) = (c_string(uri)?, c_string(config)?);
        // SAFETY: the session is open and both texts are C strings.
        let code = unsafe {
            (self.database.shim.create)(self.session, uri_text.as_ptr(), config.as_ptr())
        };
        self.database.check(code, &format!("make {uri}"))
    }

    /// Runs `body` in a transaction, which is rolled back if that fails.
    pub fn transaction(
        &self,
        doing: &str,
        body: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let (database, session) = (&self.database, self.session);
        // SAFETY: the session is open and has no transaction, because each ends here.
        database.check(unsafe { (database.shim.begin)(session) }, doing)?;
        if let Err(error) = body() {
            // SAFETY: the session is open and has a transaction.
            unsafe { (database.shim.rollback)(session) };
            return Err(error);
        }
        // SAFETY: as above; whatever it returns, the transaction is over.
        database.check(unsafe { (database.shim.commit)(session) }, doing)
    }

    /// Writes everything to its files and forces them.
    pub fn checkpoint(&self) -> Result<(), DriverError> {
        // SAFETY: the session is open and has no transaction.
        let code = unsafe { (self.database.shim.checkpoint)(self.session) };
        self.database.check(code, "make a checkpoint")
    }

    /// Writes a row.
    pub fn put(&self, cursor: *mut Cursor, key: u64, value: &[u8]) -> Result<(), DriverError> {
        // SAFETY: the cursor belongs to this session; the value outlives the call, which copies it.
        let code = unsafe {
            (self.database.shim.put)(cursor, key, value.as_ptr().cast::<c_void>(), value.len())
        };
        self.database.check(code, "write a row")
    }

    /// Hands a row's value, if it is there, to `take`.
    pub fn get<T>(
        &self,
        cursor: *mut Cursor,
        key: u64,
        take: impl FnOnce(&[u8]) -> Result<T, DriverError>,
    ) -> Result<Option<T>, DriverError> {
        let (mut value, mut bytes) = (ptr::null(), 0);
        // SAFETY: the cursor belongs to this session; value and length are filled in if a row is found.
        let code = unsafe { (self.database.shim.get)(cursor, key, &mut value, &mut bytes) };
        let taken = match code {
            // SAFETY: the value is readable until the cursor is reset below.
            0 => take(unsafe { std::slice::from_raw_parts(value.cast(), bytes) }).map(Some),
            WT_NOTFOUND => Ok(None),
            code => self.database.check(code, "read a row").map(|()| None),
        };
        // SAFETY: the cursor is open.
        unsafe { (self.database.shim.reset)(cursor) };
        taken
    }

    /// Walks a table, from its end if `backwards`, while `visit` says so.
    pub fn walk(
        &self,
        cursor: *mut Cursor,
        backwards: bool,
        mut visit: impl FnMut(u64, &[u8]) -> Result<bool, DriverError>,
    ) -> Result<(), DriverError> {
        let result = loop {
            let (mut key, mut value, mut bytes) = (0, ptr::null(), 0);
            // SAFETY: the cursor belongs to this session; the rest is filled in if there is a row.
            let code = unsafe {
                let backwards = c_int::from(backwards);
                (self.database.shim.step)(cursor, backwards, &mut key, &mut value, &mut bytes)
            };
            let goes_on = match code {
                // SAFETY: the value is readable until the cursor moves.
                0 => visit(key, unsafe { std::slice::from_raw_parts(value.cast(), bytes) }),
                WT_NOTFOUND => Ok(false),
                code => self.database.check(code, "walk a table").map(|()| false),
            };
            match goes_on {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // SAFETY: the cursor is open.
        unsafe { (self.database.shim.reset)(cursor) };
        result
    }

    /// Every number that the library keeps about itself, by its own names.
    pub fn statistics(&self) -> Result<Vec<(String, i64)>, DriverError> {
        unsafe extern "C" fn keep(to: *mut c_void, name: *const c_char, value: i64) {
            // SAFETY: `to` is the vector below, to which nobody else refers during the call; the name is a C string.
            let (found, name) =
                unsafe { (&mut *to.cast::<Vec<(String, i64)>>(), CStr::from_ptr(name)) };
            found.push((name.to_string_lossy().into_owned(), value));
        }
        let mut found: Vec<(String, i64)> = Vec::new();
        // SAFETY: the session is open, and `keep` takes what it is given here.
        let code =
            unsafe { (self.database.shim.statistics)(self.session, keep, (&raw mut found).cast()) };
        self.database.check(code, "read statistics")?;
        Ok(found)
    }

    /// What the library's catalogue says of a table.
    pub fn metadata(&self, uri: &str) -> Result<String, DriverError> {
        let uri_text = c_string(uri)?;
        let mut text: Vec<c_char> = vec![0; METADATA_BYTES];
        // SAFETY: the session is open, the name is a C string, and the buffer has as many bytes as is said.
        let code = unsafe {
            let (start, bytes) = (text.as_mut_ptr(), text.len());
            (self.database.shim.metadata)(self.session, uri_text.as_ptr(), start, bytes)
        };
        self.database.check(code, &format!("read the catalogue of {uri}"))?;
        // SAFETY: the shim ends the text with a zero within the buffer.
        Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
    }
}
