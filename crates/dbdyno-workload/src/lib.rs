//! What to ask of an engine: a dataset, a seeded request stream, and the check that the engine kept its promises.
//!
//! Nothing here touches a clock, a file, a thread or an engine: the same settings and seed always give the same
//! rows, the same requests and the same verdict. A workload is one file or directory and one line in [`WORKLOADS`].
//! Start with [`request`] (the vocabulary between workload and driver) and then `hot_row`.

pub mod dataset;
pub mod distribution;
pub mod parameter;
pub mod request;
pub mod rng;
mod zipfian;

pub use dataset::{AgeUpdates, DATASET_FORMAT, Dataset, RowId};
pub use distribution::{KeyDistribution, KeySampler};
pub use parameter::{Kind, Parameter, Setting, Settings};
pub use request::{Action, Request};
pub use rng::{Random, Seed};
pub use zipfian::Zipfian;
