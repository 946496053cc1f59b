//! Trials gathered into cells: one engine with one combination of factor values, measured in some blocks.

use dbdyno_record::{FactorValue, Run, TrialEnd, TrialRecord, Warning};
use dbdyno_stats::Summary;
use std::collections::{BTreeMap, BTreeSet};

/// A factor value that can be put in order: numbers by size, before words.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordered(pub FactorValue);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (&self.0, &other.0) {
            (FactorValue::Number(a), FactorValue::Number(b)) => a.total_cmp(b),
            (FactorValue::Number(_), FactorValue::Text(_)) => std::cmp::Ordering::Less,
            (FactorValue::Text(_), FactorValue::Number(_)) => std::cmp::Ordering::Greater,
            (FactorValue::Text(a), FactorValue::Text(b)) => a.cmp(b),
        }
    }
}

/// Factor values by name.
pub type Factors = BTreeMap<String, Ordered>;

/// One cell of one engine of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// How the engine is called in tables: with the run before it where there are several runs.
    pub engine: String,
    /// Factor values.
    pub factors: Factors,
    /// Its trials, in the order of their blocks.
    pub trials: Vec<TrialRecord>,
    /// Blocks that the plan has for it.
    pub planned: usize,
}

impl Cell {
    /// The values of a metric in the trials that were measured. An Invalid trial's numbers are no result.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.measured().filter_map(|trial| value_of(trial, metric)).collect()
    }

    /// Median and spread of a metric over blocks.
    pub fn summary(&self, metric: &str) -> Option<Summary> {
        Summary::of(&self.values(metric))
    }

    /// Trials that were measured.
    pub fn measured(&self) -> impl Iterator<Item = &TrialRecord> {
        self.trials.iter().filter(|trial| trial.end == TrialEnd::Measured)
    }

    /// Trials that ended in another way than Measured.
    pub fn ended_otherwise(&self) -> impl Iterator<Item = &TrialRecord> {
        self.trials.iter().filter(|trial| trial.end != TrialEnd::Measured)
    }

    /// Warnings of its measured trials that concern a metric. That there is one block only is not among them: it
    /// usually holds for all cells alike and is said once.
    pub fn warnings(&self, metric: &str) -> Vec<Warning> {
        let recorded = self.measured().flat_map(|trial| &trial.warnings);
        recorded.filter(|warning| warning.concerns(metric)).cloned().collect()
    }
}

/// The number that a trial has for a metric, summed over steps, roles and classes.
pub fn value_of(trial: &TrialRecord, metric: &str) -> Option<f64> {
    let is_it = |observation: &&dbdyno_record::Observation| {
        observation.metric == metric && observation.role == "all" && observation.class == "all"
    };
    trial.observations.iter().find(is_it).map(|observation| observation.value)
}

/// A planned trial, as far as it decides which cells there are.
#[derive(Debug, Clone)]
pub struct PlannedCell {
    /// Engine.
    pub engine: String,
    /// Factor values.
    pub factors: BTreeMap<String, FactorValue>,
}

/// All cells of a run: those of its plan, filled with what is in the record. `prefix` goes before engine names.
pub fn cells_of(run: &Run, planned: &[PlannedCell], prefix: &str) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut index: BTreeMap<(String, Factors), usize> = BTreeMap::new();
    let mut cell_of = |cells: &mut Vec<Cell>,
                       engine: &str,
                       factors: &BTreeMap<String, FactorValue>| {
        let engine = format!("{prefix}{engine}");
        let factors: Factors =
            factors.iter().map(|(name, value)| (name.clone(), Ordered(value.clone()))).collect();
        *index.entry((engine.clone(), factors.clone())).or_insert_with(|| {
            cells.push(Cell { engine, factors, trials: Vec::new(), planned: 0 });
            cells.len() - 1
        })
    };
    for plan in planned {
        let at = cell_of(&mut cells, &plan.engine, &plan.factors);
        cells[at].planned += 1;
    }
    for trial in &run.trials {
        let at = cell_of(&mut cells, &trial.engine, &trial.factors);
        cells[at].trials.push(trial.clone());
    }
    for cell in &mut cells {
        cell.trials.sort_by_key(|trial| trial.block);
    }
    cells
}

/// Names of the factors of all cells.
pub fn factor_names(cells: &[Cell]) -> BTreeSet<String> {
    cells.iter().flat_map(|cell| cell.factors.keys().cloned()).collect()
}
