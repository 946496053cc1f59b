//! `dbdyno plan`: what a run would do, how long it takes and what it needs.

use crate::catalogue;
use crate::cli::PlanArgs;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::view::text::{align, bytes, duration};
use dbdyno_plan::{Fate, Plan};
use std::collections::BTreeMap;

/// Runs the command.
pub fn run(args: &PlanArgs) -> Result<u8, Failure> {
    let plan = catalogue::plan(&args.question)?;
    output::print(&if args.json { plan.to_json() } else { as_text(&plan) })?;
    Ok(exit_code::DONE)
}

fn as_text(plan: &Plan) -> String {
    let mut out = format!("{}: {}\n", plan.experiment, plan.question);
    let mut rows = vec![
        pair("scale", plan.scale.clone()),
        pair("workload", format!("{} version {}", plan.workload.name, plan.workload.version)),
        pair("seed", plan.seed.to_string()),
    ];
    for engine in &plan.engines {
        rows.push(pair("engine", format!("{}: {}", engine.label, engine.about)));
        for (durability, promise) in &engine.promises {
            rows.push(pair("", format!("{}: {}", durability.name(), promise.about)));
        }
    }
    for factor in &plan.factors {
        let values: Vec<String> =
            factor.values.iter().map(|value| value.0.clone().to_string()).collect();
        rows.push(pair("vary", format!("{} = {}", factor.key, values.join(", "))));
    }
    for dataset in &plan.datasets {
        let aged = dataset.aging_updates;
        rows.push(pair(
            "dataset",
            format!(
                "{}: {} rows, {}, aged by {aged} updates",
                dataset.engine,
                dataset.rows,
                bytes(dataset.bytes as f64)
            ),
        ));
    }
    // Steps differ between cells in their numbers at most; the first cell's stand for all.
    for step in plan.trials.first().map_or(&[][..], |trial| &trial.steps) {
        rows.push(pair("step", step.to_string()));
    }
    let running = plan.trials_to_run().count();
    rows.push(pair(
        "trials",
        format!("{running} in {} blocks, each cell {} times", plan.blocks.len(), plan.repeats),
    ));
    out += &align(&rows, 2);
    out += &left_out(plan);
    out += &format!(
        "expected: {}, {} of disk, {} to download\n",
        duration(plan.expected.seconds),
        bytes(plan.expected.disk_bytes as f64),
        bytes(plan.expected.download_bytes as f64)
    );
    for part in &plan.expected.parts {
        out += &format!(
            "  {:<20} {:>12}  {}\n",
            part.what,
            duration(part.seconds),
            bytes(part.disk_bytes as f64)
        );
    }
    out
}

fn pair(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

/// What is not run, by reason.
fn left_out(plan: &Plan) -> String {
    let mut reasons: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for trial in &plan.trials {
        match &trial.fate {
            Fate::Run => {}
            Fate::NotRun(reason) => *reasons.entry(("not run", reason)).or_default() += 1,
            Fate::Unsupported(reason) => *reasons.entry(("unsupported", reason)).or_default() += 1,
        }
    }
    reasons
        .iter()
        .map(|((end, reason), count)| format!("{end}: {reason} ({count} cells)\n"))
        .collect()
}
