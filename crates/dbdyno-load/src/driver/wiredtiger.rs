//! WiredTiger, a library that is opened at run time through a shim of ours: row store, snapshot isolation, write conflicts.
//!
//! One connection per process, a session per client. A row's key is a number, its value the counter (8 bytes, little
//! endian) and the filler: as bytes, because WiredTiger packs numbers in values to a varying length. Two transactions that
//! change the same row conflict, and the later one is refused; trying again is the request loop's part.

mod client;
mod database;
mod settings;
mod shim;

pub use client::WiredTigerClient;

use super::{Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use database::{Database, OpenSession};
use dbdyno_workload::RowId;
use settings::Settings;
use shim::{Cursor, Shim};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const COUNTER_BYTES: usize = 8;
/// The table of notes and the key of the progress of ageing in it.
const NOTES: &str = "table:dbdyno";
const PROGRESS_KEY: u64 = 1;
/// The file that every WiredTiger database has.
const MARK: &str = "WiredTiger";
/// How a statistic names the size of the cache.
const CACHE_STATISTIC: &str = "cache: maximum bytes configured";

/// The name of a table, numbered from 0, for the library.
fn table_name(table: u16) -> String {
    format!("table:t{}", u32::from(table) + 1)
}

/// The driver's own session.
struct Control {
    session: OpenSession,
    notes: *mut Cursor,
    /// Cursors of tables from 0 on, opened when they are first needed.
    tables: Vec<*mut Cursor>,
}

// SAFETY: the cursors belong to the session, which may move between threads with its owner.
unsafe impl Send for Control {}

impl Control {
    fn table(&mut self, table: u16) -> Result<*mut Cursor, DriverError> {
        while self.tables.len() <= usize::from(table) {
            let next = self.tables.len() as u16;
            self.tables.push(self.session.cursor(&table_name(next))?);
        }
        Ok(self.tables[usize::from(table)])
    }
}

/// An opened WiredTiger database.
pub struct WiredTiger {
    // Fields are dropped in this order: sessions before the connection that they belong to.
    control: Mutex<Control>,
    database: Arc<Database>,
    settings: Settings,
}

impl WiredTiger {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// WiredTiger would make its files among those of another engine.
fn check_directory(directory: &Path) -> Result<(), DriverError> {
    std::fs::create_dir_all(directory)
        .map_err(|error| DriverError::new(format!("make the data directory: {error}")))?;
    let mut entries = std::fs::read_dir(directory)
        .map_err(|error| DriverError::new(format!("read the data directory: {error}")))?;
    if entries.next().is_some() && !directory.join(MARK).is_file() {
        return Err(DriverError::new(format!(
            "wiredtiger: {} holds files, but no WiredTiger database",
            directory.display()
        )));
    }
    Ok(())
}

fn counter_of(value: &[u8]) -> Result<u64, DriverError> {
    let bytes = value.first_chunk::<COUNTER_BYTES>();
    bytes
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or_else(|| DriverError::new("wiredtiger: a value is shorter than its counter"))
}

/// The value of one key in a configuration string of the library's.
fn configured<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = config.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
}

impl Driver for WiredTiger {
    type Client = WiredTigerClient;

    fn open(options: &OpenOptions) -> Result<Self, DriverError> {
        let library = options.library()?;
        let settings = Settings::of(options, library)?;
        let shim = Shim::load(library)?;
        check_directory(&options.directory)?;
        let database = Arc::new(Database::open(shim, &options.directory, &settings.open)?);
        let session = OpenSession::of(&database)?;
        session.create(NOTES, "key_format=Q,value_format=u")?;
        let notes = session.cursor(NOTES)?;
        let control = Mutex::new(Control { session, notes, tables: Vec::new() });
        Ok(WiredTiger { control, database, settings })
    }

    /// Only the cache's size and a table's form can be read back from the library; the rest is what was asked of it.
    fn receipt(&self) -> Result<Receipt, DriverError> {
        let statistics = self.statistics()?;
        let mut settings = BTreeMap::from([
            ("asked of wiredtiger_open".to_owned(), self.settings.open.clone()),
            ("conflict_backoff".to_owned(), self.settings.backoff.name().to_owned()),
        ]);
        if let Some(bytes) = statistics.get(CACHE_STATISTIC) {
            settings.insert(CACHE_STATISTIC.to_owned(), bytes.to_string());
        }
        // Without tables, as in a database made to ask for the version, there is nothing to read.
        if let Ok(config) = self.control().session.metadata(&table_name(0)) {
            for key in ["block_compressor", "leaf_page_max", "key_format", "value_format"] {
                let value = configured(&config, key).unwrap_or_default();
                settings.insert(format!("{key} of t1"), value.to_owned());
            }
        }
        Ok(Receipt { version: self.database.version(), settings })
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        let control = self.control();
        let compressor = &self.settings.block_compressor;
        (0..tables).try_for_each(|table| {
            let made = control.session.create(&table_name(table), &self.settings.table);
            made.map_err(|error| match compressor.as_str() {
                "none" => error,
                _ => DriverError::new(format!(
                    "{error}; block_compressor is {compressor}, which this build may not have"
                )),
            })
        })
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        let mut control = self.control();
        let (cursor, mut last) = (control.table(table)?, None);
        control.session.walk(cursor, true, |row, _| {
            last = Some(row);
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
        let mut control = self.control();
        let cursor = control.table(table)?;
        let (mut value, mut filler) = (Vec::new(), Vec::new());
        control.session.transaction("insert rows", || {
            for row in rows {
                fill(RowId { table, row }, &mut filler);
                value.clear();
                value.extend_from_slice(&[0; COUNTER_BYTES]);
                value.extend_from_slice(&filler);
                control.session.put(cursor, row, &value)?;
            }
            Ok(())
        })
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        let mut control = self.control();
        let cursors =
            rows.iter().map(|id| control.table(id.table)).collect::<Result<Vec<_>, _>>()?;
        let session = &control.session;
        session.transaction("age rows", || {
            let mut value = Vec::new();
            for (&RowId { row, .. }, &cursor) in rows.iter().zip(&cursors) {
                let found = session.get(cursor, row, |old| {
                    value.clear();
                    value.extend_from_slice(old);
                    counter_of(old)
                })?;
                let counter = found.ok_or_else(|| DriverError::new(format!("no row {row}")))?;
                value[..COUNTER_BYTES].copy_from_slice(&counter.wrapping_add(1).to_le_bytes());
                session.put(cursor, row, &value)?;
            }
            session.put(control.notes, PROGRESS_KEY, &progress.to_le_bytes())
        })
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        let control = self.control();
        Ok(control.session.get(control.notes, PROGRESS_KEY, counter_of)?.unwrap_or(0))
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        let mut control = self.control();
        let cursor = control.table(table)?;
        control.session.get(cursor, row, |value| {
            let counter = counter_of(value)?;
            Ok(Row { counter, filler: value[COUNTER_BYTES..].to_vec() })
        })
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        let mut control = self.control();
        let (cursor, mut sum) = (control.table(table)?, 0u64);
        control.session.walk(cursor, false, |_, value| {
            sum = sum.wrapping_add(counter_of(value)?);
            Ok(true)
        })?;
        Ok(sum)
    }

    fn settle(&self) -> Result<(), DriverError> {
        self.control().session.checkpoint()
    }

    fn connect(&self, tables: u16) -> Result<WiredTigerClient, DriverError> {
        WiredTigerClient::connect(&self.database, tables, self.settings.backoff)
    }

    /// A trial asks for these at its end; one whose commits waited for room is no measurement.
    fn statistics(&self) -> Result<BTreeMap<String, u64>, DriverError> {
        self.database.check_room()?;
        let numbers = self.control().session.statistics()?;
        // A few are differences and may be below zero for a moment.
        Ok(numbers.into_iter().map(|(name, value)| (name, value.max(0) as u64)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key is found whole, not as the end of another.
    #[test]
    fn configuration_strings_are_read() {
        let config = "access=none,block_compressor=snappy,app_metadata=,internal_page_max=4KB";
        assert_eq!(configured(config, "block_compressor"), Some("snappy"));
        assert_eq!(configured(config, "page_max"), None);
    }
}
