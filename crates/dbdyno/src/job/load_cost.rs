//! What loading a dataset cost: time, CPU and writes of client and engine together, and the disk that it takes.

use crate::failure::Failure;
use crate::trial::files::Files;
use dbdyno_host::probe::tree::{self, TreeSample};
use dbdyno_load::dataset::LoadTimes;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The cost of one load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadCost {
    /// Rows that were inserted.
    rows: u64,
    insert_s: f64,
    age_s: f64,
    settle_s: f64,
    cpu_us: f64,
    /// Nothing, if the kernel does not show it of every process.
    write_kb: Option<f64>,
    disk_mb: f64,
}

/// Both sides at the start of a load.
pub struct LoadMeter {
    /// This process, and the first ones of a server.
    roots: Vec<u32>,
    before: TreeSample,
}

impl LoadMeter {
    /// Begins to watch this process and a server of ours.
    ///
    /// # Errors
    /// If a process cannot be read.
    pub fn start(server: &[u32]) -> Result<LoadMeter, Failure> {
        let roots: Vec<u32> =
            std::iter::once(std::process::id()).chain(server.iter().copied()).collect();
        let before = TreeSample::read(&roots)?;
        Ok(LoadMeter { roots, before })
    }

    /// What was used since. `data` is the engine's directory.
    ///
    /// # Errors
    /// If a process cannot be read.
    pub fn cost(&self, rows: u64, times: LoadTimes, data: &Path) -> Result<LoadCost, Failure> {
        let used = tree::difference(&self.before, &TreeSample::read(&self.roots)?)?;
        let cpu_us = (used.cpu_ns + used.gone_cpu_ns) as f64 / 1e3;
        let write_kb = used.io.map(|io| io.write_bytes as f64 / 1024.0);
        let LoadTimes { insert_s, age_s, settle_s } = times;
        let disk_mb = Files::below(data).bytes as f64 / f64::from(1 << 20);
        Ok(LoadCost { rows, insert_s, age_s, settle_s, cpu_us, write_kb, disk_mb })
    }
}

impl LoadCost {
    /// As metrics, which every trial of the block carries.
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        let rows = self.rows as f64;
        let mut metrics = vec![
            ("load_rows_per_s", rows / self.insert_s),
            ("load_s", self.insert_s + self.age_s + self.settle_s),
            ("load_settle_s", self.settle_s),
            ("load_cpu_us_per_row", self.cpu_us / rows),
            ("loaded_mb", self.disk_mb),
        ];
        metrics.extend(self.write_kb.map(|sum| ("load_write_kb_per_row", sum / rows)));
        metrics
    }
}
