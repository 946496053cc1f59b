//! A job is a piece of a run that has a process of its own: loading a dataset, or one trial.
//!
//! The command starts itself again as `dbdyno job`, writes one [`Order`] to its standard input and reads [`Report`]s,
//! one JSON line each, from its standard output. `run` is the parent's side; `load` and `trial` are the child's.

pub mod asked;
mod crash;
mod effective;
pub mod load;
pub mod load_cost;
pub mod run;
pub mod server;
pub mod settle;
mod steps;
pub mod trial;

use crate::failure::Failure;
use dbdyno_host::process_tree::die_with_parent;
use dbdyno_load::driver::OpenOptions;
use dbdyno_plan::{ClientLoad, Load, LogSyncs, PlannedStep, Value};
use dbdyno_record::TrialRecord;
use dbdyno_workload::{Dataset, HotRow, InsertBenchmark, Seed, Setting};
use load_cost::LoadCost;
use serde::{Deserialize, Serialize};
use server::{ServerOrder, client_options};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;

/// What the child is to do, with everything it needs: it reads no plan, no flag and no environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// The process that must be alive for this one to go on.
    pub parent: u32,
    /// The engine.
    pub engine: EngineOrder,
    /// The workload's name.
    pub workload_name: String,
    /// The workload's settings.
    pub workload: BTreeMap<String, Value>,
    /// Clients of the role that has most, in any step.
    pub clients: u16,
    /// Seed of the dataset.
    pub dataset_seed: u64,
    /// Seed of request streams and arrivals.
    pub stream_seed: u64,
    /// The rest.
    pub work: Work,
}

/// An engine to open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EngineOrder {
    /// Its name.
    pub name: String,
    /// Its name in the plan, with a configuration.
    pub label: String,
    /// Which driver speaks to it.
    pub driver: String,
    /// Its data directory.
    pub data_directory: PathBuf,
    /// All its settings.
    pub settings: BTreeMap<String, Value>,
    /// How often its durability says that it syncs its log.
    pub log_syncs: Option<LogSyncs>,
    /// The settings by which it keeps its durability: what a server has in effect must be the same.
    pub promised_settings: BTreeMap<String, Value>,
    /// What to open, if it is a library that is not built in.
    pub library: Option<LibraryOrder>,
    /// Where it listens, if it is a server; it runs already.
    pub server: Option<ServerOrder>,
}

/// A library to open at run time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LibraryOrder {
    /// The shared object.
    pub file: PathBuf,
    /// What its version must begin with.
    pub series: String,
}

/// Load or measure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Work {
    /// Complete the dataset in the template directory.
    Load(LoadOrder),
    /// Measure one trial.
    Trial(Box<TrialOrder>),
}

/// Where a dataset goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadOrder {
    /// Directory of the template; a library's data directory is in it.
    pub template: PathBuf,
    /// Fingerprint that it must have.
    pub fingerprint: String,
}

/// What to measure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrialOrder {
    /// The run's directory.
    pub run_directory: PathBuf,
    /// The record as far as it is known before measuring; the child fills in the rest.
    pub record: TrialRecord,
    /// DOP, arrivals and times; of a trial with steps, what its steps have in common.
    pub load: Load,
    /// Its steps; none for a trial that is one measured interval.
    pub steps: Vec<PlannedStep>,
    /// One clock read here, ns.
    pub clock_read_ns: f64,
    /// One request on the null driver here, ns.
    pub null_driver_ns: f64,
    /// What loading the block's dataset cost, if that is a result of the run.
    pub load_cost: Option<LoadCost>,
}

/// What the child says, one line each.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Report {
    /// Loading has come this far.
    Loading {
        /// Rows and updates done.
        done: u64,
        /// Rows and updates in all.
        total: u64,
    },
    /// The template is complete; nothing had to be done if it was before.
    Loaded {
        /// What it cost; nothing if it was complete before.
        cost: Option<LoadCost>,
    },
    /// Completions per second of the interval that has just ended.
    Rate(f64),
    /// The trial is over and its detail files are in place.
    Trial(Box<TrialRecord>),
    /// It could not be done.
    Failed {
        /// The engine's version, if it came that far.
        engine_version: String,
        /// What went wrong.
        reason: String,
        /// One of [`crate::exit_code`].
        code: u8,
    },
}

impl Order {
    /// The workload, made from its settings.
    pub fn hot_row(&self) -> Result<HotRow, Failure> {
        let settings = self.workload.iter().map(|(name, value)| (name.clone(), value.0.clone()));
        HotRow::from_settings(&settings.collect())
            .map_err(|error| Failure::other(error.to_string()))
    }

    /// The same for the other workload.
    pub fn insert_benchmark(&self) -> Result<InsertBenchmark, Failure> {
        let settings = self.workload.iter().map(|(name, value)| (name.clone(), value.0.clone()));
        InsertBenchmark::from_settings(&settings.collect())
            .map_err(|error| Failure::other(error.to_string()))
    }

    /// The dataset below the workload.
    pub fn dataset(&self) -> Result<Dataset, Failure> {
        Ok(self.hot_row()?.dataset(Seed(self.dataset_seed)))
    }

    /// How to open the engine for so many clients that speak to it like this.
    ///
    /// # Errors
    /// If the server cannot be reached in the way that the load wants.
    pub fn open_options(&self, clients: u32, load: &ClientLoad) -> Result<OpenOptions, Failure> {
        let settings = texts(&self.engine.settings);
        let directory = self.engine.data_directory.clone();
        let library = self.engine.library.as_ref().map(|library| library.file.clone());
        let options =
            OpenOptions { library, ..OpenOptions::of_directory(directory, settings, clients) };
        let Some(server) = &self.engine.server else { return Ok(options) };
        let server = server.server(&load.transport).map_err(Failure::other)?;
        Ok(OpenOptions { server: Some(server), client: client_options(load), ..options })
    }
}

impl EngineOrder {
    /// Holds a library's version against the series that its engine file promises.
    ///
    /// # Errors
    /// If it is of another series.
    pub fn check_series(&self, version: &str) -> Result<(), Failure> {
        match &self.library {
            Some(library) if !version.starts_with(&library.series) => Err(Failure::other(format!(
                "{} promises version {}..., but the library says {version}: correct the engine file, or fetch it again",
                self.name, library.series
            ))),
            _ => Ok(()),
        }
    }
}

/// Settings as drivers and servers take them.
pub fn texts(settings: &BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let text = |value: &Value| match value.0.clone() {
        Setting::Text(text) => text,
        other => other.to_string(),
    };
    settings.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

/// Tells the parent. A parent that is gone does not matter: this process ends with it.
pub fn tell(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// The child's main: reads the order, does it, and says how it went.
///
/// # Errors
/// If the order cannot be read; everything after that is a [`Report`].
pub fn main() -> Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::other(format!("read the order: {error}")))?;
    let order: Order = serde_json::from_str(&text).map_err(Failure::json)?;
    die_with_parent(order.parent)?;
    crash::say_where();
    let mut engine_version = String::new();
    let done = match &order.work {
        Work::Load(load) => load::load(&order, load).map(|cost| Report::Loaded { cost }),
        Work::Trial(trial) => trial::measure(&order, trial, &mut engine_version)
            .map(|record| Report::Trial(Box::new(record))),
    };
    tell(&done.unwrap_or_else(|Failure { message: reason, code }| Report::Failed {
        engine_version,
        reason,
        code,
    }));
    Ok(())
}
