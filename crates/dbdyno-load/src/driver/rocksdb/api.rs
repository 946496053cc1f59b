//! RocksDB's C API as a table of functions, looked up once in a library that is opened at run time.
//!
//! Only functions that every version from 6.29 on has are required. One that came later is an `Option`, and the driver
//! does without it. Signatures are those of RocksDB's `include/rocksdb/c.h`, where a bool is an `unsigned char`.

use crate::driver::DriverError;
use crate::shared_library::SharedLibrary;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::path::Path;

macro_rules! opaque {
    ($($(#[$about:meta])* $name:ident)*) => {
        $($(#[$about])* #[repr(C)] pub struct $name { _bytes: [u8; 0] })*
    };
}

opaque! {
    /// A plain database.
    Db
    /// A database with pessimistic transactions.
    TransactionDb
    /// A database with optimistic transactions.
    OptimisticDb
    /// A column family of an open database.
    ColumnFamily
    /// A transaction of either kind.
    Transaction
    /// Options of a database and of its column families.
    Options
    /// How files are laid out.
    TableOptions
    /// A block cache.
    Cache
    /// Options of a database with pessimistic transactions.
    TransactionDbOptions
    /// Options of a pessimistic transaction.
    TransactionOptions
    /// Options of an optimistic transaction.
    OptimisticOptions
    /// Options of writes.
    WriteOptions
    /// Options of reads.
    ReadOptions
    /// Options of flushes.
    FlushOptions
    /// Writes that are made together.
    WriteBatch
    /// A value inside the library.
    PinnedValue
    /// A walk over keys.
    Iterator
    /// What makes copies of a database out of links.
    Checkpoint
    /// What the library counts for the thread that made this.
    ThreadCounters
}

/// Where a function puts its error text, which it allocates.
pub type Error = *mut *mut c_char;
type Bytes = *const c_char;

macro_rules! functions {
    (
        required { $($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)* }
        optional { $($later:ident: fn($($later_argument:ty),*) $(-> $later_result:ty)?;)* }
    ) => {
        /// Functions of the library, named as there without `rocksdb_`.
        #[allow(missing_docs, non_snake_case, reason = "RocksDB's header says what each one does")]
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub $later: Option<unsafe extern "C" fn($($later_argument),*) $(-> $later_result)?>,)*
        }

        const REQUIRED: &[&str] = &[$(concat!("rocksdb_", stringify!($name))),*];

        impl Api {
            /// The table, or the name of a function that is not there.
            fn look_up(library: &SharedLibrary) -> Result<Api, &'static str> {
                // SAFETY: each type is the one that RocksDB's header declares for the function.
                unsafe {
                    Ok(Api {
                        $($name: {
                            let name = concat!("rocksdb_", stringify!($name));
                            library.symbol(name).ok_or(name)?
                        },)*
                        $($later: library.symbol(concat!("rocksdb_", stringify!($later))),)*
                    })
                }
            }
        }
    };
}

functions! {
    required {
        free: fn(*mut c_void);
        list_column_families: fn(*const Options, Bytes, *mut usize, Error) -> *mut *mut c_char;
        list_column_families_destroy: fn(*mut *mut c_char, usize);
        create_column_family: fn(*mut Db, *const Options, Bytes, Error) -> *mut ColumnFamily;
        column_family_handle_destroy: fn(*mut ColumnFamily);

        transactiondb_open_column_families: fn(
            *const Options, *const TransactionDbOptions, Bytes, c_int, *const Bytes,
            *const *const Options, *mut *mut ColumnFamily, Error
        ) -> *mut TransactionDb;
        transactiondb_create_column_family:
            fn(*mut TransactionDb, *const Options, Bytes, Error) -> *mut ColumnFamily;
        transactiondb_close: fn(*mut TransactionDb);
        transactiondb_get_cf: fn(
            *mut TransactionDb, *const ReadOptions, *mut ColumnFamily, Bytes, usize, *mut usize, Error
        ) -> *mut c_char;
        transactiondb_write: fn(*mut TransactionDb, *const WriteOptions, *mut WriteBatch, Error);
        transactiondb_create_iterator_cf:
            fn(*mut TransactionDb, *const ReadOptions, *mut ColumnFamily) -> *mut Iterator;
        transactiondb_property_int: fn(*mut TransactionDb, Bytes, *mut u64) -> c_int;
        transactiondb_checkpoint_object_create: fn(*mut TransactionDb, Error) -> *mut Checkpoint;
        checkpoint_create: fn(*mut Checkpoint, Bytes, u64, Error);
        checkpoint_object_destroy: fn(*mut Checkpoint);

        optimistictransactiondb_open_column_families: fn(
            *const Options, Bytes, c_int, *const Bytes,
            *const *const Options, *mut *mut ColumnFamily, Error
        ) -> *mut OptimisticDb;
        optimistictransactiondb_close: fn(*mut OptimisticDb);
        optimistictransactiondb_get_base_db: fn(*mut OptimisticDb) -> *mut Db;
        optimistictransactiondb_close_base_db: fn(*mut Db);

        get_pinned_cf: fn(
            *mut Db, *const ReadOptions, *mut ColumnFamily, Bytes, usize, Error
        ) -> *mut PinnedValue;
        write: fn(*mut Db, *const WriteOptions, *mut WriteBatch, Error);
        create_iterator_cf: fn(*mut Db, *const ReadOptions, *mut ColumnFamily) -> *mut Iterator;
        property_int_cf: fn(*mut Db, *mut ColumnFamily, Bytes, *mut u64) -> c_int;
        flush_cf: fn(*mut Db, *const FlushOptions, *mut ColumnFamily, Error);
        pinnableslice_value: fn(*const PinnedValue, *mut usize) -> Bytes;
        pinnableslice_destroy: fn(*mut PinnedValue);

        transaction_begin: fn(
            *mut TransactionDb, *const WriteOptions, *const TransactionOptions, *mut Transaction
        ) -> *mut Transaction;
        optimistictransaction_begin: fn(
            *mut OptimisticDb, *const WriteOptions, *const OptimisticOptions, *mut Transaction
        ) -> *mut Transaction;
        transaction_get_for_update_cf: fn(
            *mut Transaction, *const ReadOptions, *mut ColumnFamily, Bytes, usize, *mut usize, c_uchar, Error
        ) -> *mut c_char;
        transaction_put_cf:
            fn(*mut Transaction, *mut ColumnFamily, Bytes, usize, Bytes, usize, Error);
        transaction_commit: fn(*mut Transaction, Error);
        transaction_rollback: fn(*mut Transaction, Error);
        transaction_destroy: fn(*mut Transaction);

        writebatch_create: fn() -> *mut WriteBatch;
        writebatch_destroy: fn(*mut WriteBatch);
        writebatch_put_cf: fn(*mut WriteBatch, *mut ColumnFamily, Bytes, usize, Bytes, usize);

        iter_seek_to_first: fn(*mut Iterator);
        iter_seek_to_last: fn(*mut Iterator);
        iter_next: fn(*mut Iterator);
        iter_valid: fn(*const Iterator) -> c_uchar;
        iter_key: fn(*const Iterator, *mut usize) -> Bytes;
        iter_value: fn(*const Iterator, *mut usize) -> Bytes;
        iter_get_error: fn(*const Iterator, Error);
        iter_destroy: fn(*mut Iterator);

        options_create: fn() -> *mut Options;
        options_destroy: fn(*mut Options);
        options_set_create_if_missing: fn(*mut Options, c_uchar);
        options_set_write_buffer_size: fn(*mut Options, usize);
        options_set_max_background_jobs: fn(*mut Options, c_int);
        options_set_compaction_style: fn(*mut Options, c_int);
        options_set_compression: fn(*mut Options, c_int);
        options_set_block_based_table_factory: fn(*mut Options, *mut TableOptions);
        options_enable_statistics: fn(*mut Options);
        options_statistics_get_string: fn(*mut Options) -> *mut c_char;
        block_based_options_create: fn() -> *mut TableOptions;
        block_based_options_destroy: fn(*mut TableOptions);
        block_based_options_set_block_cache: fn(*mut TableOptions, *mut Cache);
        cache_create_lru: fn(usize) -> *mut Cache;
        cache_destroy: fn(*mut Cache);
        transactiondb_options_create: fn() -> *mut TransactionDbOptions;
        transactiondb_options_destroy: fn(*mut TransactionDbOptions);
        transaction_options_create: fn() -> *mut TransactionOptions;
        transaction_options_destroy: fn(*mut TransactionOptions);
        transaction_options_set_deadlock_detect: fn(*mut TransactionOptions, c_uchar);
        transaction_options_set_lock_timeout: fn(*mut TransactionOptions, i64);
        optimistictransaction_options_create: fn() -> *mut OptimisticOptions;
        optimistictransaction_options_destroy: fn(*mut OptimisticOptions);
        writeoptions_create: fn() -> *mut WriteOptions;
        writeoptions_destroy: fn(*mut WriteOptions);
        writeoptions_set_sync: fn(*mut WriteOptions, c_uchar);
        writeoptions_get_sync: fn(*mut WriteOptions) -> c_uchar;
        writeoptions_disable_WAL: fn(*mut WriteOptions, c_int);
        writeoptions_get_disable_WAL: fn(*mut WriteOptions) -> c_uchar;
        readoptions_create: fn() -> *mut ReadOptions;
        readoptions_destroy: fn(*mut ReadOptions);
        readoptions_set_fill_cache: fn(*mut ReadOptions, c_uchar);
        flushoptions_create: fn() -> *mut FlushOptions;
        flushoptions_destroy: fn(*mut FlushOptions);
    }
    optional {
        transactiondb_get_base_db: fn(*mut TransactionDb) -> *mut Db;
        transactiondb_close_base_db: fn(*mut Db);
        transactiondb_get_pinned_cf: fn(
            *mut TransactionDb, *const ReadOptions, *mut ColumnFamily, Bytes, usize, Error
        ) -> *mut PinnedValue;
        transaction_get_pinned_for_update_cf: fn(
            *mut Transaction, *const ReadOptions, *mut ColumnFamily, Bytes, usize, c_uchar, Error
        ) -> *mut PinnedValue;
        transaction_options_get_deadlock_detect: fn(*mut TransactionOptions) -> c_uchar;
        transaction_options_get_lock_timeout: fn(*mut TransactionOptions) -> i64;

        set_perf_level: fn(c_int);
        perfcontext_create: fn() -> *mut ThreadCounters;
        perfcontext_reset: fn(*mut ThreadCounters);
        perfcontext_report: fn(*mut ThreadCounters, c_uchar) -> *mut c_char;
        perfcontext_destroy: fn(*mut ThreadCounters);
    }
}

impl Api {
    /// Opens a library and looks its functions up.
    ///
    /// # Errors
    /// If it cannot be opened or is not RocksDB from 6.29 on, with what it lacks.
    pub fn open(path: &Path) -> Result<Api, DriverError> {
        let library = SharedLibrary::open(path)?;
        Api::look_up(&library).map_err(|first| {
            // SAFETY: the pointers are only looked at for being there.
            let has = |name: &&&str| unsafe { library.symbol::<*const c_void>(name).is_some() };
            DriverError::new(format!(
                "{} is no RocksDB library of version 6.29 or later: it has {} of the {} functions of the C API that are needed, and not {first}; correct `file` in the engine file",
                path.display(),
                REQUIRED.iter().filter(has).count(),
                REQUIRED.len()
            ))
        })
    }

    /// A copy of a text that the library made, which is freed; empty if there is none.
    ///
    /// # Safety
    /// `text` is null or a C string that the library allocated and that nobody else refers to.
    pub unsafe fn take_text(&self, text: *mut c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: as the caller promises.
        unsafe {
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.free)(text.cast());
            copy
        }
    }
}
