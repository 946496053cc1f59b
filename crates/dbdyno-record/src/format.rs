//! What the lines of `trials.jsonl` say: the header, a sealed trial, an added file, the end of the run.
//!
//! Fields may be added within a format number if they have a default; nothing is renamed or removed. What may not be
//! written is refused by [`TrialRecord::check`]; readers are more tolerant than writers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::layout::LARGEST_TRIAL;
use crate::metric;
use crate::warning::Warning;

/// Columns that every export has, in order. Factor columns, sorted by name, come before `metric`, so no factor may have
/// one of these names.
pub const FIXED_COLUMNS: &[&str] = &[
    "run",
    "trial",
    "engine",
    "version",
    "configuration",
    "workload",
    "workload_version",
    "step",
    "role",
    "class",
    "block",
    "restart",
    "metric",
    "value",
    "text",
    "unit",
];

/// First line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Format number of the record.
    pub format: u32,
    /// Run id, which is the name that the directory was made with.
    pub run: String,
    /// SHA-256 of `plan.json`, hexadecimal.
    pub plan_sha256: String,
    /// When the run began, as [`crate::utc_text`] writes it.
    pub started_utc: String,
}

/// A file that was added to the run directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its name in the run directory.
    pub name: String,
    /// SHA-256 of its content, hexadecimal.
    pub sha256: String,
}

/// Last line of a finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// How many trials were sealed.
    pub trials: u32,
    /// When the run ended, as [`crate::utc_text`] writes it.
    pub ended_utc: String,
    /// SHA-256, hexadecimal, of the plan and of every added file, by name.
    pub files: BTreeMap<String, String>,
}

/// How a trial ended. Failure is a value: every end is recorded and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrialEnd {
    /// Its numbers hold.
    Measured,
    /// It ran, but its numbers must not be shown as a result.
    Invalid {
        /// Which promise was broken.
        reason: String,
    },
    /// The engine cannot do what the trial asks.
    Unsupported {
        /// What is missing.
        reason: String,
    },
    /// It did not finish.
    Failed {
        /// The error.
        reason: String,
    },
    /// It was planned not to run, for example with fewer clients than tables.
    NotRun {
        /// Why.
        reason: String,
    },
}

impl TrialEnd {
    /// The word of the `trial_end` metric: Measured, Invalid, Unsupported, Failed or NotRun.
    pub fn name(&self) -> &'static str {
        match self {
            TrialEnd::Measured => "Measured",
            TrialEnd::Invalid { .. } => "Invalid",
            TrialEnd::Unsupported { .. } => "Unsupported",
            TrialEnd::Failed { .. } => "Failed",
            TrialEnd::NotRun { .. } => "NotRun",
        }
    }

    /// The text of the `trial_end_reason` metric; a measured trial needs none.
    pub fn reason(&self) -> Option<&str> {
        match self {
            TrialEnd::Measured => None,
            TrialEnd::Invalid { reason }
            | TrialEnd::Unsupported { reason }
            | TrialEnd::Failed { reason }
            | TrialEnd::NotRun { reason } => Some(reason),
        }
    }
}

/// Value of a factor, as the experiment wrote it. In JSON a bare number or a string.
#[derive(Debug, Clone, PartialEq)]
pub enum FactorValue {
    /// A finite number. Whole numbers are written without a fraction.
    Number(f64),
    /// Anything else.
    Text(String),
}

impl FactorValue {
    /// The value as a whole number, if it is one that an `f64` holds exactly.
    pub fn as_integer(&self) -> Option<i64> {
        const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
        match *self {
            FactorValue::Number(number)
                if number.fract() == 0.0 && number.abs() <= LARGEST_EXACT =>
            {
                Some(number as i64)
            }
            _ => None,
        }
    }
}

impl fmt::Display for FactorValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactorValue::Number(number) => write!(formatter, "{number}"),
            FactorValue::Text(text) => formatter.write_str(text),
        }
    }
}

impl Serialize for FactorValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self, self.as_integer()) {
            (_, Some(integer)) => serializer.serialize_i64(integer),
            (FactorValue::Number(number), None) => serializer.serialize_f64(*number),
            (FactorValue::Text(text), None) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for FactorValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FactorValue, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = FactorValue;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number or a string")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<FactorValue, E> {
                Ok(FactorValue::Number(value as f64))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<FactorValue, E> {
                Ok(FactorValue::Number(value as f64))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<FactorValue, E> {
                Ok(FactorValue::Number(value))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<FactorValue, E> {
                Ok(FactorValue::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

/// One number about one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Step of the trial, or `all`.
    pub step: String,
    /// Role of the clients, or `all` where summed.
    pub role: String,
    /// Class of the requests, or `all` where summed.
    pub class: String,
    /// A name of [`metric::METRICS`].
    pub metric: String,
    /// The number, finite, in `unit`.
    pub value: f64,
    /// The unit of the metric.
    pub unit: String,
}

impl Observation {
    /// An observation of a metric, with the metric's unit.
    pub fn new(
        (step, role, class): (&str, &str, &str),
        metric: &metric::Metric,
        value: f64,
    ) -> Observation {
        Observation {
            step: step.to_owned(),
            role: role.to_owned(),
            class: class.to_owned(),
            metric: metric.name.to_owned(),
            value,
            unit: metric.unit.to_owned(),
        }
    }
}

/// One step of a trial that has several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its name, which its observations have too.
    pub step: String,
    /// When it began, as [`crate::utc_text`] writes it.
    pub started_utc: String,
    /// How long its measured interval or its task took, in seconds.
    pub seconds: f64,
    /// What may be wrong with its numbers.
    pub warnings: Vec<Warning>,
}

/// One sealed trial: one cell in one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Plan index, at most [`LARGEST_TRIAL`].
    pub trial: u32,
    /// Key of the cell; the same in every block.
    pub cell: String,
    /// Engine, by name.
    pub engine: String,
    /// Version string that the engine gave.
    pub engine_version: String,
    /// Configuration of the engine, by name.
    pub configuration: String,
    /// Workload, by name.
    pub workload: String,
    /// Version of the workload; numbers of two versions are not comparable.
    pub workload_version: u32,
    /// Planned block.
    pub block: u32,
    /// Changes with each start of the engine, also after resume or crash; the unit of replication. 0 if no engine was
    /// started for this trial.
    pub restart: u32,
    /// Factor values, by the names that the experiment gave them.
    pub factors: BTreeMap<String, FactorValue>,
    /// When the trial began, as [`crate::utc_text`] writes it.
    pub started_utc: String,
    /// How long it took, in seconds.
    pub duration_s: f64,
    /// How it ended.
    pub end: TrialEnd,
    /// Its numbers; each (step, role, class, metric) once.
    pub observations: Vec<Observation>,
    /// What may be wrong with them.
    pub warnings: Vec<Warning>,
    /// Its steps as they went, in order; empty for a trial that is one measured interval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// SHA-256, hexadecimal, of each file of its detail directory, by name.
    pub files: BTreeMap<String, String>,
}

impl TrialRecord {
    /// Checks that everything in it may be written.
    ///
    /// # Errors
    /// One sentence: which field must not be written, and why.
    pub fn check(&self) -> Result<(), String> {
        if self.trial > LARGEST_TRIAL {
            return Err(format!("trial numbers go up to {LARGEST_TRIAL}: split the experiment"));
        }
        if !self.duration_s.is_finite() || self.duration_s < 0.0 {
            return Err(format!("duration_s is {}", self.duration_s));
        }
        if self.end.reason().is_some_and(|reason| reason.trim().is_empty()) {
            return Err(format!("it ended {} without a reason", self.end.name()));
        }
        for (name, value) in &self.factors {
            if FIXED_COLUMNS.contains(&name.as_str()) {
                return Err(format!(
                    "the factor `{name}` is named like a column of the export: rename it"
                ));
            }
            if matches!(value, FactorValue::Number(number) if !number.is_finite()) {
                return Err(format!(
                    "the factor `{name}` is {value}, which is not a finite number"
                ));
            }
        }
        for (name, sha256) in &self.files {
            if sha256.len() != 64 || !sha256.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
            {
                return Err(format!("the hash of {name} is not 64 lower-case hexadecimal digits"));
            }
        }
        self.check_observations()?;
        for warning in self.warnings.iter().chain(self.steps.iter().flat_map(|step| &step.warnings))
        {
            if !warning.is_finite() {
                return Err(format!(
                    "the warning {} has a figure that is not finite",
                    warning.name()
                ));
            }
        }
        Ok(())
    }

    fn check_observations(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for Observation { step, role, class, metric: name, value, unit } in &self.observations {
            let Some(known) = metric::find(name) else {
                return Err(format!("the metric `{name}` is not in the list of metric.rs"));
            };
            if known.is_text {
                return Err(format!(
                    "the metric `{name}` is a word, it follows from the trial's end"
                ));
            }
            if known.unit != unit {
                return Err(format!("the metric `{name}` is in {}, not in {unit}", known.unit));
            }
            if !value.is_finite() {
                return Err(format!(
                    "the metric `{name}` is {value}, which is not a finite number"
                ));
            }
            if [step, role, class].iter().any(|word| word.is_empty()) {
                return Err(format!(
                    "the metric `{name}` has an empty step, role or class: say `all`"
                ));
            }
            if !seen.insert((step, role, class, name)) {
                return Err(format!(
                    "the metric `{name}` appears twice for {step}, {role}, {class}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_values_are_bare_numbers_or_strings_in_json() {
        fn check(value: FactorValue, json: &str) {
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
            assert_eq!(serde_json::from_str::<FactorValue>(json).unwrap(), value);
        }
        check(FactorValue::Number(64.0), "64");
        check(FactorValue::Number(-2.0), "-2");
        check(FactorValue::Number(0.99), "0.99");
        check(FactorValue::Number(0.1 + 0.2), "0.30000000000000004");
        check(FactorValue::Text("pinned".to_owned()), "\"pinned\"");
        check(FactorValue::Text("64".to_owned()), "\"64\"");
        assert!(serde_json::from_str::<FactorValue>("true").is_err());
        assert!(serde_json::from_str::<FactorValue>("null").is_err());
    }
}
