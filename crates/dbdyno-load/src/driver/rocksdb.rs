//! RocksDB, a library opened at run time: a log-structured merge tree with row locks, in any version from 6.29 on.
//!
//! A table is a column family; a key is the row's number, eight bytes, big end first; a value is the counter (8 bytes,
//! little end first) and the filler. `api` is the library's functions, `database` what is open, `client` the data plane.
//! What an older version lacks is done another way and said in the receipt.

mod api;
mod client;
mod database;
mod options_file;
mod perf_context;
mod settings;
mod status;

pub use client::RocksdbClient;

use super::{Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use crate::clock;
use api::ColumnFamily;
use database::Database;
use dbdyno_workload::RowId;
use options_file::OptionsFile;
use perf_context::PerfContext;
use settings::{Owned, word_for};
use status::Fault;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

const COUNTER_BYTES: usize = 8;
/// The column family of dbdyno's own notes.
const NOTES: &str = "dbdyno";
const PROGRESS_KEY: &[u8] = b"aged";
const MB: u64 = 1 << 20;

/// Between two looks at compactions.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Looks in a row that must find nothing to do: a compaction that is due begins only when a thread takes it up.
const QUIET_LOOKS: u32 = 10;
/// Compactions that have not ended after this time never will.
const SETTLE_LIMIT_NS: u64 = 3_600 * clock::SECOND;
/// What is left to do, of a column family or of all.
const DEBTS: [&CStr; 4] = [
    c"rocksdb.mem-table-flush-pending",
    c"rocksdb.num-running-flushes",
    c"rocksdb.compaction-pending",
    c"rocksdb.num-running-compactions",
];

/// Options of an options file that a receipt has by RocksDB's own names, with their sections.
const SHOWN_OPTIONS: [(&str, &str); 8] = [
    ("DBOptions", "max_open_files"),
    ("DBOptions", "max_total_wal_size"),
    ("DBOptions", "enable_pipelined_write"),
    ("DBOptions", "allow_concurrent_memtable_write"),
    (DEFAULT_OPTIONS, "max_write_buffer_number"),
    (DEFAULT_OPTIONS, "level0_file_num_compaction_trigger"),
    (DEFAULT_OPTIONS, "target_file_size_base"),
    (DEFAULT_TABLE, "format_version"),
];
const DEFAULT_OPTIONS: &str = "CFOptions \"default\"";
const DEFAULT_TABLE: &str = "TableOptions/BlockBasedTable \"default\"";

fn key_of(row: u64) -> [u8; 8] {
    row.to_be_bytes()
}

fn counter_of(value: &[u8]) -> Result<u64, DriverError> {
    let bytes = value.first_chunk::<COUNTER_BYTES>();
    bytes
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or_else(|| DriverError::new("rocksdb: a value is shorter than its counter"))
}

/// An opened RocksDB database.
pub struct Rocksdb {
    database: Arc<Database>,
    notes: *mut ColumnFamily,
}

// SAFETY: a column family may be used from any thread while its database is open.
unsafe impl Send for Rocksdb {}
// SAFETY: as above.
unsafe impl Sync for Rocksdb {}

impl Rocksdb {
    fn table(&self, table: u16) -> Result<*mut ColumnFamily, DriverError> {
        self.database.family(&format!("t{}", table + 1))
    }

    fn get<R>(
        &self,
        family: *mut ColumnFamily,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, DriverError> {
        let mut fault = Fault::new(&self.database.api);
        let found = self.database.get(family, key, &mut fault, look);
        fault.check("read a row")?;
        Ok(found)
    }

    fn batch(&self) -> Batch<'_> {
        let api = &self.database.api;
        // SAFETY: a new batch, destroyed by its own function.
        let batch = unsafe { Owned::new((api.writebatch_create)(), api.writebatch_destroy) };
        Batch { database: &self.database, batch }
    }

    fn flush(&self) -> Result<(), DriverError> {
        let api = &self.database.api;
        let Some(base) = self.database.base() else {
            return self.database.flush_by_checkpoint();
        };
        // SAFETY: new options, destroyed by their own function; by default a flush is waited for.
        let options = unsafe { Owned::new((api.flushoptions_create)(), api.flushoptions_destroy) };
        for family in self.database.families() {
            let mut fault = Fault::new(api);
            // SAFETY: the database and the family are open, and the fault's place takes the error.
            unsafe { (api.flush_cf)(base, options.get(), family, fault.place()) };
            fault.check("flush")?;
        }
        Ok(())
    }

    fn debt(&self) -> u64 {
        let of_family = |family| {
            DEBTS.iter().filter_map(move |debt| self.database.property(family, debt)).sum::<u64>()
        };
        self.database.families().into_iter().map(of_family).sum()
    }
}

/// Writes of the control plane that are made together.
struct Batch<'db> {
    database: &'db Database,
    batch: Owned<api::WriteBatch>,
}

impl Batch<'_> {
    fn put(&mut self, family: *mut ColumnFamily, key: &[u8], value: &[u8]) {
        // SAFETY: batch and family are live; the library copies key and value.
        unsafe {
            (self.database.api.writebatch_put_cf)(
                self.batch.get(),
                family,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
            );
        }
    }

    fn write(self) -> Result<(), DriverError> {
        self.database.write(&self.batch, self.database.objects.load.get())
    }
}

impl Driver for Rocksdb {
    type Client = RocksdbClient;

    fn open(options: &OpenOptions) -> Result<Self, DriverError> {
        let database = Arc::new(Database::open(options)?);
        let notes = database.family(NOTES)?;
        Ok(Rocksdb { database, notes })
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        let (database, api) = (&self.database, &self.database.api);
        let file = OptionsFile::newest(&database.directory)?;
        let in_mb = |bytes: &str| {
            bytes.parse::<u64>().map_or(bytes.to_owned(), |bytes| (bytes / MB).to_string())
        };
        let mut settings = BTreeMap::new();
        let mut put = |name: &str, value: Option<String>| {
            settings.extend(value.map(|value| (name.to_owned(), value)));
        };
        let of_family = |name| file.option(DEFAULT_OPTIONS, name);
        put("write_buffer_mb", of_family("write_buffer_size").map(in_mb));
        put("compaction", of_family("compaction_style").map(|word| word_for(word).to_owned()));
        put("compression", of_family("compression").map(|word| word_for(word).to_owned()));
        let jobs = file.option("DBOptions", "max_background_jobs");
        put("background_jobs", jobs.map(str::to_owned));
        let cache = database.property(self.notes, c"rocksdb.block-cache-capacity");
        put("cache_mb", cache.map(|bytes| (bytes / MB).to_string()));
        for (section, name) in SHOWN_OPTIONS {
            put(name, file.option(section, name).map(str::to_owned));
        }
        let write = database.objects.write.get();
        // SAFETY: the options are live.
        let (sync, no_wal) = unsafe {
            ((api.writeoptions_get_sync)(write), (api.writeoptions_get_disable_WAL)(write))
        };
        put("sync", Some((sync != 0).to_string()));
        put("wal", Some((no_wal == 0).to_string()));
        put("driver_reads", Some(self.reads().to_owned()));
        let flush = if database.base().is_some() { "by-family" } else { "by-checkpoint" };
        put("driver_flush", Some(flush.to_owned()));
        for (name, value) in database.lock_settings() {
            put(name, Some(value));
        }
        Ok(Receipt { version: file.version, settings })
    }

    fn statistics(&self) -> Result<BTreeMap<String, u64>, DriverError> {
        let (database, api) = (&self.database, &self.database.api);
        let mut counters =
            database.perf_context.as_ref().map_or_else(BTreeMap::new, PerfContext::sums);
        if database.has_statistics {
            // SAFETY: the options are live; the text is one that the library allocated.
            let text = unsafe {
                let text = (api.options_statistics_get_string)(database.objects.database.get());
                api.take_text(text)
            };
            counters.extend(counters_in(&text));
        }
        Ok(counters)
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        (0..tables).try_for_each(|table| self.table(table).map(drop))
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        let (api, walk) = (&self.database.api, self.database.walk(self.table(table)?));
        let mut size = 0;
        // SAFETY: the iterator is live, and its key as long as it is not moved.
        let key = unsafe {
            (api.iter_seek_to_last)(walk.get());
            if (api.iter_valid)(walk.get()) == 0 {
                return self.ended(&walk).map(|()| None);
            }
            let key = (api.iter_key)(walk.get(), &mut size);
            std::slice::from_raw_parts(key.cast::<u8>(), size)
        };
        Ok(key.first_chunk().map(|key| u64::from_be_bytes(*key)))
    }

    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        let family = self.table(table)?;
        let (mut value, mut filler) = (Vec::new(), Vec::new());
        let mut batch = self.batch();
        for row in rows {
            fill(RowId { table, row }, &mut filler);
            value.clear();
            value.extend_from_slice(&[0; COUNTER_BYTES]);
            value.extend_from_slice(&filler);
            batch.put(family, &key_of(row), &value);
        }
        batch.write()
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        let mut changed: BTreeMap<(u16, u64), Vec<u8>> = BTreeMap::new();
        for &RowId { table, row } in rows {
            let value = match changed.entry((table, row)) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let found = self.get(self.table(table)?, &key_of(row), <[u8]>::to_vec)?;
                    entry.insert(found.ok_or_else(|| DriverError::new(format!("no row {row}")))?)
                }
            };
            let counter = counter_of(value)?.wrapping_add(1);
            value[..COUNTER_BYTES].copy_from_slice(&counter.to_le_bytes());
        }
        let mut batch = self.batch();
        for ((table, row), value) in &changed {
            batch.put(self.table(*table)?, &key_of(*row), value);
        }
        batch.put(self.notes, PROGRESS_KEY, &progress.to_le_bytes());
        batch.write()
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        self.get(self.notes, PROGRESS_KEY, counter_of)?.unwrap_or(Ok(0))
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        let row_of = |value: &[u8]| {
            let counter = counter_of(value)?;
            Ok(Row { counter, filler: value[COUNTER_BYTES..].to_vec() })
        };
        self.get(self.table(table)?, &key_of(row), row_of)?.transpose()
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        let (api, walk) = (&self.database.api, self.database.walk(self.table(table)?));
        let mut sum = 0u64;
        // SAFETY: the iterator is live, and each value until it is moved on.
        unsafe {
            (api.iter_seek_to_first)(walk.get());
            while (api.iter_valid)(walk.get()) != 0 {
                let mut size = 0;
                let value = (api.iter_value)(walk.get(), &mut size);
                let value = std::slice::from_raw_parts(value.cast::<u8>(), size);
                sum = sum.wrapping_add(counter_of(value)?);
                (api.iter_next)(walk.get());
            }
        }
        self.ended(&walk).map(|()| sum)
    }

    fn settle(&self) -> Result<(), DriverError> {
        self.flush()?;
        let by = clock::now() + SETTLE_LIMIT_NS;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            if clock::now() > by {
                return Err(DriverError::new("rocksdb: compactions did not end within an hour"));
            }
            std::thread::sleep(LOOK_EVERY);
            quiet = if self.debt() == 0 { quiet + 1 } else { 0 };
        }
        Ok(())
    }

    fn connect(&self, tables: u16) -> Result<RocksdbClient, DriverError> {
        let tables = (0..tables).map(|table| self.table(table)).collect::<Result<_, _>>()?;
        Ok(RocksdbClient::new(Arc::clone(&self.database), tables))
    }
}

impl Rocksdb {
    /// Whether values are looked at where they lie, or copied by the library first.
    fn reads(&self) -> &'static str {
        match self.database.api.transaction_get_pinned_for_update_cf {
            Some(_) => "pinned",
            None => "copied",
        }
    }

    /// Whether a walk ended because there was no more, and not over an error.
    fn ended(&self, walk: &Owned<api::Iterator>) -> Result<(), DriverError> {
        let mut fault = Fault::new(&self.database.api);
        // SAFETY: the iterator is live, and the fault's place takes the error.
        unsafe { (self.database.api.iter_get_error)(walk.get(), fault.place()) };
        fault.check("walk a table")
    }
}

/// Counters in RocksDB's text of its statistics: lines `NAME COUNT : N`, and of a histogram, after its percentiles,
/// how many and how much in all.
fn counters_in(text: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((name, fields)) = words.split_first() else { continue };
        let is_histogram = fields.len() > 3;
        for field in fields.chunks(3) {
            let &[label @ ("COUNT" | "SUM"), ":", number] = field else { continue };
            let name = if is_histogram { format!("{name} {label}") } else { (*name).to_owned() };
            counters.extend(number.parse().ok().map(|number| (name, number)));
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_from_their_text() {
        let text = "rocksdb.block.cache.miss COUNT : 12\n\
            rocksdb.db.get.micros P50 : 1.500000 P95 : 2.0 P99 : 3.0 P100 : 9.0 COUNT : 40 SUM : 77\n\n";
        let expected = [
            ("rocksdb.block.cache.miss", 12),
            ("rocksdb.db.get.micros COUNT", 40),
            ("rocksdb.db.get.micros SUM", 77),
        ];
        let expected = expected.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(counters_in(text), expected);
    }
}
