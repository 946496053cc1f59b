//! RocksDB's perf context: what the library counts of one thread's calls, here summed over clients' threads.
//!
//! It is read from the report that the library makes of it, pairs of name and value, which is whole in every version. Of the
//! C API's numbers for single values older versions have fewer, and none has all.

use super::api::{Api, ThreadCounters};
use super::settings::{Owned, PERF_OFF, Settings};
use crate::driver::DriverError;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uchar};
use std::sync::{Mutex, PoisonError};

/// Before each name, so that these stand apart from the statistics of the whole database.
const PREFIX: &str = "perf_context.";
/// A report names only what is not zero.
const WITHOUT_ZEROS: c_uchar = 1;

/// The library's functions for it, and what the threads came to that have ended.
pub(super) struct PerfContext {
    level: c_int,
    set_level: unsafe extern "C" fn(c_int),
    create: unsafe extern "C" fn() -> *mut ThreadCounters,
    reset: unsafe extern "C" fn(*mut ThreadCounters),
    report: unsafe extern "C" fn(*mut ThreadCounters, c_uchar) -> *mut c_char,
    destroy: unsafe extern "C" fn(*mut ThreadCounters),
    sums: Mutex<BTreeMap<String, u64>>,
}

impl PerfContext {
    /// The functions, if the settings want anything counted.
    pub(super) fn of(api: &Api, settings: &Settings) -> Result<Option<PerfContext>, DriverError> {
        let level = settings.perf_level;
        let functions = || {
            Some(PerfContext {
                level,
                set_level: api.set_perf_level?,
                create: api.perfcontext_create?,
                reset: api.perfcontext_reset?,
                report: api.perfcontext_report?,
                destroy: api.perfcontext_destroy?,
                sums: Mutex::default(),
            })
        };
        if level == PERF_OFF {
            return Ok(None);
        }
        functions().map(Some).ok_or_else(|| {
            DriverError::new(
                "rocksdb: this library has no functions for its perf context: set perf_context to off",
            )
        })
    }

    /// Counts what the library does for this thread's requests, and adds it to the sums.
    pub(super) fn count<R>(&self, api: &Api, requests: impl FnOnce() -> R) -> R {
        // SAFETY: the object shows the counters of the thread that makes it, stays on it and is ended by the function that
        // belongs to its kind; the report is a text that the library allocated.
        let (done, report) = unsafe {
            let counters = Owned::new((self.create)(), self.destroy);
            (self.reset)(counters.get());
            (self.set_level)(self.level);
            let done = requests();
            (self.set_level)(PERF_OFF);
            (done, api.take_text((self.report)(counters.get(), WITHOUT_ZEROS)))
        };
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in values_in(&report) {
            *sums.entry(format!("{PREFIX}{name}")).or_default() += value;
        }
        done
    }

    /// What all threads so far came to.
    pub(super) fn sums(&self) -> BTreeMap<String, u64> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Names and values of a report: `NAME = VALUE, NAME = VALUE, `.
fn values_in(report: &str) -> impl Iterator<Item = (&str, u64)> {
    let pairs = report.split(',').filter_map(|pair| pair.trim().split_once(" = "));
    pairs.filter_map(|(name, value)| Some((name, value.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters of single levels of files are not numbers, and nobody asks for them.
    #[test]
    fn values_are_read_from_a_report() {
        let check = |report: &str, expected: &[(&str, u64)]| {
            assert_eq!(values_in(report).collect::<Vec<_>>(), expected, "{report}");
        };
        check("", &[]);
        let two = [("user_key_comparison_count", 12), ("get_from_memtable_time", 345)];
        check("user_key_comparison_count = 12, get_from_memtable_time = 345, ", &two);
        check("user_key_comparison_count = 12, get_from_memtable_time = 345", &two);
        check("bloom_filter_useful = 3@level0, block_read_count = 7", &[("block_read_count", 7)]);
    }
}
