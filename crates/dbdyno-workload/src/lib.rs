//! What to ask of an engine: a dataset, a seeded request stream, and the check that the engine kept its promises.
//!
//! Nothing here touches a clock, a file, a thread or an engine: the same settings and seed always give the same
//! rows, the same requests and the same verdict. A workload is one file or directory and one line in [`WORKLOADS`].
//! Start with [`request`] (the vocabulary between workload and driver) and then [`hot_row`].

mod check_report;
pub mod dataset;
pub mod distribution;
pub mod hot_row;
pub mod insert_benchmark;
pub mod parameter;
pub mod request;
pub mod rng;
pub mod schema;
mod zipfian;

pub use check_report::CheckReport;
pub use dataset::{AgeUpdates, DATASET_FORMAT, Dataset, RowId};
pub use distribution::{KeyDistribution, KeySampler};
pub use hot_row::HotRow;
pub use insert_benchmark::InsertBenchmark;
pub use parameter::{Kind, Parameter, Setting, SettingError, Settings};
pub use request::{Action, PointKeys, Request};
pub use rng::{Random, Seed};
pub use schema::{Column, ColumnKind, ColumnValue, Index, PointQuery, RangeQuery, Schema};
pub use zipfian::Zipfian;

/// What planning needs to know of a workload.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadEntry {
    /// Name, as experiment files write it.
    pub name: &'static str,
    /// Grows when numbers can no longer be compared with earlier ones.
    pub version: u32,
    /// One sentence for lists.
    pub about: &'static str,
    /// The knobs. `dop` is not among them: it belongs to every workload and is passed in.
    pub parameters: &'static [Parameter],
    /// What clients can do in the steps that an experiment lists. A workload without roles has no steps.
    pub roles: &'static [RoleEntry],
    /// What a step can be besides clients' requests.
    pub tasks: &'static [&'static str],
    /// Capabilities that an engine must have to be asked at all.
    pub needs: &'static [&'static str],
    /// Capabilities that the check needs of an engine that keeps rows.
    pub check_needs: &'static [&'static str],
    /// Whether complete settings fit together.
    pub validate: fn(&Settings) -> Result<(), SettingError>,
    /// Why a cell with these settings and this DOP is not run, if it is not.
    pub not_run: fn(&Settings, u32) -> Option<String>,
    /// The dataset for settings that fit together, and for so many clients of the role that has most.
    pub dataset: fn(&Settings, Seed, u16) -> DatasetFacts,
}

/// A role that clients can have in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleEntry {
    /// Name, as experiment files write it.
    pub name: &'static str,
    /// Whether it goes through rows, so that a number of rows ends it and a request can be for several.
    pub counts_rows: bool,
}

/// A dataset as far as planning is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetFacts {
    /// The same text for the same rows.
    pub fingerprint: String,
    /// Rows in all tables.
    pub rows: u64,
    /// Bytes in all rows.
    pub bytes: u64,
    /// Updates that age it after loading.
    pub aging_updates: u64,
}

/// Every workload. A new one is a file or directory and a line here.
pub const WORKLOADS: &[WorkloadEntry] = &[hot_row::ENTRY, insert_benchmark::ENTRY];

/// The requests of one client, and its account of how they ended. The request loop is compiled once per kind of
/// stream, so that a call costs nothing.
pub trait RequestStream {
    /// The next request. Never blocks or allocates. Not to be called while the stream is over or waiting.
    fn next(&mut self) -> Request;

    /// Whether there are no more requests. Most streams never end, and asking them costs nothing.
    #[inline]
    fn is_over(&self) -> bool {
        false
    }

    /// Whether there is no request now, because of what other clients have not done yet; there may be one at any
    /// moment, so that the loop asks again soon. Most streams never wait, and asking them costs nothing.
    #[inline]
    fn is_waiting(&self) -> bool {
        false
    }

    /// The engine said that it did this request. Never allocates.
    fn acknowledged(&mut self, request: &Request);

    /// Nobody knows whether the engine did this request.
    fn unknown(&mut self, request: &Request);

    /// The engine did not do this request, and it is not tried again.
    fn refused(&mut self, _request: &Request) {}
}

#[cfg(test)]
mod tests {
    //! Shows that the list of workloads is sound.
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_workload_has_its_own_name_and_valid_defaults() {
        let names: BTreeSet<_> = WORKLOADS.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), WORKLOADS.len());
        for entry in WORKLOADS {
            assert!(entry.version > 0 && entry.about.ends_with('.'), "{}", entry.name);
            let knobs: BTreeSet<_> = entry.parameters.iter().map(|knob| knob.name).collect();
            assert_eq!(knobs.len(), entry.parameters.len(), "{}", entry.name);
            assert!(!knobs.contains("dop"), "{}: dop is passed in", entry.name);
            for parameter in entry.parameters {
                let setting = parameter.default_setting();
                assert_eq!(parameter.accept(&setting).as_ref(), Ok(&setting), "{}", parameter.name);
                assert!(parameter.about.ends_with('.'), "{}", parameter.name);
            }
        }
    }
}
