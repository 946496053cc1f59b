//! `dbdyno show`: the tables of one run, or of several side by side. Ratios with n and spread, no verdict.

use crate::cli::ShowArgs;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::stored::{self, Stored};
use crate::view::cells::{Cell, cells_of};
use crate::view::pivot::{Base, Content, RUN_SEPARATOR, two_views};
use crate::view::steps::step_tables;
use crate::view::text::number;
use dbdyno_plan::Plan;
use dbdyno_record::{VerifyDepth, Warning, metric};
use dbdyno_stats::Summary;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The metrics of `--costs`.
const COSTS: &[&str] = &[
    "client_cpu_us_per_op",
    "server_cpu_us_per_op",
    "process_cpu_us_per_op",
    "foreground_cpu_us_per_op",
    "background_cpu_us_per_op",
    "context_switches_per_op",
    "write_kb_per_op",
    "service_time_us_p50",
    "service_time_us_p99",
];

/// Figures of the device profile, by the names that the record has for them.
const DEVICE_FIGURES: &[&str] = &[
    "fsync_per_s",
    "random_read_4k_per_s",
    "random_read_16k_per_s",
    "sequential_write_mb_per_s",
    "sequential_read_mb_per_s",
];

/// Runs the command.
pub fn run(args: &ShowArgs) -> Result<u8, Failure> {
    let open = |name: &String| stored::open(&args.results.directory, name);
    let stored = args.runs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut metrics = args.metric.clone();
    if args.costs {
        metrics = COSTS.iter().map(|&name| name.to_owned()).collect();
    }
    metrics.iter().try_for_each(|name| known_metric(name))?;
    if args.verify {
        verify(&stored)?;
    }
    let cells = all_cells(&stored);
    if let Some(base) = &args.relative_to {
        known_engine(&cells, base)?;
    }
    if args.json {
        output::print(&format!("{}\n", as_json(&stored, &cells, &metrics)))?;
        return Ok(exit_code::DONE);
    }
    let mut out = String::new();
    for (number, one) in stored.iter().enumerate() {
        if stored.len() > 1 {
            let _ = writeln!(out, "{}{RUN_SEPARATOR}", letter(number));
        }
        out += &head(one);
    }
    out += &differences(&stored);
    if let Some(tables) = of_steps(&stored, &cells) {
        output::print(&format!("{out}\n{tables}"))?;
        return Ok(exit_code::DONE);
    }
    let base = match &args.relative_to {
        Some(engine) => Some((Base::Engine(engine), engine.clone())),
        None => (stored.len() > 1).then(|| (Base::FirstRun, "the same engine in A".to_owned())),
    };
    let has_values = |metric: &String| cells.iter().any(|cell| cell.summary(metric).is_some());
    // Of the usual costs only those are shown that these engines have: libraries and servers differ in them.
    for metric in metrics.iter().filter(|metric| !args.costs || has_values(metric)) {
        let _ = write!(out, "\n{}", two_views(&cells, Content::Metric(metric), &title(metric)));
        if let Some((base, name)) = &base {
            let title = format!("{} relative to {name}", title(metric));
            let _ = write!(out, "\n{}", two_views(&cells, Content::RatioTo(metric, *base), &title));
        }
    }
    output::print(&out)?;
    Ok(exit_code::DONE)
}

/// What `run` prints at its end: the same tables that `show` prints.
pub fn result(stored: Stored) -> String {
    let cells = all_cells(std::slice::from_ref(&stored));
    if let Some(tables) = of_steps(std::slice::from_ref(&stored), &cells) {
        return format!("{}\n{tables}", head(&stored));
    }
    let metric = "throughput_per_s";
    let views = two_views(&cells, Content::Metric(metric), &title(metric));
    format!("{}\n{views}", head(&stored))
}

/// The tables of runs whose trials have steps.
fn of_steps(stored: &[Stored], cells: &[Cell]) -> Option<String> {
    let mut steps: Vec<String> = Vec::new();
    for step in stored.iter().flat_map(|one| &one.plan.trials).flat_map(|trial| &trial.steps) {
        if !steps.contains(&step.name) {
            steps.push(step.name.clone());
        }
    }
    let cores = host_of(stored.first()?).get("cores_online").and_then(|cores| cores.parse().ok());
    (!steps.is_empty()).then(|| step_tables(cells, &steps, cores.unwrap_or(1.0)))
}

fn title(name: &str) -> String {
    match name {
        "throughput_per_s" => "Updates per second".to_owned(),
        other => metric::find(other)
            .map_or(other.to_owned(), |metric| format!("{other} ({})", metric.unit)),
    }
}

fn known_metric(name: &str) -> Result<(), Failure> {
    if metric::find(name).is_some_and(|metric| !metric.is_text) {
        return Ok(());
    }
    let names = metric::METRICS.iter().filter(|metric| !metric.is_text).map(|metric| metric.name);
    let near = dbdyno_plan::nearest(name, names)
        .map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    Err(Failure::new(exit_code::WRONG_INPUT, format!("--metric: unknown metric \"{name}\"{near}")))
}

fn known_engine(cells: &[Cell], base: &str) -> Result<(), Failure> {
    let engines: BTreeSet<&str> = cells.iter().map(|cell| cell.engine.as_str()).collect();
    let of_a_run =
        |engine: &&str| engine.split_once(RUN_SEPARATOR).is_some_and(|(_, name)| name == base);
    if engines.contains(base) || engines.iter().any(of_a_run) {
        return Ok(());
    }
    let all: Vec<&str> = engines.into_iter().collect();
    let message = format!("--relative-to: \"{base}\" is none of {}", all.join(", "));
    Err(Failure::new(exit_code::WRONG_INPUT, message))
}

fn verify(stored: &[Stored]) -> Result<(), Failure> {
    let wrong = stored.iter().flat_map(|one| one.run.verify(VerifyDepth::Contents));
    let messages: Vec<String> = wrong.map(|error| error.to_string()).collect();
    if messages.is_empty() {
        return Ok(());
    }
    Err(Failure::new(exit_code::BAD_RECORD, messages.join("\n")))
}

/// What a run is called beside others.
fn letter(number: usize) -> char {
    char::from(b'A' + (number % 26) as u8)
}

/// Cells of all runs; with several, engines are called by run and name.
fn all_cells(stored: &[Stored]) -> Vec<Cell> {
    let prefix = |number: usize| match stored.len() {
        1 => String::new(),
        _ => format!("{}{RUN_SEPARATOR}", letter(number)),
    };
    let cells = stored.iter().enumerate();
    cells
        .flat_map(|(number, one)| cells_of(&one.run, &one.planned_cells(), &prefix(number)))
        .collect()
}

/// What was asked, where, with what, and what is missing.
fn head(one: &Stored) -> String {
    let (run, plan) = (&one.run, &one.plan);
    let mut out = String::new();
    let host = host_of(one);
    let fact = |name: &str| host.get(name).cloned().unwrap_or_else(|| "unknown".to_owned());
    let _ = writeln!(out, "{}: {}", plan.experiment, plan.question);
    let _ = writeln!(
        out,
        "run {}, scale {}, workload {} version {}, seed {}",
        run.header.run, plan.scale, plan.workload.name, plan.workload.version, plan.seed
    );
    let _ = writeln!(
        out,
        "host: {}, {} cores, kernel {}, {} on {}",
        fact("cpu_model"),
        fact("cores_online"),
        fact("kernel_release"),
        fact("filesystem"),
        fact("device_name")
    );
    for engine in &plan.engines {
        let versions: BTreeSet<&str> = run
            .trials
            .iter()
            .filter(|trial| trial.engine == engine.label)
            .map(|trial| trial.engine_version.as_str())
            .filter(|version| !version.is_empty())
            .collect();
        let versions = match versions.is_empty() {
            true => "not started".to_owned(),
            false => versions.into_iter().collect::<Vec<_>>().join(", "),
        };
        let scope = match engine.lock_scope.as_str() {
            "row" => String::new(),
            scope => format!(", one writer at a time in the whole {scope} (lock_scope = {scope})"),
        };
        let _ = writeln!(out, "engine {}: {versions}{scope}", engine.label);
        if let Some(other) = &engine.stands_in_for {
            let _ = writeln!(out, "  stands in for {other}");
        }
        if let Some(settings) = differing_settings(plan, &engine.label) {
            let _ = writeln!(out, "  {settings}");
        }
    }
    let values: Vec<f64> = run
        .trials
        .iter()
        .filter_map(|trial| crate::view::cells::value_of(trial, "null_driver_ns"))
        .collect();
    if let Some(instrument) = Summary::of(&values) {
        let _ = writeln!(
            out,
            "instrument: {} ns per request on the null driver",
            number(instrument.median)
        );
    }
    let blocks: BTreeSet<(&str, u32)> = run
        .trials
        .iter()
        .filter(|trial| trial.restart > 0)
        .map(|trial| (trial.engine.as_str(), trial.block))
        .collect();
    let engines: BTreeSet<&str> = blocks.iter().map(|(engine, _)| *engine).collect();
    let n = blocks.len() / engines.len().max(1);
    let _ = writeln!(
        out,
        "numbers are medians of n = {n} blocks, ± half the range over blocks; X: not run"
    );
    for warning in device_changes(one) {
        let (name, sentence, advice) = (warning.name(), warning.sentence(), warning.advice());
        let _ = writeln!(out, "{name}: {sentence} {advice}");
    }
    for gap in one.gaps() {
        let _ = writeln!(out, "gap: {gap}");
    }
    out
}

/// An engine's settings as far as they are not the same, by name and value, on every engine of the plan.
fn differing_settings(plan: &Plan, label: &str) -> Option<String> {
    let settings_of = |label: &str| {
        plan.trials_to_run().find(|trial| trial.engine == label).map(|trial| &trial.engine_settings)
    };
    let others: Vec<_> = plan
        .engines
        .iter()
        .filter(|engine| engine.label != label)
        .filter_map(|engine| settings_of(&engine.label))
        .collect();
    if others.is_empty() {
        return None;
    }
    let own = settings_of(label)?;
    let differs = |(name, value): &(&String, &dbdyno_plan::Value)| {
        others.iter().any(|other| other.get(*name) != Some(value))
    };
    let shown: Vec<String> =
        own.iter().filter(differs).map(|(name, value)| format!("{name}={value}")).collect();
    (!shown.is_empty()).then(|| shown.join(" "))
}

/// Figures of the device profile that moved by more than a fifth from before the run to after it.
fn device_changes(one: &Stored) -> Vec<Warning> {
    const MOVED: f64 = 1.2;
    let read = |name: &str| -> BTreeMap<String, Value> {
        serde_json::from_slice(&one.run.read_file(name).unwrap_or_default()).unwrap_or_default()
    };
    let (before, after) = (read("device_profile_before.json"), read("device_profile_after.json"));
    let figures =
        before.iter().filter(|(name, _)| DEVICE_FIGURES.iter().any(|known| name == known));
    let pairs = figures
        .filter_map(|(name, value)| Some((name, value.as_f64()?, after.get(name)?.as_f64()?)));
    let moved = pairs.filter(|(_, a, b)| a.max(*b) > a.min(*b) * MOVED);
    moved
        .map(|(name, before, after)| Warning::DeviceChanged { figure: name.clone(), before, after })
        .collect()
}

fn host_of(one: &Stored) -> BTreeMap<String, String> {
    let bytes = one.run.read_file("host.json").unwrap_or_default();
    let facts: BTreeMap<String, Value> = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    facts.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// What makes runs different from each other beyond what was to be compared.
fn differences(stored: &[Stored]) -> String {
    let Some((first, others)) = stored.split_first() else { return String::new() };
    let mut out = String::new();
    for (number, one) in (1..).zip(others) {
        let name = letter(number);
        let (a, b) = (&first.plan, &one.plan);
        if a.workload != b.workload {
            let _ = writeln!(
                out,
                "A and {name} have different workloads: {} version {} and {} version {}",
                a.workload.name, a.workload.version, b.workload.name, b.workload.version
            );
        }
        let (host_a, host_b) = (host_of(first), host_of(one));
        for fact in [
            "cpu_model",
            "cores_online",
            "memory_bytes",
            "kernel_release",
            "filesystem",
            "device_name",
        ] {
            if host_a.get(fact) != host_b.get(fact) {
                let of =
                    |host: &BTreeMap<String, String>| host.get(fact).cloned().unwrap_or_default();
                let _ = writeln!(
                    out,
                    "A and {name} ran on different hosts: {fact} {} and {}",
                    of(&host_a),
                    of(&host_b)
                );
            }
        }
    }
    out
}

fn as_json(stored: &[Stored], cells: &[Cell], metrics: &[String]) -> Value {
    let runs: Vec<Value> = stored
        .iter()
        .map(|one| {
            json!({
                "run": one.run.header.run,
                "experiment": one.plan.experiment,
                "scale": one.plan.scale,
                "workload": one.plan.workload.name,
                "workload_version": one.plan.workload.version,
                "sealed": one.run.is_sealed(),
                "gaps": one.gaps(),
            })
        })
        .collect();
    let cells: Vec<Value> = cells.iter().map(|cell| cell_json(cell, metrics)).collect();
    json!({ "runs": runs, "cells": cells })
}

fn cell_json(cell: &Cell, metrics: &[String]) -> Value {
    let factors: BTreeMap<&str, Value> = cell
        .factors
        .iter()
        .map(|(name, value)| (name.as_str(), serde_json::to_value(&value.0).unwrap_or_default()))
        .collect();
    let numbers: BTreeMap<&str, Value> = metrics
        .iter()
        .map(|metric| {
            let value = cell.summary(metric).map_or(Value::Null, |summary| {
                let warnings = cell.warnings(metric);
                let names: BTreeSet<&str> = warnings.iter().map(|warning| warning.name()).collect();
                json!({
                    "n": summary.n, "median": summary.median, "min": summary.min,
                    "max": summary.max, "warnings": names,
                })
            });
            (metric.as_str(), value)
        })
        .collect();
    let ends: Vec<Value> = cell
        .trials
        .iter()
        .map(|trial| {
            json!({
                "trial": trial.trial, "block": trial.block, "restart": trial.restart,
                "trial_end": trial.end.name(), "trial_end_reason": trial.end.reason(),
            })
        })
        .collect();
    json!({ "engine": cell.engine, "factors": factors, "metrics": numbers, "trials": ends })
}
