//! The shim's functions, found by name in the shared object that was compiled for one version of WiredTiger.
//!
//! `engines/shims/wiredtiger.c` has the other side of each declaration; change both together. Nothing here decides anything.

use crate::driver::DriverError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;

/// An open database.
#[repr(C)]
pub struct Connection {
    _opaque: [u8; 0],
}

/// One thread's access to it.
#[repr(C)]
pub struct Session {
    _opaque: [u8; 0],
}

/// A place in a table.
#[repr(C)]
pub struct Cursor {
    _opaque: [u8; 0],
}

/// Takes one statistic: to whom it is handed, its name (a C string that lives for the call), and its value.
pub type EachStatistic = unsafe extern "C" fn(*mut c_void, *const c_char, i64);

macro_rules! shim {
    ($($name:ident: $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, all of which must be there. Pointers stay valid because the library is never unloaded.
        #[derive(Debug)]
        pub struct Shim {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// It has had threads and thread-local data, for which unloading is not safe.
            _library: ManuallyDrop<Library>,
        }

        fn functions_of(library: Library) -> Result<Shim, libloading::Error> {
            // SAFETY: each symbol is declared here as the shim's text defines it.
            unsafe {
                Ok(Shim {
                    $($name: *library.get(concat!("dbdyno_wiredtiger_", $symbol).as_bytes())?,)*
                    _library: ManuallyDrop::new(library),
                })
            }
        }
    };
}

shim! {
    version: "version" (*mut c_int, *mut c_int, *mut c_int);
    words: "words" (c_int) -> *const c_char;
    open: "open" (*const c_char, *const c_char, *mut *mut Connection) -> c_int;
    close: "close" (*mut Connection) -> c_int;
    message: "message" (*mut Connection, *mut c_char, usize);
    session: "session" (*mut Connection, *mut *mut Session) -> c_int;
    end_session: "end_session" (*mut Session) -> c_int;
    create: "create" (*mut Session, *const c_char, *const c_char) -> c_int;
    cursor: "cursor" (*mut Session, *const c_char, *mut *mut Cursor) -> c_int;
    begin: "begin" (*mut Session) -> c_int;
    commit: "commit" (*mut Session) -> c_int;
    rollback: "rollback" (*mut Session) -> c_int;
    checkpoint: "checkpoint" (*mut Session) -> c_int;
    put: "put" (*mut Cursor, u64, *const c_void, usize) -> c_int;
    get: "get" (*mut Cursor, u64, *mut *const c_void, *mut usize) -> c_int;
    step: "step" (*mut Cursor, c_int, *mut u64, *mut *const c_void, *mut usize) -> c_int;
    reset: "reset" (*mut Cursor) -> c_int;
    read: "read" (*mut Cursor, u64, *mut u64) -> c_int;
    update: "update" (*mut Session, *mut Cursor, u64, c_int, u64, *mut c_int) -> c_int;
    statistics: "statistics" (*mut Session, EachStatistic, *mut c_void) -> c_int;
    metadata: "metadata" (*mut Session, *const c_char, *mut c_char, usize) -> c_int;
}

impl Shim {
    /// Opens the shared object and finds all functions.
    pub fn load(path: &Path) -> Result<Shim, DriverError> {
        // SAFETY: the file is what the engine's installation made, or what the user named as such; its initialisers and
        // those of the library that it brings are the C libraries' own.
        let library = unsafe { Library::new(path) }.map_err(|error| {
            let message = format!("wiredtiger: {} cannot be opened: {error}", path.display());
            DriverError::new(message)
        })?;
        functions_of(library).map_err(|error| {
            let message = format!(
                "wiredtiger: {} is not dbdyno's shim for WiredTiger: {error}",
                path.display()
            );
            DriverError::new(message)
        })
    }
}
