//! `dbdyno doctor`: what this host is, what would spoil a measurement, and what to do about it.

use crate::cli::DoctorArgs;
use crate::exit_code;
use crate::failure::Failure;
use crate::instrument;
use crate::output;
use crate::view::text::align;
use dbdyno_host::doctor::{Check, Status, checks, worst};
use dbdyno_host::facts::HostFacts;
use dbdyno_host::probe::cpu::{self, HostSample, HostUse};
use dbdyno_load::instrument::{Effort, Instrument};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the host is watched for CPU time that others take.
const WATCHED: Duration = Duration::from_millis(300);
/// What `--instrument` spends: nine rounds of 300 ms.
const EFFORT_ROUND_NS: u64 = 300_000_000;

/// Runs the command.
pub fn run(args: &DoctorArgs) -> Result<u8, Failure> {
    let directory = existing_ancestor(&args.results.directory);
    let recent = watch()?;
    let facts = HostFacts::read(&directory);
    let checks = checks(&facts, Some(&recent));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let effort = Effort { rounds: 9, round_ns: EFFORT_ROUND_NS, cores };
    let measured = if args.instrument { Some(instrument::measure(effort)?) } else { None };
    if args.json {
        let text = serde_json::to_string_pretty(&as_json(&facts, &checks, measured.as_ref()));
        output::print(&(text.map_err(Failure::json)? + "\n"))?;
    } else {
        output::print(&as_text(&facts, &checks, measured.as_ref()))?;
    }
    Ok(if worst(&checks) == Status::Stop { exit_code::HOST_UNFIT } else { exit_code::DONE })
}

/// The results directory need not be there yet; what holds it is what counts.
pub fn existing_ancestor(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find(|ancestor| ancestor.is_dir()).map(Path::to_owned);
    found.unwrap_or_else(|| PathBuf::from("/"))
}

fn watch() -> Result<HostUse, Failure> {
    let before = HostSample::read()?;
    std::thread::sleep(WATCHED);
    Ok(cpu::difference(&before, &HostSample::read()?))
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Advice => "advice",
        Status::Stop => "stop",
    }
}

fn as_json(facts: &HostFacts, checks: &[Check], measured: Option<&Instrument>) -> Value {
    let checks: Vec<Value> = checks
        .iter()
        .map(|check| {
            json!({
                "name": check.name,
                "status": word(check.status),
                "found": check.found,
                "advice": check.advice,
            })
        })
        .collect();
    let mut value = json!({ "host": host_json(facts), "checks": checks });
    if let (Some(instrument), Some(fields)) = (measured, value.as_object_mut()) {
        // Its keys stand at the top, beside each other, where scripts look for them.
        if let Value::Object(more) = instrument::as_json(instrument) {
            fields.extend(more);
        }
    }
    value
}

/// Host facts as the record keeps them: units in the names, numbers where they are.
pub fn host_json(facts: &HostFacts) -> Value {
    facts_json(facts.rows())
}

/// Named facts as a JSON object; what reads as a number becomes one.
pub fn facts_json(rows: Vec<(&'static str, String)>) -> Value {
    let value = |text: String| {
        serde_json::from_str(&text).ok().filter(Value::is_number).unwrap_or(Value::String(text))
    };
    Value::Object(rows.into_iter().map(|(name, text)| (name.to_owned(), value(text))).collect())
}

fn as_text(facts: &HostFacts, checks: &[Check], measured: Option<&Instrument>) -> String {
    let rows: Vec<Vec<String>> =
        facts.rows().into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    let mut out = align(&rows, 2) + "\n";
    for check in checks {
        let (status, name) = (word(check.status), check.name.replace('_', " "));
        out += &format!("{status:<7} {name}: {}\n", check.found);
        if !check.advice.is_empty() {
            out += &format!("        {}\n", check.advice);
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    out += &format!(
        "\n{} checks: {} ok, {} with advice, {} that stop a run\n",
        checks.len(),
        count(Status::Ok),
        count(Status::Advice),
        count(Status::Stop)
    );
    if let Some(instrument) = measured {
        out += &format!("\n{}\n", instrument::as_text(instrument));
    }
    out
}
