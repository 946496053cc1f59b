//! Settings of the engine file, and the option objects of the library that they become.
//!
//! Option objects are made once, when the database is opened, and live as long as it does.

use super::api::{Api, OptimisticOptions, Options, ReadOptions, TransactionOptions, WriteOptions};
use crate::driver::{DriverError, OpenOptions};
use std::ffi::c_int;

const MB: u64 = 1 << 20;
/// Compression types by the numbers of RocksDB's C API, and by the words in its options files.
const COMPRESSIONS: [(&str, c_int, &str); 4] = [
    ("none", 0, "kNoCompression"),
    ("snappy", 1, "kSnappyCompression"),
    ("lz4", 4, "kLZ4Compression"),
    ("zstd", 7, "kZSTD"),
];
/// Compaction styles, likewise.
const COMPACTIONS: [(&str, c_int, &str); 2] =
    [("level", 0, "kCompactionStyleLevel"), ("universal", 1, "kCompactionStyleUniversal")];

/// Levels of the perf context by the numbers of RocksDB's C API, and by what `include/rocksdb/perf_level.h` calls them. Later
/// versions have put a level before the last ones: 4 is `kEnableTimeAndCPUTimeExceptForMutex` in older versions, and in none
/// of them times the locking of mutexes, which would change what is measured.
const PERF_LEVELS: [(&str, c_int, &str); 3] = [
    ("off", PERF_OFF, "kDisable"),
    ("counts", 2, "kEnableCount"),
    ("times", 4, "kEnableTimeExceptForMutex"),
];
/// The level at which nothing is counted.
pub(super) const PERF_OFF: c_int = 1;

/// How conflicts of transactions are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Concurrency {
    /// Keys are locked when they are read for update.
    Pessimistic,
    /// Keys are compared at commit.
    Optimistic,
}

/// What the engine file has set.
pub(super) struct Settings {
    pub(super) concurrency: Concurrency,
    wal: bool,
    sync: bool,
    deadlock_detect: bool,
    lock_timeout_ms: u64,
    cache_bytes: u64,
    write_buffer_bytes: u64,
    background_jobs: c_int,
    compaction: c_int,
    compression: c_int,
    pub(super) statistics: bool,
    /// The level of the perf context.
    pub(super) perf_level: c_int,
}

impl Settings {
    /// Reads them.
    pub(super) fn read(options: &OpenOptions) -> Result<Settings, DriverError> {
        let concurrency = match options.text("concurrency")? {
            "pessimistic" => Concurrency::Pessimistic,
            "optimistic" => Concurrency::Optimistic,
            other => return Err(wrong("concurrency", "pessimistic or optimistic", other)),
        };
        let background_jobs = options.number("background_jobs")?;
        Ok(Settings {
            concurrency,
            wal: options.flag("wal")?,
            sync: options.flag("sync")?,
            deadlock_detect: options.flag("deadlock_detect")?,
            lock_timeout_ms: options.number("lock_timeout_ms")?,
            cache_bytes: options.number("cache_mb")? * MB,
            write_buffer_bytes: options.number("write_buffer_mb")? * MB,
            background_jobs: c_int::try_from(background_jobs).map_err(|_| {
                wrong("background_jobs", "a small number", &background_jobs.to_string())
            })?,
            compaction: number_of(options, "compaction", &COMPACTIONS)?,
            compression: number_of(options, "compression", &COMPRESSIONS)?,
            statistics: options.flag("statistics")?,
            perf_level: number_of(options, "perf_context", &PERF_LEVELS)?,
        })
    }
}

fn wrong(setting: &str, wanted: &str, found: &str) -> DriverError {
    DriverError::new(format!("rocksdb: {setting} must be {wanted}, not \"{found}\""))
}

fn number_of(
    options: &OpenOptions,
    setting: &str,
    known: &[(&str, c_int, &str)],
) -> Result<c_int, DriverError> {
    let word = options.text(setting)?;
    let found = known.iter().find(|(name, ..)| *name == word).map(|&(_, number, _)| number);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|&(name, ..)| name).collect();
        wrong(setting, &format!("one of {}", names.join(", ")), word)
    })
}

/// Our word for what an options file says of compression or compaction, or its own where we have none.
pub(super) fn word_for(in_file: &str) -> &str {
    let mut known = COMPRESSIONS.iter().chain(&COMPACTIONS);
    known.find(|(.., theirs)| *theirs == in_file).map_or(in_file, |&(ours, ..)| ours)
}

/// An object of the library's that is destroyed with this.
pub(super) struct Owned<T> {
    pointer: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// # Safety
    /// `pointer` is live, is destroyed by `destroy` and by nothing else.
    pub(super) unsafe fn new(pointer: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Self {
        Owned { pointer, destroy }
    }

    pub(super) fn get(&self) -> *mut T {
        self.pointer
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: `new` was promised that this is the way to end it, and nobody has ended it before.
        unsafe { (self.destroy)(self.pointer) };
    }
}

/// The library's option objects.
pub(super) struct OptionObjects {
    pub(super) database: Owned<Options>,
    /// For requests: as the durability promises.
    pub(super) write: Owned<WriteOptions>,
    /// For loading: with the log, so that a load that was killed goes on, and without syncs.
    pub(super) load: Owned<WriteOptions>,
    pub(super) read: Owned<ReadOptions>,
    /// For walks over a table, which leave the cache as it is.
    pub(super) scan: Owned<ReadOptions>,
    pub(super) pessimistic: Owned<TransactionOptions>,
    pub(super) optimistic: Owned<OptimisticOptions>,
}

impl OptionObjects {
    /// Makes them.
    pub(super) fn make(api: &Api, settings: &Settings) -> OptionObjects {
        // SAFETY: each object is destroyed by the function that belongs to its kind; every call is on a live object.
        unsafe {
            let objects = OptionObjects {
                database: Owned::new((api.options_create)(), api.options_destroy),
                write: Owned::new((api.writeoptions_create)(), api.writeoptions_destroy),
                load: Owned::new((api.writeoptions_create)(), api.writeoptions_destroy),
                read: Owned::new((api.readoptions_create)(), api.readoptions_destroy),
                scan: Owned::new((api.readoptions_create)(), api.readoptions_destroy),
                pessimistic: Owned::new(
                    (api.transaction_options_create)(),
                    api.transaction_options_destroy,
                ),
                optimistic: Owned::new(
                    (api.optimistictransaction_options_create)(),
                    api.optimistictransaction_options_destroy,
                ),
            };
            set_database(api, objects.database.get(), settings);
            (api.writeoptions_disable_WAL)(objects.write.get(), c_int::from(!settings.wal));
            (api.writeoptions_set_sync)(objects.write.get(), settings.sync.into());
            (api.readoptions_set_fill_cache)(objects.scan.get(), 0);
            let pessimistic = objects.pessimistic.get();
            (api.transaction_options_set_deadlock_detect)(
                pessimistic,
                settings.deadlock_detect.into(),
            );
            let timeout_ms = i64::try_from(settings.lock_timeout_ms).unwrap_or(i64::MAX);
            (api.transaction_options_set_lock_timeout)(pessimistic, timeout_ms);
            objects
        }
    }
}

/// # Safety
/// `options` is live.
unsafe fn set_database(api: &Api, options: *mut Options, settings: &Settings) {
    // SAFETY: the caller's options are live; the table options and the cache are shared by the database options from
    // here on, so the library keeps what it needs of them.
    unsafe {
        (api.options_set_create_if_missing)(options, 1);
        (api.options_set_write_buffer_size)(options, settings.write_buffer_bytes as usize);
        (api.options_set_max_background_jobs)(options, settings.background_jobs);
        (api.options_set_compaction_style)(options, settings.compaction);
        (api.options_set_compression)(options, settings.compression);
        if settings.statistics {
            (api.options_enable_statistics)(options);
        }
        let cache =
            Owned::new((api.cache_create_lru)(settings.cache_bytes as usize), api.cache_destroy);
        let table = Owned::new((api.block_based_options_create)(), api.block_based_options_destroy);
        (api.block_based_options_set_block_cache)(table.get(), cache.get());
        (api.options_set_block_based_table_factory)(options, table.get());
    }
}
