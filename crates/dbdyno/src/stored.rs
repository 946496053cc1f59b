//! A run as it is stored: its record with its plan, and what is missing from it.

use crate::failure::Failure;
use crate::view::cells::PlannedCell;
use dbdyno_plan::Plan;
use dbdyno_record::{FactorValue, PlannedTrial, Run, find_run};
use dbdyno_workload::Setting;
use std::collections::BTreeMap;
use std::path::Path;

/// Record and plan of one run.
pub struct Stored {
    /// The record.
    pub run: Run,
    /// The plan.
    pub plan: Plan,
}

/// Opens a run by id, unambiguous beginning of an id, or path.
///
/// # Errors
/// If there is no such run, or its record or plan cannot be read.
pub fn open(results: &Path, name: &str) -> Result<Stored, Failure> {
    let run = Run::open(&find_run(results, name)?)?;
    let plan = plan_of(&run)?;
    Ok(Stored { run, plan })
}

/// The plan that a record was made by.
pub fn plan_of(run: &Run) -> Result<Plan, Failure> {
    let text = String::from_utf8_lossy(&run.plan);
    Plan::from_json(&text).map_err(|error| {
        let file = run.path.join("plan.json");
        Failure::new(crate::exit_code::BAD_RECORD, format!("{}: {error}", file.display()))
    })
}

/// A setting as the record's factors have it.
pub fn factor(setting: &Setting) -> FactorValue {
    match setting {
        Setting::Integer(value) => FactorValue::Number(*value as f64),
        Setting::Number(value) => FactorValue::Number(*value),
        Setting::Text(text) => FactorValue::Text(text.clone()),
        Setting::Flag(flag) => FactorValue::Text(flag.to_string()),
    }
}

/// Factor values of a planned trial, as the record has them.
pub fn factors(trial: &dbdyno_plan::PlannedTrial) -> BTreeMap<String, FactorValue> {
    trial.factors.iter().map(|(name, value)| (name.clone(), factor(&value.0))).collect()
}

impl Stored {
    /// Planned trials that the record does not have.
    pub fn planned_trials(&self) -> Vec<PlannedTrial> {
        let sealed = self.run.sealed();
        let missing = self.plan.trials.iter().filter(|trial| !sealed.contains(&trial.trial));
        missing
            .map(|trial| PlannedTrial {
                trial: trial.trial,
                engine: trial.engine.clone(),
                engine_version: String::new(),
                configuration: trial.configuration.clone(),
                workload: self.plan.workload.name.clone(),
                workload_version: self.plan.workload.version,
                block: trial.block,
                factors: factors(trial),
                reason: "the run ended before this trial; `dbdyno run --resume` measures it"
                    .to_owned(),
            })
            .collect()
    }

    /// Planned cells, one for each planned trial.
    pub fn planned_cells(&self) -> Vec<PlannedCell> {
        let planned = self.plan.trials.iter();
        planned
            .map(|trial| PlannedCell { engine: trial.engine.clone(), factors: factors(trial) })
            .collect()
    }

    /// Says on standard error what is missing from the record.
    pub fn print_gaps(&self) {
        for gap in self.gaps() {
            eprintln!("{}: {gap}", self.run.header.run);
        }
    }

    /// What is missing from the record, one sentence each.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps: Vec<String> = self.run.gaps.iter().map(ToString::to_string).collect();
        let missing = self.planned_trials().len();
        if missing > 0 {
            let all = self.plan.trials.len();
            gaps.push(format!("{missing} of {all} planned trials are not measured; `dbdyno run --resume {}` goes on", self.run.header.run));
        }
        gaps
    }
}
