//! What to ask of an engine: a dataset, a seeded request stream, and the check that the engine kept its promises.
//!
//! Nothing here touches a clock, a file, a thread or an engine: the same settings and seed always give the same
//! rows, the same requests and the same verdict. A workload is one file or directory and one line in [`WORKLOADS`].
//! Start with [`request`] (the vocabulary between workload and driver) and then [`hot_row`].

pub mod dataset;
pub mod distribution;
pub mod hot_row;
pub mod parameter;
pub mod request;
pub mod rng;
mod zipfian;

pub use dataset::{AgeUpdates, DATASET_FORMAT, Dataset, RowId};
pub use distribution::{KeyDistribution, KeySampler};
pub use hot_row::HotRow;
pub use parameter::{Kind, Parameter, Setting, SettingError, Settings};
pub use request::{Action, Request};
pub use rng::{Random, Seed};
pub use zipfian::Zipfian;

/// What planning needs to know of a workload before it has settings.
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
}

/// Every workload. A new one is a file or directory and a line here.
#[rustfmt::skip]
pub const WORKLOADS: &[WorkloadEntry] = &[
    WorkloadEntry { name: hot_row::NAME, version: hot_row::VERSION, about: hot_row::ABOUT, parameters: hot_row::PARAMETERS },
];

/// The workload of this name.
#[must_use]
pub fn find_workload(name: &str) -> Option<&'static WorkloadEntry> {
    WORKLOADS.iter().find(|entry| entry.name == name)
}

/// The requests of one client, and its account of how they ended. The request loop is compiled once per kind of
/// stream, so that a call costs nothing.
pub trait RequestStream {
    /// The next request. Never blocks, allocates or ends.
    fn next(&mut self) -> Request;

    /// The engine said that it did this request. Never allocates.
    fn acknowledged(&mut self, request: &Request);

    /// Nobody knows whether the engine did this request. Refused requests are not told: nothing was done.
    fn unknown(&mut self, request: &Request);
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
            assert_eq!(find_workload(entry.name).map(|found| found.name), Some(entry.name));
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
        assert!(find_workload("warm_row").is_none());
    }
}
