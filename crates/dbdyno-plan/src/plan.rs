//! The plan: an experiment with nothing left to decide, as it is stored in a run.
//!
//! After planning nobody reads a file, a flag or an environment variable; whoever runs, resumes or reports reads
//! this. It is a stored format with a number: fields may join, but none changes its meaning under the same number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine_file::{Durability, LogSyncs, packages};
use crate::estimate::Expected;
use crate::experiment::Order;
use crate::harness::Load;
use crate::library_recipe::LibraryRecipe;
use crate::package::Package;
use crate::server_recipe::ServerRecipe;
use crate::step::PlannedStep;
use crate::value::Value;

/// Number of the format that this program writes and the newest that it reads.
pub const PLAN_FORMAT: u32 = 1;

/// Of plans that were stored before there was such a value.
fn load_patience_s() -> u64 {
    600
}

/// A resolved experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// The question it answers.
    pub question: String,
    /// Document it comes from, if any.
    pub document: Option<String>,
    /// Scale: one of the experiment's, `quick`, or `as-written` if it has none.
    pub scale: String,
    /// Seed of the dataset, the streams and the order.
    pub seed: u64,
    /// The workload.
    pub workload: PlannedWorkload,
    /// Whether the storage device is measured before and after.
    pub device_profile: bool,
    /// Whether each block loads its dataset anew, and measures that, or copies one that is loaded once.
    #[serde(default)]
    pub loads_every_block: bool,
    /// Seconds without a row more after which loading is given up.
    #[serde(default = "load_patience_s")]
    pub load_patience_s: u64,
    /// How often every cell is measured.
    pub repeats: u32,
    /// In which order.
    pub order: Order,
    /// What is varied, in the order the experiment lists it.
    pub factors: Vec<PlannedFactor>,
    /// The engines.
    pub engines: Vec<PlannedEngine>,
    /// What is loaded, each once.
    pub datasets: Vec<PlannedDataset>,
    /// The blocks, in the order they are run.
    pub blocks: Vec<PlannedBlock>,
    /// The trials, in the order they are run; those that are not run stand last. `trials[i].trial` is `i + 1`.
    pub trials: Vec<PlannedTrial>,
    /// What it is expected to cost.
    pub expected: Expected,
}

/// The workload of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedWorkload {
    /// Name.
    pub name: String,
    /// Version.
    pub version: u32,
}

/// A factor of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedFactor {
    /// Name, as the experiment has it.
    pub key: String,
    /// Its values, in the order of the experiment.
    pub values: Vec<Value>,
}

/// An engine of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedEngine {
    /// How trials call it: the name, with `:configuration` unless that is `base`.
    pub label: String,
    /// Name.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// Configuration.
    pub configuration: String,
    /// Driver that speaks to it.
    pub driver: String,
    /// Whether it is a library inside the trial process.
    pub in_process: bool,
    /// How to get, start and stop it, if it is a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRecipe>,
    /// How to get and open it, if it is a library that is opened at run time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryRecipe>,
    /// What one update locks: `row`, `table` or `database`.
    pub lock_scope: String,
    /// What it is measured in place of, and in what respect, where the engine that was meant cannot be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in_for: Option<String>,
    /// Whether it keeps what it acknowledges; if not, checks are not run.
    pub keeps_rows: bool,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// What it promises at each durability that a trial of this plan runs at.
    pub promises: BTreeMap<Durability, PlannedPromise>,
}

impl PlannedEngine {
    /// What is to be installed for it, with the names it is installed under; nothing, if it is built into the program.
    pub fn packages(&self) -> Vec<(&str, Package<'_>)> {
        packages(&self.name, self.server.as_ref(), self.library.as_ref())
    }
}

/// What an engine promises at a durability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedPromise {
    /// How it is reached.
    pub about: String,
    /// What happens to acknowledged commits when the process dies.
    pub process_death: String,
    /// What happens to acknowledged commits when the host dies.
    pub host_death: String,
    /// How often the log is forced, to be held against what is seen.
    pub log_syncs: LogSyncs,
    /// Settings that bring it about.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
}

/// A dataset in an engine: loaded once, copied for every block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedDataset {
    /// Engine, fingerprint of the rows, and the engine settings that shape it.
    pub id: String,
    /// Label of the engine that loads it.
    pub engine: String,
    /// Rows in all tables.
    pub rows: u64,
    /// Bytes in all rows.
    pub bytes: u64,
    /// Updates that age it after loading.
    pub aging_updates: u64,
    /// Settings of the engine while it loads: those of its trials, less what their durability needs.
    pub engine_settings: BTreeMap<String, Value>,
}

/// One start of one engine on a fresh copy of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBlock {
    /// Number, from one.
    pub block: u32,
    /// Repeat, from one.
    pub repeat: u32,
    /// Label of the engine.
    pub engine: String,
    /// Id of the dataset.
    pub dataset: String,
    /// Number of its first trial; the others follow it.
    pub first_trial: u32,
    /// How many trials it has.
    pub trials: u32,
}

/// What becomes of a planned trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It is run.
    Run,
    /// The workload leaves this cell out, for this reason.
    NotRun(String),
    /// The engine cannot run it: what is missing.
    Unsupported(String),
}

/// One cell in one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedTrial {
    /// Number, from one.
    pub trial: u32,
    /// The cell, for example `engine=sqlite dop=64 tables=1`: the engine, then the factors by name.
    pub cell: String,
    /// Label of the engine.
    pub engine: String,
    /// Configuration of the engine.
    pub configuration: String,
    /// Block, from one; 0 for a trial that is not run.
    pub block: u32,
    /// Repeat, from one; 0 for a trial that is not run.
    pub repeat: u32,
    /// Seed of the request streams: the same for all cells and engines of a repeat.
    pub seed: u64,
    /// Id of the dataset.
    pub dataset: String,
    /// Values of what is varied.
    pub factors: BTreeMap<String, Value>,
    /// The load; of a trial with steps, what its steps have in common.
    pub load: Load,
    /// Its steps, in the order in which they are run; empty for a trial that is one measured interval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlannedStep>,
    /// Every parameter of the workload.
    pub settings: BTreeMap<String, Value>,
    /// Every setting of the engine: defaults, configuration, durability and experiment together.
    pub engine_settings: BTreeMap<String, Value>,
    /// Whether it is run.
    pub fate: Fate,
}

/// Why a stored plan cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PlanReadError {
    /// Written by a newer program.
    #[error(
        "the plan has format {found}; this program reads up to format {PLAN_FORMAT}. Use the \
         dbdyno that wrote it, or a newer one"
    )]
    Newer {
        /// Format of the plan.
        found: u32,
    },
    /// Not a plan, cut short or edited.
    #[error("the plan is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

impl Plan {
    /// The plan as JSON with line ends; the same plan always gives the same bytes.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a plan has nothing JSON lacks");
        text.push('\n');
        text
    }

    /// The plan in a text that [`Plan::to_json`] wrote, by this program or an older one.
    pub fn from_json(text: &str) -> Result<Plan, PlanReadError> {
        let FormatOnly { format } = serde_json::from_str(text)?;
        if format > PLAN_FORMAT {
            return Err(PlanReadError::Newer { found: format });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The dataset of that id.
    pub fn dataset(&self, id: &str) -> Option<&PlannedDataset> {
        self.datasets.iter().find(|dataset| dataset.id == id)
    }

    /// Seconds that a part of the run is expected to take; 0 for a part that the plan does not have.
    pub fn expected_seconds(&self, part: &str) -> f64 {
        let part = self.expected.parts.iter().find(|known| known.what == part);
        part.map_or(0.0, |part| part.seconds)
    }

    /// The engine of that label.
    pub fn engine(&self, label: &str) -> Option<&PlannedEngine> {
        self.engines.iter().find(|engine| engine.label == label)
    }

    /// Trials that are run.
    pub fn trials_to_run(&self) -> impl Iterator<Item = &PlannedTrial> {
        self.trials.iter().filter(|trial| trial.fate == Fate::Run)
    }

    /// What the trial's engine promises at the trial's durability; nothing for one that cannot run.
    pub fn promise(&self, trial: &PlannedTrial) -> Option<&PlannedPromise> {
        self.engine(&trial.engine)?.promises.get(&trial.load.durability)
    }
}
