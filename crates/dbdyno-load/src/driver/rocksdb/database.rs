//! An open RocksDB database of either kind of transactions, with its column families and option objects.
//!
//! What is the same for both kinds is said here once; who asks does not know which it is. Where to start: `open`.

use super::api::{
    Api, ColumnFamily, Db, Iterator, OptimisticDb, PinnedValue, Transaction, TransactionDb,
    WriteBatch, WriteOptions,
};
use super::options_file::OptionsFile;
use super::perf_context::PerfContext;
use super::settings::{Concurrency, OptionObjects, Owned, Settings};
use super::status::Fault;
use crate::driver::{DriverError, OpenOptions};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, PoisonError};

const DEFAULT_FAMILY: &str = "default";
/// Of a setting that was made and that the library cannot be asked for: versions before 11 have no such functions.
const NOT_READABLE: &str = "not readable";
/// How files of a RocksDB database are named; `CURRENT` is there as soon as it can be opened.
const FILE_NAMES: [&str; 6] = ["LOCK", "LOG", "IDENTITY", "MANIFEST-", "OPTIONS-", "dbdyno-"];
const FILE_ENDINGS: [&str; 4] = [".log", ".sst", ".dbtmp", ".blob"];

/// The database itself.
#[derive(Clone, Copy)]
enum Handle {
    /// Pessimistic transactions. Older versions do not give the plain database below it.
    Pessimistic(*mut TransactionDb, Option<*mut Db>),
    /// Optimistic transactions and the plain database below them.
    Optimistic(*mut OptimisticDb, *mut Db),
}

/// An open database; closed when the last handle is dropped.
pub(super) struct Database {
    pub(super) api: Api,
    pub(super) directory: PathBuf,
    pub(super) objects: OptionObjects,
    pub(super) has_statistics: bool,
    pub(super) perf_context: Option<PerfContext>,
    handle: Handle,
    families: Mutex<BTreeMap<String, *mut ColumnFamily>>,
}

// SAFETY: RocksDB's databases, column families and options may be used from any thread; transactions and iterators,
// which may not be shared, belong to their makers.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Drop for Database {
    fn drop(&mut self) {
        let families = self.families.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody else has the database: clients hold it too. Column families go first, as the library asks.
        unsafe {
            for &family in families.values() {
                (self.api.column_family_handle_destroy)(family);
            }
            match self.handle {
                Handle::Pessimistic(database, base) => {
                    if let (Some(base), Some(close)) = (base, self.api.transactiondb_close_base_db)
                    {
                        close(base);
                    }
                    (self.api.transactiondb_close)(database);
                }
                Handle::Optimistic(database, base) => {
                    (self.api.optimistictransactiondb_close_base_db)(base);
                    (self.api.optimistictransactiondb_close)(database);
                }
            }
        }
    }
}

impl Database {
    /// Opens or makes the database with all the column families that it has.
    pub(super) fn open(options: &OpenOptions) -> Result<Database, DriverError> {
        let settings = Settings::read(options)?;
        let api = Api::open(options.library()?)?;
        let perf_context = PerfContext::of(&api, &settings)?;
        let directory = options.directory.clone();
        std::fs::create_dir_all(&directory)
            .map_err(|error| DriverError::new(format!("make the data directory: {error}")))?;
        check_owner(&directory)?;
        let objects = OptionObjects::make(&api, &settings);
        let writer = OptionsFile::newest(&directory).ok().map(|file| file.version);
        let opened = open_families(&api, &objects, settings.concurrency, &directory);
        let (handle, families) = opened.map_err(|error| match writer {
            Some(version) if !error.is_disk_full => DriverError::new(format!(
                "{error} (RocksDB {version} has written there last; an older version may not read it, nor one without its compression)"
            )),
            _ => error,
        })?;
        let families = Mutex::new(families);
        let has_statistics = settings.statistics;
        Ok(Database { api, directory, objects, has_statistics, perf_context, handle, families })
    }

    /// The column family of that name, made if it is not there.
    pub(super) fn family(&self, name: &str) -> Result<*mut ColumnFamily, DriverError> {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&family) = families.get(name) {
            return Ok(family);
        }
        let text = c_string(name.as_bytes())?;
        let mut fault = Fault::new(&self.api);
        let options = self.objects.database.get();
        // SAFETY: the database is open, options and name are live, and the fault's place takes the error.
        let made = unsafe {
            match self.handle {
                Handle::Pessimistic(database, _) => (self.api.transactiondb_create_column_family)(
                    database,
                    options,
                    text.as_ptr(),
                    fault.place(),
                ),
                Handle::Optimistic(_, base) => {
                    (self.api.create_column_family)(base, options, text.as_ptr(), fault.place())
                }
            }
        };
        fault.check(&format!("make column family {name}"))?;
        families.insert(name.to_owned(), made);
        Ok(made)
    }

    /// All column families that are open now.
    pub(super) fn families(&self) -> Vec<*mut ColumnFamily> {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        families.values().copied().collect()
    }

    /// The plain database, where this version gives it.
    pub(super) fn base(&self) -> Option<*mut Db> {
        match self.handle {
            Handle::Pessimistic(_, base) => base,
            Handle::Optimistic(_, base) => Some(base),
        }
    }

    /// How rows are locked, read back from the options that every transaction begins with, where the library lets us.
    pub(super) fn lock_settings(&self) -> Vec<(&'static str, String)> {
        let Handle::Pessimistic(..) = self.handle else { return Vec::new() };
        let (api, options) = (&self.api, self.objects.pessimistic.get());
        let is_detecting = api.transaction_options_get_deadlock_detect.map(|get| {
            // SAFETY: the options are live.
            unsafe { get(options) != 0 }.to_string()
        });
        let timeout_ms = api.transaction_options_get_lock_timeout.map(|get| {
            // SAFETY: the options are live.
            unsafe { get(options) }.to_string()
        });
        let shown = |value: Option<String>| value.unwrap_or_else(|| NOT_READABLE.to_owned());
        vec![("deadlock_detect", shown(is_detecting)), ("lock_timeout_ms", shown(timeout_ms))]
    }

    /// A number that the engine keeps of itself; of the whole database where the plain one cannot be had.
    pub(super) fn property(&self, family: *mut ColumnFamily, name: &CStr) -> Option<u64> {
        let mut value = 0;
        // SAFETY: the database and the family are open, the name is a C string, and `value` takes the number.
        let failed = unsafe {
            match self.handle {
                Handle::Pessimistic(database, None) => {
                    (self.api.transactiondb_property_int)(database, name.as_ptr(), &mut value)
                }
                Handle::Pessimistic(_, Some(base)) | Handle::Optimistic(_, base) => {
                    (self.api.property_int_cf)(base, family, name.as_ptr(), &mut value)
                }
            }
        };
        (failed == 0).then_some(value)
    }

    /// Makes a batch of writes together.
    pub(super) fn write(
        &self,
        batch: &Owned<WriteBatch>,
        options: *mut WriteOptions,
    ) -> Result<(), DriverError> {
        let mut fault = Fault::new(&self.api);
        // SAFETY: database, options and batch are live, and the fault's place takes the error.
        unsafe {
            match self.handle {
                Handle::Pessimistic(database, _) => {
                    (self.api.transactiondb_write)(database, options, batch.get(), fault.place())
                }
                Handle::Optimistic(_, base) => {
                    (self.api.write)(base, options, batch.get(), fault.place());
                }
            }
        }
        fault.check("write rows")
    }

    /// A walk over a column family that leaves the cache as it is.
    pub(super) fn walk(&self, family: *mut ColumnFamily) -> Owned<Iterator> {
        let scan = self.objects.scan.get();
        // SAFETY: the database and the family are open; the iterator is destroyed by its own function.
        unsafe {
            let made = match self.handle {
                Handle::Pessimistic(database, _) => {
                    (self.api.transactiondb_create_iterator_cf)(database, scan, family)
                }
                Handle::Optimistic(_, base) => (self.api.create_iterator_cf)(base, scan, family),
            };
            Owned::new(made, self.api.iter_destroy)
        }
    }

    /// Begins a transaction in a used one, or in a new one if `used` is null.
    #[inline]
    pub(super) fn begin(&self, used: *mut Transaction) -> *mut Transaction {
        let (api, objects) = (&self.api, &self.objects);
        let write = objects.write.get();
        // SAFETY: the database and the options are live; a used transaction is ended and of the same kind.
        unsafe {
            match self.handle {
                Handle::Pessimistic(database, _) => {
                    (api.transaction_begin)(database, write, objects.pessimistic.get(), used)
                }
                Handle::Optimistic(database, _) => (api.optimistictransaction_begin)(
                    database,
                    write,
                    objects.optimistic.get(),
                    used,
                ),
            }
        }
    }

    /// What `look` makes of the value under a key, if there is one.
    #[inline]
    pub(super) fn get<R>(
        &self,
        family: *mut ColumnFamily,
        key: &[u8],
        fault: &mut Fault<'_>,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let (api, read) = (&self.api, self.objects.read.get());
        let (key, length) = (key.as_ptr().cast(), key.len());
        // SAFETY: database, family and key are live, the fault's place takes the error, and each value is looked at and
        // ended by the function that belongs to its kind.
        unsafe {
            match (self.handle, api.transactiondb_get_pinned_cf) {
                (Handle::Optimistic(_, base), _) => {
                    let value = (api.get_pinned_cf)(base, read, family, key, length, fault.place());
                    pinned(api, value, look)
                }
                (Handle::Pessimistic(database, _), Some(get)) => {
                    pinned(api, get(database, read, family, key, length, fault.place()), look)
                }
                (Handle::Pessimistic(database, _), None) => {
                    let mut size = 0;
                    let value = (api.transactiondb_get_cf)(
                        database,
                        read,
                        family,
                        key,
                        length,
                        &mut size,
                        fault.place(),
                    );
                    copied(api, value, size, look)
                }
            }
        }
    }

    /// Makes a copy of the database out of links, which flushes every column family, and removes it again: the only way
    /// to flush where the plain database cannot be had.
    pub(super) fn flush_by_checkpoint(&self) -> Result<(), DriverError> {
        let Handle::Pessimistic(database, _) = self.handle else { return Ok(()) };
        let directory = self.directory.join("dbdyno-flush");
        let remove = || match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(DriverError::new(format!("remove {}: {error}", directory.display())))
            }
            _ => Ok(()),
        };
        remove()?;
        let path = c_string(directory.as_os_str().as_bytes())?;
        let (api, mut fault) = (&self.api, Fault::new(&self.api));
        // SAFETY: the database is open and the path is a C string; the object is destroyed by its own function, also
        // where making the copy failed.
        unsafe {
            let made = (api.transactiondb_checkpoint_object_create)(database, fault.place());
            fault.check("prepare to flush")?;
            let checkpoint = Owned::new(made, api.checkpoint_object_destroy);
            (api.checkpoint_create)(checkpoint.get(), path.as_ptr(), 0, fault.place());
        }
        fault.check("flush")?;
        remove()
    }
}

/// # Safety
/// `value` is null or a live value, which is ended here.
#[inline]
pub(super) unsafe fn pinned<R>(
    api: &Api,
    value: *mut PinnedValue,
    look: impl FnOnce(&[u8]) -> R,
) -> Option<R> {
    if value.is_null() {
        return None;
    }
    let mut size = 0;
    // SAFETY: the value is live until it is destroyed below, and its bytes as long.
    unsafe {
        let bytes = (api.pinnableslice_value)(value, &mut size);
        let seen = look(std::slice::from_raw_parts(bytes.cast(), size));
        (api.pinnableslice_destroy)(value);
        Some(seen)
    }
}

/// # Safety
/// `value` is null or that many bytes that the library allocated, which are freed here.
#[inline]
pub(super) unsafe fn copied<R>(
    api: &Api,
    value: *mut c_char,
    size: usize,
    look: impl FnOnce(&[u8]) -> R,
) -> Option<R> {
    if value.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let seen = look(std::slice::from_raw_parts(value.cast(), size));
        (api.free)(value.cast());
        Some(seen)
    }
}

pub(super) fn c_string(bytes: &[u8]) -> Result<CString, DriverError> {
    CString::new(bytes).map_err(|_| DriverError::new("a name holds a zero byte"))
}

/// RocksDB would make its files among those of another engine.
fn check_owner(directory: &Path) -> Result<(), DriverError> {
    let entries = std::fs::read_dir(directory).map_err(|error| {
        DriverError::new(format!("rocksdb: read {}: {error}", directory.display()))
    })?;
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let is_ours = |name: &&String| {
        FILE_NAMES.iter().any(|begin| name.starts_with(begin))
            || FILE_ENDINGS.iter().any(|end| name.ends_with(end))
    };
    if names.iter().any(|name| name == "CURRENT") {
        return Ok(());
    }
    match names.iter().find(|name| !is_ours(name)) {
        None => Ok(()),
        Some(other) => Err(DriverError::new(format!(
            "rocksdb: {} holds no RocksDB database but \"{other}\", which is something else's: name another directory",
            directory.display()
        ))),
    }
}

type Opened = (Handle, BTreeMap<String, *mut ColumnFamily>);

fn open_families(
    api: &Api,
    objects: &OptionObjects,
    concurrency: Concurrency,
    directory: &Path,
) -> Result<Opened, DriverError> {
    let path = c_string(directory.as_os_str().as_bytes())?;
    let mut names = vec![c_string(DEFAULT_FAMILY.as_bytes())?];
    if directory.join("CURRENT").exists() {
        names = names_of_families(api, objects, &path, directory)?;
    }
    let texts: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let options = vec![objects.database.get().cast_const(); names.len()];
    let mut families = vec![ptr::null_mut(); names.len()];
    let count = c_int::try_from(names.len()).map_err(|_| DriverError::new("too many tables"))?;
    let mut fault = Fault::new(api);
    let doing = format!("open {}", directory.display());
    // SAFETY: all lists are of that length and outlive the calls, and the fault's place takes the error. Options of
    // the whole of a transaction database are copied by the library.
    let handle = unsafe {
        match concurrency {
            Concurrency::Pessimistic => {
                let whole = Owned::new(
                    (api.transactiondb_options_create)(),
                    api.transactiondb_options_destroy,
                );
                let database = (api.transactiondb_open_column_families)(
                    objects.database.get(),
                    whole.get(),
                    path.as_ptr(),
                    count,
                    texts.as_ptr(),
                    options.as_ptr(),
                    families.as_mut_ptr(),
                    fault.place(),
                );
                fault.check(&doing)?;
                let base = api.transactiondb_close_base_db.and(api.transactiondb_get_base_db);
                Handle::Pessimistic(database, base.map(|base| base(database)))
            }
            Concurrency::Optimistic => {
                let database = (api.optimistictransactiondb_open_column_families)(
                    objects.database.get(),
                    path.as_ptr(),
                    count,
                    texts.as_ptr(),
                    options.as_ptr(),
                    families.as_mut_ptr(),
                    fault.place(),
                );
                fault.check(&doing)?;
                let base = (api.optimistictransactiondb_get_base_db)(database);
                Handle::Optimistic(database, base)
            }
        }
    };
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    Ok((handle, names.zip(families).collect()))
}

fn names_of_families(
    api: &Api,
    objects: &OptionObjects,
    path: &CStr,
    directory: &Path,
) -> Result<Vec<CString>, DriverError> {
    let (mut fault, mut count) = (Fault::new(api), 0);
    // SAFETY: options and path are live; the list holds `count` C strings until it is destroyed, and is copied before.
    unsafe {
        let options = objects.database.get();
        let list = (api.list_column_families)(options, path.as_ptr(), &mut count, fault.place());
        fault.check(&format!("open {}", directory.display()))?;
        let names = std::slice::from_raw_parts(list, count);
        let names = names.iter().map(|&name| CStr::from_ptr(name).to_owned()).collect();
        (api.list_column_families_destroy)(list, count);
        Ok(names)
    }
}
