//! What a plan is expected to cost: seconds, disk and download, each with the parts it comes from.
//!
//! The constants are estimates for the command's own overhead, tuned against runs; speeds of engines are in their
//! files. `run` stays within 1.5 times of the result on a host like the one they were tuned on.

use serde::{Deserialize, Serialize};

/// Starting a trial's process, connecting, checking and writing its record.
pub const TRIAL_OVERHEAD_S: f64 = 0.25;
/// Copying a loaded template for a block, in bytes per second.
pub const BLOCK_COPY_BYTES_PER_S: f64 = 500e6;
/// One device profile; a run takes one before and one after.
pub const DEVICE_PROFILE_S: f64 = 8.0;
/// Measuring the instrument with the null driver.
pub const INSTRUMENT_S: f64 = 1.5;
/// Starting and stopping a server once.
pub const SERVER_START_S: f64 = 3.0;
/// Disk that the record of one trial takes.
pub const RECORD_BYTES_PER_TRIAL: f64 = 100e3;

/// Names of the parts that [`crate::Plan::expected_seconds`] is asked for.
pub const INSTRUMENT: &str = "instrument";
/// See [`INSTRUMENT`].
pub const DEVICE_PROFILE: &str = "device profile";
/// See [`INSTRUMENT`].
pub const LOADING: &str = "loading and ageing";
/// See [`INSTRUMENT`].
pub const STARTING: &str = "starting and stopping servers";
/// See [`INSTRUMENT`].
pub const MEASURING: &str = "warm-up and measuring";
/// See [`INSTRUMENT`].
pub const COPYING: &str = "copying for blocks";

/// What a plan is expected to cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Duration.
    pub seconds: f64,
    /// Highest use of disk.
    pub disk_bytes: u64,
    /// Bytes fetched from package registries.
    pub download_bytes: u64,
    /// The largest cache that an engine is told to have; 0 if none is told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_bytes: u64,
    /// What it is made of.
    pub parts: Vec<ExpectedPart>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One part of the expected cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectedPart {
    /// What costs it.
    pub what: String,
    /// Duration.
    pub seconds: f64,
    /// Disk.
    pub disk_bytes: u64,
}

/// A dataset that has to be loaded once into an engine.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) seconds: f64,
    pub(crate) disk_bytes: f64,
}

/// What the cost follows from.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) trial_seconds: Vec<f64>,
    pub(crate) loads: Vec<Load>,
    /// Bytes of the template that each block copies.
    pub(crate) block_bytes: Vec<f64>,
    pub(crate) device_profile: bool,
    /// See [`Expected::cache_bytes`].
    pub(crate) cache_bytes: u64,
    /// What has to be downloaded if nothing is in the cache.
    pub(crate) download_bytes: u64,
    /// Blocks in which a server is started and stopped.
    pub(crate) server_blocks: usize,
}

/// Adds up the work.
pub(crate) fn expected(work: &Work) -> Expected {
    let trials = work.trial_seconds.len() as f64;
    let copied: f64 = work.block_bytes.iter().sum();
    let copy_disk = work.block_bytes.iter().copied().fold(0.0, f64::max);
    let part = |what: &str, seconds: f64, disk_bytes: f64| ExpectedPart {
        what: what.to_string(),
        // Milliseconds are enough, and keep digits of rounding out of the plan.
        seconds: (seconds * 1000.0).round() / 1000.0,
        disk_bytes: disk_bytes.round() as u64,
    };
    let profiles = if work.device_profile && trials > 0.0 { 2.0 * DEVICE_PROFILE_S } else { 0.0 };
    let parts = vec![
        part(INSTRUMENT, INSTRUMENT_S, 0.0),
        part(DEVICE_PROFILE, profiles, 0.0),
        part(
            LOADING,
            work.loads.iter().map(|load| load.seconds).sum(),
            work.loads.iter().map(|load| load.disk_bytes).sum(),
        ),
        part(COPYING, copied / BLOCK_COPY_BYTES_PER_S, copy_disk),
        part(STARTING, work.server_blocks as f64 * SERVER_START_S, 0.0),
        part(MEASURING, work.trial_seconds.iter().sum(), 0.0),
        part("overhead of trials", trials * TRIAL_OVERHEAD_S, trials * RECORD_BYTES_PER_TRIAL),
    ];
    let seconds: f64 = parts.iter().map(|part| part.seconds).sum();
    Expected {
        seconds: (seconds * 1000.0).round() / 1000.0,
        disk_bytes: parts.iter().map(|part| part.disk_bytes).sum(),
        download_bytes: work.download_bytes,
        cache_bytes: work.cache_bytes,
        parts,
    }
}
