//! From an engine's settings to WiredTiger's configuration strings, and what a client does after a write conflict.

use crate::driver::{DriverError, OpenOptions};
use std::path::Path;
use std::time::Duration;

/// Sessions besides the clients': the driver's own, and those of the library's threads.
const SPARE_SESSIONS: u32 = 64;
/// What Debian and WiredTiger's own build call a compressor that is not built in.
const EXTENSION: &str = "libwiredtiger_";

/// How a database is opened and its tables are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// For `wiredtiger_open`.
    pub open: String,
    /// For `WT_SESSION.create`.
    pub table: String,
    /// The word of the setting `block_compressor`.
    pub block_compressor: String,
    /// After write conflicts.
    pub backoff: Backoff,
}

impl Settings {
    /// Reads them; `library` is the shared object that is opened, beside which extensions are looked for.
    pub fn of(options: &OpenOptions, library: &Path) -> Result<Settings, DriverError> {
        let block_compressor = options.text("block_compressor")?.to_owned();
        let eviction = options.number("eviction_threads")?;
        let sync = match options.text("transaction_sync")? {
            "off" => "(enabled=false)",
            "none" => "(enabled=true,method=none)",
            "fsync" => "(enabled=true,method=fsync)",
            other => {
                return Err(DriverError::new(format!(
                    "wiredtiger: transaction_sync must be off, none or fsync, not \"{other}\""
                )));
            }
        };
        // Without config_base=false a database would remember the configuration that it was made with.
        let open = format!(
            "create,config_base=false,cache_size={}MB,session_max={},statistics=(fast),log=(enabled={},file_max={}MB),\
             transaction_sync={sync},checkpoint=(wait={}),eviction=(threads_min={eviction},threads_max={eviction}){}",
            options.number("cache_mb")?,
            options.clients + SPARE_SESSIONS,
            options.flag("log_enabled")?,
            options.number("log_file_mb")?,
            options.number("checkpoint_s")?,
            extensions(&block_compressor, library),
        );
        let table = format!(
            "key_format=Q,value_format=u,leaf_page_max={}KB,block_compressor={block_compressor}",
            options.number("leaf_page_kb")?,
        );
        let backoff = Backoff::parse(options.text("conflict_backoff")?)?;
        Ok(Settings { open, table, block_compressor, backoff })
    }
}

/// Tells the library to load a compressor that lies beside it. If none lies there it may be built in; otherwise making
/// the tables fails.
fn extensions(block_compressor: &str, library: &Path) -> String {
    let file = library.with_file_name(format!("{EXTENSION}{block_compressor}.so"));
    if file.is_file() { format!(",extensions=[\"{}\"]", file.display()) } else { String::new() }
}

/// What a client does after a write conflict, before its request is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    /// Nothing.
    None,
    /// Give the processor to another thread.
    Yield,
    /// Sleep longer the more conflicts there were in a row, as MongoDB's server does.
    Mongodb,
}

impl Backoff {
    fn parse(word: &str) -> Result<Backoff, DriverError> {
        match word {
            "none" => Ok(Backoff::None),
            "yield" => Ok(Backoff::Yield),
            "mongodb" => Ok(Backoff::Mongodb),
            other => Err(DriverError::new(format!(
                "wiredtiger: conflict_backoff must be none, yield or mongodb, not \"{other}\""
            ))),
        }
    }

    /// The word of the setting.
    pub fn name(self) -> &'static str {
        match self {
            Backoff::None => "none",
            Backoff::Yield => "yield",
            Backoff::Mongodb => "mongodb",
        }
    }

    /// How long to sleep after so many conflicts in a row. The steps are those of MongoDB's `logAndBackoff`.
    pub fn sleep(self, conflicts: u32) -> Option<Duration> {
        let sleep_ms = match (self, conflicts) {
            (Backoff::None | Backoff::Yield, _) | (Backoff::Mongodb, 0..4) => return None,
            (Backoff::Mongodb, 4..10) => 1,
            (Backoff::Mongodb, 10..100) => 5,
            (Backoff::Mongodb, _) => 10,
        };
        Some(Duration::from_millis(sleep_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compressors beside the library are loaded, others left to the build.
    #[test]
    fn extensions_are_found_beside_the_library() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let library = directory.path().join("shim.so");
        assert_eq!(extensions("snappy", &library), "");
        let snappy = directory.path().join("libwiredtiger_snappy.so");
        std::fs::write(&snappy, "").expect("writes");
        let expected = format!(",extensions=[\"{}\"]", snappy.display());
        assert_eq!(extensions("snappy", &library), expected);
        assert_eq!(extensions("none", &library), "");
    }

    /// MongoDB's sleeps grow with the number of conflicts in a row.
    #[test]
    fn sleeps_grow() {
        let ms = |conflicts| Backoff::Mongodb.sleep(conflicts).map(|sleep| sleep.as_millis());
        assert_eq!(
            [ms(1), ms(3), ms(4), ms(10), ms(100)],
            [None, None, Some(1), Some(5), Some(10)]
        );
        assert_eq!(Backoff::Yield.sleep(1000), None);
    }
}
