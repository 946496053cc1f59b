//! A run as rows of one observation each: what `export` writes, in CSV or JSON.
//!
//! The columns are [`FIXED_COLUMNS`] with the factors of the run between `restart` and `metric`. Each trial gives a
//! `trial_end` row, a `trial_end_reason` row unless it was measured, and one row per observation. Trials that are
//! planned but not in the record come from the caller, who knows the plan.

use std::collections::{BTreeMap, BTreeSet};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

pub use crate::format::FIXED_COLUMNS;
use crate::format::{FactorValue, Observation, TrialRecord};
use crate::reader::Run;

/// How many of [`FIXED_COLUMNS`] come before the factors.
const COLUMNS_BEFORE_FACTORS: usize = 12;
const ALL: &str = "all";

/// What the plan knows about a trial, for those that the record does not have.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTrial {
    /// Plan index.
    pub trial: u32,
    /// Engine, by name.
    pub engine: String,
    /// Version that was asked for.
    pub engine_version: String,
    /// Configuration of the engine, by name.
    pub configuration: String,
    /// Workload, by name.
    pub workload: String,
    /// Version of the workload.
    pub workload_version: u32,
    /// Planned block.
    pub block: u32,
    /// Factor values, by name.
    pub factors: BTreeMap<String, FactorValue>,
    /// Why there is no record of it, for `trial_end_reason`.
    pub reason: String,
}

/// The rows of one run.
#[derive(Debug)]
pub struct LongFormat<'a> {
    run: &'a str,
    trials: Vec<Subject<'a>>,
    factor_columns: Vec<&'a str>,
}

/// One observation.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// Run id.
    pub run: &'a str,
    /// Plan index of the trial.
    pub trial: u32,
    /// Engine, by name.
    pub engine: &'a str,
    /// Version of the engine.
    pub version: &'a str,
    /// Configuration of the engine, by name.
    pub configuration: &'a str,
    /// Workload, by name.
    pub workload: &'a str,
    /// Version of the workload.
    pub workload_version: u32,
    /// Step, or `all`.
    pub step: &'a str,
    /// Role, or `all` where summed.
    pub role: &'a str,
    /// Request class, or `all` where summed.
    pub class: &'a str,
    /// Block.
    pub block: u32,
    /// Restart of the engine; `None` for a trial that is not in the record.
    pub restart: Option<u32>,
    /// Name and value of each factor column; `None` where the trial has no such factor.
    pub factors: Vec<(&'a str, Option<&'a FactorValue>)>,
    /// Name of the metric.
    pub metric: &'a str,
    /// The number, finite, for metrics that are numbers.
    pub value: Option<f64>,
    /// The word, for metrics that are words.
    pub text: Option<&'a str>,
    /// Unit of the value; empty for words.
    pub unit: &'a str,
    /// How the trial ended, the text of its `trial_end` row. Not a column: numbers of a trial that did not end Measured
    /// are no results, and whoever shows rows as results has to leave them out.
    pub end: &'a str,
}

/// What all the rows of one trial share.
#[derive(Debug)]
struct Subject<'a> {
    trial: u32,
    engine: &'a str,
    version: &'a str,
    configuration: &'a str,
    workload: &'a str,
    workload_version: u32,
    block: u32,
    restart: Option<u32>,
    factors: &'a BTreeMap<String, FactorValue>,
    end: &'static str,
    reason: Option<&'a str>,
    observations: &'a [Observation],
}

impl<'a> LongFormat<'a> {
    /// The rows of a run, sorted by plan index. Of the planned trials those count that the record does not have; they
    /// end as NotRun with the reason that the caller gives.
    pub fn new(run: &'a Run, planned: &'a [PlannedTrial]) -> LongFormat<'a> {
        let sealed = run.sealed();
        let missing = planned.iter().filter(|trial| !sealed.contains(&trial.trial));
        let mut trials: Vec<Subject<'a>> =
            run.trials.iter().map(Subject::sealed).chain(missing.map(Subject::missing)).collect();
        trials.sort_by_key(|subject| subject.trial);
        let names: BTreeSet<&str> =
            trials.iter().flat_map(|subject| subject.factors.keys().map(String::as_str)).collect();
        LongFormat { run: &run.header.run, trials, factor_columns: names.into_iter().collect() }
    }

    /// Names of the columns, in order.
    pub fn columns(&self) -> Vec<&'a str> {
        let (before, after) = FIXED_COLUMNS.split_at(COLUMNS_BEFORE_FACTORS);
        [before, &self.factor_columns, after].concat()
    }

    /// The rows, trial by trial.
    pub fn rows(&self) -> impl Iterator<Item = Row<'a>> + '_ {
        self.trials.iter().flat_map(move |subject| {
            let end = self.word_row(subject, "trial_end", subject.end);
            let reason =
                subject.reason.map(|reason| self.word_row(subject, "trial_end_reason", reason));
            let numbers = subject.observations.iter().map(move |observation| Row {
                step: &observation.step,
                role: &observation.role,
                class: &observation.class,
                value: Some(observation.value),
                text: None,
                unit: &observation.unit,
                ..self.word_row(subject, &observation.metric, "")
            });
            std::iter::once(end).chain(reason).chain(numbers)
        })
    }

    fn word_row(&self, subject: &Subject<'a>, metric: &'a str, text: &'a str) -> Row<'a> {
        let factors =
            self.factor_columns.iter().map(|&name| (name, subject.factors.get(name))).collect();
        Row {
            run: self.run,
            trial: subject.trial,
            engine: subject.engine,
            version: subject.version,
            configuration: subject.configuration,
            workload: subject.workload,
            workload_version: subject.workload_version,
            step: ALL,
            role: ALL,
            class: ALL,
            block: subject.block,
            restart: subject.restart,
            factors,
            metric,
            value: None,
            text: Some(text),
            unit: "",
            end: subject.end,
        }
    }
}

impl<'a> Subject<'a> {
    fn sealed(trial: &'a TrialRecord) -> Subject<'a> {
        Subject {
            trial: trial.trial,
            engine: &trial.engine,
            version: &trial.engine_version,
            configuration: &trial.configuration,
            workload: &trial.workload,
            workload_version: trial.workload_version,
            block: trial.block,
            restart: Some(trial.restart),
            factors: &trial.factors,
            end: trial.end.name(),
            reason: trial.end.reason(),
            observations: &trial.observations,
        }
    }

    fn missing(trial: &'a PlannedTrial) -> Subject<'a> {
        Subject {
            trial: trial.trial,
            engine: &trial.engine,
            version: &trial.engine_version,
            configuration: &trial.configuration,
            workload: &trial.workload,
            workload_version: trial.workload_version,
            block: trial.block,
            restart: None,
            factors: &trial.factors,
            end: "NotRun",
            reason: Some(&trial.reason),
            observations: &[],
        }
    }
}

impl Row<'_> {
    /// The fields as text, in the order of [`LongFormat::columns`]; empty where there is no value.
    pub fn fields(&self) -> Vec<String> {
        let mut fields = vec![
            self.run.to_owned(),
            self.trial.to_string(),
            self.engine.to_owned(),
            self.version.to_owned(),
            self.configuration.to_owned(),
            self.workload.to_owned(),
            self.workload_version.to_string(),
            self.step.to_owned(),
            self.role.to_owned(),
            self.class.to_owned(),
            self.block.to_string(),
            self.restart.map(|restart| restart.to_string()).unwrap_or_default(),
        ];
        fields.extend(
            self.factors
                .iter()
                .map(|(_, value)| value.map(FactorValue::to_string).unwrap_or_default()),
        );
        fields.push(self.metric.to_owned());
        fields.push(self.value.map(|value| value.to_string()).unwrap_or_default());
        fields.push(self.text.unwrap_or_default().to_owned());
        fields.push(self.unit.to_owned());
        fields
    }
}

/// One JSON object with the columns in order; null where there is no value.
impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(Some(FIXED_COLUMNS.len() + self.factors.len()))?;
        row.serialize_entry("run", self.run)?;
        row.serialize_entry("trial", &self.trial)?;
        row.serialize_entry("engine", self.engine)?;
        row.serialize_entry("version", self.version)?;
        row.serialize_entry("configuration", self.configuration)?;
        row.serialize_entry("workload", self.workload)?;
        row.serialize_entry("workload_version", &self.workload_version)?;
        row.serialize_entry("step", self.step)?;
        row.serialize_entry("role", self.role)?;
        row.serialize_entry("class", self.class)?;
        row.serialize_entry("block", &self.block)?;
        row.serialize_entry("restart", &self.restart)?;
        for (name, value) in &self.factors {
            row.serialize_entry(name, value)?;
        }
        row.serialize_entry("metric", self.metric)?;
        row.serialize_entry("value", &self.value)?;
        row.serialize_entry("text", &self.text)?;
        row.serialize_entry("unit", self.unit)?;
        row.end()
    }
}
