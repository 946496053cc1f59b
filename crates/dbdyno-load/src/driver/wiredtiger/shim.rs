//! The shim's functions, found by name in the shared object that was compiled for one version of WiredTiger.
//!
//! `engines/shims/wiredtiger.c` has the other side of each declaration; change both together. Nothing here decides anything.

use crate::driver::DriverError;
use crate::shared_library::{SharedLibrary, check_header};
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};

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
        /// The functions, all of which must be there. Pointers stay valid because a library is never closed.
        #[derive(Debug)]
        pub struct Shim {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        /// The functions, or the name of one that is not there.
        fn functions_of(library: &SharedLibrary) -> Result<Shim, &'static str> {
            // SAFETY: each symbol is declared here as the shim's text defines it.
            unsafe {
                Ok(Shim {
                    $($name: {
                        let name = concat!("dbdyno_wiredtiger_", $symbol);
                        library.symbol(name).ok_or(name)?
                    },)*
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
    message: "message" (*mut Connection, *mut c_char, usize) -> c_int;
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
    ///
    /// # Errors
    /// If it, or a library beside it, is none for this machine, or if it is not the shim.
    pub fn load(path: &Path) -> Result<Shim, DriverError> {
        // What the loader opens with the shim must be looked at before: it would crash over a library that was cut short.
        libraries_beside(path).iter().try_for_each(|library| check_header(library))?;
        let library = SharedLibrary::open(path)?;
        functions_of(&library).map_err(|missing| {
            let shown = path.display();
            let why = format!("it has no {missing}; fetch the engine again");
            DriverError::new(format!("{shown} is not dbdyno's shim for WiredTiger: {why}"))
        })
    }
}

/// The libraries that lie beside the shim, as `libNAME.so...`: WiredTiger, and what it needs or may be told to open.
fn libraries_beside(shim: &Path) -> Vec<PathBuf> {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("lib") && name.contains(".so")
    };
    let entries = shim.parent().and_then(|directory| std::fs::read_dir(directory).ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(is_library).collect()
}
