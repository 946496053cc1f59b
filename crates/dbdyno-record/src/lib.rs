//! The only promises to the future: what a run looks like on disk, who writes it and who reads it.
//!
//! A run is one directory that is written as things happen and never changed afterwards; [`layout`] shows it and
//! names every file. [`writer`] makes one, [`reader`] opens one, [`format`](mod@format) holds what a line of it says.
//! Nothing here measures, decides or prints. Start with [`layout`], then [`seal`] for how edits are found.

pub mod detail;
pub mod error;
pub mod find;
pub mod format;
pub mod interval_log;
pub mod layout;
pub mod long_format;
pub mod metric;
pub mod reader;
pub mod seal;
pub mod utc;
pub mod warning;
pub mod writer;

mod disk;
mod log;

pub use detail::DetailWriter;
pub use error::RecordError;
pub use find::{find_run, list_runs};
pub use format::{
    Ended, FactorValue, FileRecord, Header, Observation, StepRecord, TrialEnd, TrialRecord,
};
pub use interval_log::{Interval, IntervalLog, IntervalLogWriter, IntervalTag, Phase};
pub use long_format::{LongFormat, PlannedTrial, Row};
pub use metric::{METRICS, Metric};
pub use reader::{Gap, Run, VerifyDepth};
pub use utc::{new_run_id, utc_text};
pub use warning::Warning;
pub use writer::{Dropped, NewRun, RunWriter};
