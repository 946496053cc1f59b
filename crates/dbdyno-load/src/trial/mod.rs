//! Trials of workloads on an opened engine: read, measure, read again, and let the workload judge.
//!
//! These are the only places that know both what a workload wants checked and how a driver reads it: a file for each
//! workload.

pub mod hot_row;
pub mod insert_benchmark;

use crate::measure::Measured;
use dbdyno_workload::CheckReport;

/// How a trial, or a step of one, went.
#[derive(Debug)]
pub struct Trialed {
    /// The measurement; the streams' ledgers have gone into the check.
    pub measured: Measured<()>,
    /// The verdict; `None` for an engine that keeps no rows.
    pub check: Option<CheckReport>,
    /// Clients that had at least one request acknowledged or left unknown.
    pub active_clients: u32,
    /// Requests acknowledged over the whole trial or step, warm-up and tail included.
    pub acknowledged: u64,
}
