//! Trials of several steps as document 004's pages show them: a summary of rates, the rates that writers held, and for
//! each step what an operation cost.
//!
//! The columns have the names of those pages. METHODOLOGY.md has their formulas; what they are made of is in the record.

use super::cells::Cell;
use super::text::{align, number};
use dbdyno_record::{TrialEnd, TrialRecord};
use dbdyno_stats::Summary;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The class that all queries are added up in.
const QUERIES: &str = "query";
/// The class of inserts.
const INSERTS: &str = "insert";
/// Share of a wanted rate from which on it was held.
const TARGET_MET: f64 = 0.98;

/// A column: its name, and its value in a step of a trial.
type Column = (&'static str, fn(&StepOf<'_>) -> Option<f64>);

/// What a step cost, with the names of document 004.
const COLUMNS: &[Column] = &[
    ("ips", |step| step.ips()),
    ("qps", |step| step.qps()),
    ("rps", |step| step.all("reads_per_s")),
    ("rmbps", |step| step.all("read_mb_per_s")),
    ("wps", |step| step.all("writes_per_s")),
    ("wmbps", |step| step.all("write_mb_per_s")),
    ("rpq", |step| per(step.all("reads_per_s"), step.operations())),
    ("rkbpq", |step| per(step.all("read_mb_per_s").map(|mb| mb * 1024.0), step.operations())),
    ("wpi", |step| per(step.all("writes_per_s"), step.ips())),
    ("wkbpi", |step| per(step.all("write_mb_per_s").map(|mb| mb * 1024.0), step.ips())),
    ("csps", |step| step.all("context_switches_per_s")),
    ("cpups", |step| step.all("host_cpu_percent")),
    ("cspq", |step| per(step.all("context_switches_per_s"), step.operations())),
    ("cpupq", |step| {
        let busy_us_per_s = step.all("host_cpu_percent")? / 100.0 * step.cores * 1e6;
        per(Some(busy_us_per_s), step.operations())
    }),
    ("dbgb", |step| Some(step.all("data_mb")? / 1024.0)),
    ("rss", |step| {
        let server = step.all("server_private_mb").zip(step.all("server_shared_mb"));
        let mb = server.map(|(private, shared)| private + shared);
        Some(mb.or_else(|| step.all("rss_mb"))? / 1024.0)
    }),
    ("maxop", |step| Some(step.of(step.main_class(), "service_time_us_max")? / 1e6)),
    ("p50", |step| step.of(step.main_class(), "requests_per_s_p50")),
    ("p99", |step| step.of(step.main_class(), "requests_per_s_p99")),
];

fn per(value: Option<f64>, operations: Option<f64>) -> Option<f64> {
    let operations = operations.filter(|operations| *operations > 0.0)?;
    Some(value? / operations)
}

/// One step of one trial.
struct StepOf<'a> {
    trial: &'a TrialRecord,
    step: &'a str,
    cores: f64,
}

impl StepOf<'_> {
    fn of(&self, class: &str, metric: &str) -> Option<f64> {
        let is_it = |observation: &&dbdyno_record::Observation| {
            observation.step == self.step
                && observation.class == class
                && observation.metric == metric
        };
        self.trial.observations.iter().find(is_it).map(|observation| observation.value)
    }

    fn all(&self, metric: &str) -> Option<f64> {
        self.of("all", metric)
    }

    /// Rows inserted per second, or indexed.
    fn ips(&self) -> Option<f64> {
        self.of(INSERTS, "rows_per_s").or_else(|| self.all("rows_per_s"))
    }

    /// Queries per second.
    fn qps(&self) -> Option<f64> {
        self.of(QUERIES, "throughput_per_s")
    }

    /// What costs are divided by: queries where there are any, rows elsewhere.
    fn operations(&self) -> Option<f64> {
        self.qps().or_else(|| self.ips())
    }

    /// The class that the step is about.
    fn main_class(&self) -> &'static str {
        if self.qps().is_some() { QUERIES } else { INSERTS }
    }
}

/// All tables of cells whose trials have these steps, on a host with so many cores.
pub fn step_tables(cells: &[Cell], steps: &[String], cores: f64) -> String {
    let mut out = String::from("Rows inserted (l.x: indexed) or queries per second, by step\n");
    let head = |first: &[&str]| first.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut rows = vec![head(&["engine"])];
    rows[0].extend(steps.iter().cloned());
    let mut notes = BTreeSet::new();
    for cell in cells {
        let mut row = vec![name_of(cell)];
        row.extend(steps.iter().map(|step| {
            let summary = summary(cell, step, cores, |step| step.operations());
            let warned = cell
                .measured()
                .flat_map(|trial| &trial.steps)
                .any(|record| record.step == *step && !record.warnings.is_empty());
            let mark = if warned { "*" } else { "" };
            format!("{}{mark}", shown(summary))
        }));
        rows.push(row);
        for trial in cell.ended_otherwise() {
            let reason = trial.end.reason().unwrap_or_default();
            notes.insert(format!("{}: {}: {reason}", name_of(cell), trial.end.name()));
        }
        for trial in cell.measured() {
            for record in &trial.steps {
                for warning in &record.warnings {
                    notes.insert(format!(
                        "* {} {}: {}: {} {}",
                        name_of(cell),
                        record.step,
                        warning.name(),
                        warning.sentence(),
                        warning.advice()
                    ));
                }
            }
        }
    }
    out += &align(&rows, 1);
    out += &targets(cells, steps, cores);
    for step in steps {
        let _ = write!(out, "\n{step}\n");
        let mut rows = vec![head(&["engine", "n"])];
        rows[0].extend(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
        for cell in cells {
            let mut row = vec![name_of(cell), cell.measured().count().to_string()];
            row.extend(COLUMNS.iter().map(|(_, value)| {
                summary(cell, step, cores, *value).map_or_else(String::new, |it| number(it.median))
            }));
            rows.push(row);
        }
        out += &align(&rows, 1);
    }
    if !notes.is_empty() {
        out.push('\n');
        for note in notes {
            let _ = writeln!(out, "{note}");
        }
    }
    out
}

/// Wanted and achieved rates of writers, for steps that have them.
fn targets(cells: &[Cell], steps: &[String], cores: f64) -> String {
    let wanted = |step: &StepOf<'_>| step.of(INSERTS, "target_rows_per_s");
    let limited: Vec<&String> = steps
        .iter()
        .filter(|step| cells.iter().any(|cell| summary(cell, step, cores, wanted).is_some()))
        .collect();
    if limited.is_empty() {
        return String::new();
    }
    let mut rows = vec![vec!["engine".to_owned()]];
    rows[0].extend(limited.iter().map(|step| (*step).clone()));
    let target: Vec<String> = limited
        .iter()
        .map(|step| {
            let first = cells.iter().find_map(|cell| summary(cell, step, cores, wanted));
            first.map_or_else(String::new, |it| number(it.median))
        })
        .collect();
    rows.push(std::iter::once("target".to_owned()).chain(target).collect());
    for cell in cells {
        let mut row = vec![name_of(cell)];
        row.extend(limited.iter().map(|step| {
            let (held, target) =
                (summary(cell, step, cores, |step| step.ips()), summary(cell, step, cores, wanted));
            let missed = held
                .zip(target)
                .is_some_and(|(held, target)| held.median < target.median * TARGET_MET);
            format!("{}{}", shown(held), if missed { " MISSED" } else { "" })
        }));
        rows.push(row);
    }
    format!("\nRows inserted per second by writers that hold a rate\n{}", align(&rows, 1))
}

fn name_of(cell: &Cell) -> String {
    let factors: Vec<String> =
        cell.factors.iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
    match factors.is_empty() {
        true => cell.engine.clone(),
        false => format!("{} {}", cell.engine, factors.join(" ")),
    }
}

fn shown(summary: Option<Summary>) -> String {
    let Some(summary) = summary else { return "-".to_owned() };
    let half_range = (summary.max - summary.min) / 2.0 / summary.median * 100.0;
    match summary.n {
        1 => number(summary.median),
        _ => format!("{} ±{half_range:.0}%", number(summary.median)),
    }
}

/// The value over the blocks in which the trial was measured.
fn summary(
    cell: &Cell,
    step: &str,
    cores: f64,
    value: impl Fn(&StepOf<'_>) -> Option<f64>,
) -> Option<Summary> {
    let trials = cell.trials.iter().filter(|trial| trial.end == TrialEnd::Measured);
    let values = trials.filter_map(|trial| value(&StepOf { trial, step, cores }));
    Summary::of(&values.collect::<Vec<_>>())
}
