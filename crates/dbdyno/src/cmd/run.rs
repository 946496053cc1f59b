//! `dbdyno run`: measures an experiment, or goes on with a run that was stopped, and prints the result.

use super::show;
use crate::catalogue;
use crate::cli::RunArgs;
use crate::exit_code;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::pipeline::{self, Means};
use crate::progress::Progress;
use crate::stored::{self, Stored};
use crate::view::text::{bytes, duration};
use dbdyno_host::cgroup::Limit;
use dbdyno_host::facts::HostFacts;
use dbdyno_plan::Plan;
use dbdyno_record::{NewRun, Run, RunWriter, TrialEnd, find_run, new_run_id, utc_text};
use std::path::Path;
use std::time::SystemTime;

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    interrupt::listen()?;
    let (plan, writer) = match &args.resume {
        None => begin(args)?,
        Some(name) => match resume(args, name)? {
            Resumed::GoesOn(plan, writer) => (*plan, writer),
            Resumed::WasFinished(stored) => {
                eprintln!("run {} is finished and sealed: nothing to do", stored.run.header.run);
                return Ok(exit_code::DONE);
            }
        },
    };
    let shown = writer.path().to_owned();
    // Servers run elsewhere in the tree of directories than this process.
    let path = std::path::absolute(&shown).map_err(crate::workspace::cannot("find", &shown))?;
    // A run that was given by its path need not lie where --results says; its data goes where it lies.
    let results = path.parent().unwrap_or(&args.results.directory);
    let mut progress = Progress::new(args.quiet, plan.expected.seconds);
    let cache = args.cache.directory()?;
    let means = Means {
        results,
        cache: &cache,
        offline: args.offline,
        keep_data: args.keep_data,
        drop: args.drop,
    };
    let done = pipeline::execute(&plan, &means, writer, &mut progress);
    progress.finish();
    if done.is_err() {
        let id = path.file_name().unwrap_or_default().to_string_lossy();
        eprintln!("what was measured is kept; `dbdyno run --resume {id}` goes on");
    }
    done?;
    let stored = stored::open(results, &path.to_string_lossy())?;
    let code = code_of(&stored.run);
    output::print(&format!("{}\nrecord: {}\n", show::result(stored), shown.display()))?;
    Ok(code)
}

fn begin(args: &RunArgs) -> Result<(Plan, RunWriter), Failure> {
    let plan = catalogue::plan(&args.question)?;
    let results = &args.results.directory;
    std::fs::create_dir_all(results).map_err(crate::workspace::cannot("make", results))?;
    enough_room(&plan, results)?;
    let now = SystemTime::now();
    // Two runs that begin in the same second differ by their process.
    let suffix = (std::process::id() & 0xffff) as u16;
    let id = new_run_id(now, &plan.experiment, suffix);
    let started_utc = utc_text(now);
    let json = plan.to_json();
    let new = NewRun { run: &id, plan: json.as_bytes(), started_utc: &started_utc };
    let writer = RunWriter::create(results, &new)?;
    if !args.quiet {
        let (trials, expected) = (plan.trials_to_run().count(), duration(plan.expected.seconds));
        eprintln!("run {id}: {trials} trials, about {expected}");
    }
    Ok((plan, writer))
}

/// A run that will not fit is refused before it begins.
fn enough_room(plan: &Plan, results: &Path) -> Result<(), Failure> {
    let facts = HostFacts::read(results);
    enough_memory(plan, &facts)?;
    let needed = plan.expected.disk_bytes;
    match facts.disk_free_bytes {
        Some(free) if free < needed => Err(Failure::new(
            exit_code::CANNOT_WRITE,
            format!(
                "{} has {} free and this run needs about {}: use a smaller --scale or --set rows=N, or --results DIR on another disk",
                results.display(),
                bytes(free as f64),
                bytes(needed as f64)
            ),
        )),
        _ => Ok(()),
    }
}

/// A cache larger than the memory that this process may have would be paged out, or end the engine.
fn enough_memory(plan: &Plan, facts: &HostFacts) -> Result<(), Failure> {
    let of_group = match facts.cgroup_memory_limit_bytes {
        Some(Limit::At(limit)) => Some(limit),
        _ => None,
    };
    let (wanted, has) = (plan.expected.cache_bytes, facts.memory_bytes.into_iter().chain(of_group));
    match has.min() {
        Some(has) if wanted > has => Err(Failure::new(
            exit_code::HOST_UNFIT,
            format!(
                "an engine's cache is to have {}, and this process may have {} of memory: use a smaller --set cache_mb=N, or raise the limit of its control group",
                bytes(wanted as f64),
                bytes(has as f64)
            ),
        )),
        _ => Ok(()),
    }
}

enum Resumed {
    GoesOn(Box<Plan>, RunWriter),
    WasFinished(Box<Stored>),
}

fn resume(args: &RunArgs, name: &str) -> Result<Resumed, Failure> {
    let question = &args.question;
    if !question.engine.is_empty()
        || question.scale.is_some()
        || question.quick
        || !question.set.is_empty()
    {
        let message = "--resume goes on with the run's own plan: leave out --engine, --scale, --quick and --set";
        return Err(Failure::new(exit_code::WRONG_INPUT, message));
    }
    let path = find_run(&args.results.directory, name)?;
    let run = Run::open(&path)?;
    let plan = stored::plan_of(&run)?;
    if let Some(name) = &question.experiment {
        let asked = match catalogue::is_path(name) {
            true => catalogue::plan(question)?.experiment,
            false => name.clone(),
        };
        if asked != plan.experiment {
            let message = format!(
                "run {} is of experiment {}, not {asked}: leave out the experiment",
                run.header.run, plan.experiment
            );
            return Err(Failure::new(exit_code::WRONG_INPUT, message));
        }
    }
    if run.is_sealed() {
        return Ok(Resumed::WasFinished(Box::new(Stored { run, plan })));
    }
    let (writer, dropped) = RunWriter::resume(&path)?;
    for one in &dropped {
        eprintln!("{}: {one}", run.header.run);
    }
    Ok(Resumed::GoesOn(Box::new(plan), writer))
}

/// Invalid is worse than Failed: a number that looks like a result and is none.
fn code_of(run: &Run) -> u8 {
    let any = |is: fn(&TrialEnd) -> bool| run.trials.iter().any(|trial| is(&trial.end));
    if any(|end| matches!(end, TrialEnd::Invalid { .. })) {
        exit_code::TRIAL_INVALID
    } else if any(|end| matches!(end, TrialEnd::Failed { .. })) {
        exit_code::TRIAL_FAILED
    } else {
        exit_code::DONE
    }
}
