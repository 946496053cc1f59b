//! The program on one screen: [`execute`] takes a plan and leaves a sealed record.
//!
//! A block is one copy of a loaded dataset in which each of its cells is measured once, each trial in a process of its
//! own. What is sealed is never done again, so executing a plan twice, or after a kill, only does what is missing.

use crate::cmd::doctor::{facts_json, host_json};
use crate::exit_code;
use crate::failure::Failure;
use crate::instrument;
use crate::job::run::{JobEnd, run as run_job};
use crate::job::{EngineOrder, LoadOrder, Order, Report, TrialOrder, Work};
use crate::progress::Progress;
use crate::stored::factors;
use crate::workspace::Workspace;
use dbdyno_host::device_profile::{Budget, DeviceProfile};
use dbdyno_host::facts::HostFacts;
use dbdyno_load::instrument::{Effort, Instrument};
use dbdyno_plan::{Fate, Plan, PlannedBlock, PlannedTrial, Value as PlanValue, estimate};
use dbdyno_record::{Run, RunWriter, TrialEnd, TrialRecord, utc_text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What `run` spends on measuring the instrument: nine rounds of 60 ms, and half a second of timers.
const EFFORT_ROUND_NS: u64 = 60_000_000;
/// A trial that takes this much longer than its own time hangs.
const TRIAL_GRACE: Duration = Duration::from_secs(120);
/// A load that has no end after this time hangs: 400 million rows at 2,000 a second.
const LOAD_LIMIT: Duration = Duration::from_secs(200_000);

/// Measures everything of the plan that is not sealed yet, and seals the run.
///
/// # Errors
/// If the run cannot go on: a dataset cannot be loaded or copied, the record cannot be written, the disk is full. A
/// trial that fails otherwise is no error: it is recorded as Failed.
pub fn execute(
    plan: &Plan,
    results: &Path,
    writer: RunWriter,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let mut stand = Stand::set_up(plan, results, writer, progress)?;
    stand.seal_what_is_not_run()?;
    for block in stand.unfinished_blocks() {
        let template = stand.load(block)?;
        let data = stand.workspace.copy_for_block(&template)?;
        for trial in stand.unsealed_trials(block) {
            let record = stand.measure(trial, &data)?;
            stand.writer.seal_trial(&record)?;
        }
    }
    stand.finish()
}

/// What a run has in hand while it goes on.
struct Stand<'a> {
    plan: &'a Plan,
    results: &'a Path,
    writer: RunWriter,
    workspace: Workspace,
    progress: &'a mut Progress,
    instrument: Instrument,
    /// The last restart number given out; they go on after a resume.
    restart: u32,
}

impl<'a> Stand<'a> {
    /// Notes host and instrument in the record and makes the workspace.
    fn set_up(
        plan: &'a Plan,
        results: &'a Path,
        mut writer: RunWriter,
        progress: &'a mut Progress,
    ) -> Result<Self, Failure> {
        let run = Run::open(writer.path())?;
        let workspace = Workspace::create(results, &run.header.run)?;
        let restart = run.trials.iter().map(|trial| trial.restart).max().unwrap_or(0);
        progress.step("host facts and instrument");
        add(&mut writer, "host", &host_json(&HostFacts::read(results)))?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let effort = Effort { rounds: 9, round_ns: EFFORT_ROUND_NS, cores };
        let instrument = instrument::measure(effort)?;
        add(&mut writer, "instrument", &instrument::as_json(&instrument))?;
        progress.advance(plan.expected_seconds(estimate::INSTRUMENT));
        let mut stand = Stand { plan, results, writer, workspace, progress, instrument, restart };
        stand.profile_device("device_profile_before")?;
        Ok(stand)
    }

    fn profile_device(&mut self, name: &str) -> Result<(), Failure> {
        if self.plan.device_profile {
            self.progress.step("device profile");
            let profile = DeviceProfile::measure(self.results, Budget::default());
            add(&mut self.writer, name, &facts_json(profile.rows()))?;
            // One of two: before and after.
            self.progress.advance(self.plan.expected_seconds(estimate::DEVICE_PROFILE) / 2.0);
        }
        Ok(())
    }

    /// Trials that the plan leaves out are part of the record like any other.
    fn seal_what_is_not_run(&mut self) -> Result<(), Failure> {
        for trial in &self.plan.trials {
            let end = match &trial.fate {
                Fate::Run => continue,
                Fate::NotRun(reason) => TrialEnd::NotRun { reason: reason.clone() },
                Fate::Unsupported(reason) => TrialEnd::Unsupported { reason: reason.clone() },
            };
            if !self.writer.sealed().contains(&trial.trial) {
                self.writer.seal_trial(&self.record(trial, end))?;
            }
        }
        Ok(())
    }

    fn unsealed_trials(&self, block: &PlannedBlock) -> Vec<&'a PlannedTrial> {
        let of_block = self.plan.trials_to_run().filter(|trial| trial.block == block.block);
        of_block.filter(|trial| !self.writer.sealed().contains(&trial.trial)).collect()
    }

    fn unfinished_blocks(&self) -> Vec<&'a PlannedBlock> {
        let blocks = self.plan.blocks.iter();
        blocks.filter(|block| !self.unsealed_trials(block).is_empty()).collect()
    }

    /// Completes the template of a block's dataset, or finds it complete, and returns its data directory.
    fn load(&mut self, block: &PlannedBlock) -> Result<PathBuf, Failure> {
        let trials = self.unsealed_trials(block);
        let Some(first) = trials.first() else {
            return Err(Failure::other("a block without trials was to be loaded"));
        };
        let template = self.results.join("cache").join("datasets").join(&block.dataset);
        let data = template.join("data");
        let load = LoadOrder { template, fingerprint: block.dataset.clone() };
        let settings = self.plan.dataset(&block.dataset).map(|dataset| &dataset.engine_settings);
        let settings = settings.unwrap_or(&first.engine_settings);
        let order = self.order(first, settings, &data, Work::Load(load));
        let label = format!("block {}: {} dataset", block.block, block.engine);
        self.progress.step(&label);
        let progress = &self.progress;
        let end = run_job(&order, LOAD_LIMIT, &mut |report| {
            if let Report::Loading { done, total } = report {
                progress
                    .live(&format!("{label} {:.0}%", done as f64 / total.max(1) as f64 * 100.0));
            }
        })?;
        let loads = self.plan.datasets.len().max(1) as f64;
        let (code, reason) = match end {
            JobEnd::Reported(Report::Loaded { reused: true }) => return Ok(data),
            JobEnd::Reported(Report::Loaded { reused: false }) => {
                self.progress.advance(self.plan.expected_seconds(estimate::LOADING) / loads);
                return Ok(data);
            }
            JobEnd::Reported(Report::Failed { reason, code, .. }) => (code, reason),
            JobEnd::Reported(_) => (exit_code::ERROR, "it ended without saying how".to_owned()),
            JobEnd::Died(how) => (exit_code::ERROR, how),
        };
        let message = format!("{}: the dataset cannot be loaded: {reason}", block.engine);
        Err(Failure::new(code, message))
    }

    /// Measures one trial in a process of its own.
    fn measure(&mut self, trial: &PlannedTrial, data: &Path) -> Result<TrialRecord, Failure> {
        let started = (SystemTime::now(), std::time::Instant::now());
        self.writer.discard_detail(trial.trial)?;
        // Each trial opens the engine library anew, so each is a restart.
        self.restart += 1;
        let planned_s = trial.load.warmup_s + trial.load.measured_s;
        let work = TrialOrder {
            run_directory: self.writer.path().to_owned(),
            record: TrialRecord {
                restart: self.restart,
                ..self.record(trial, TrialEnd::Failed { reason: "not measured yet".to_owned() })
            },
            load: trial.load.clone(),
            clock_read_ns: self.instrument.clock_read_ns,
            null_driver_ns: self.instrument.null_driver_ns_median(),
        };
        let record = work.record.clone();
        let order = self.order(trial, &trial.engine_settings, data, Work::Trial(Box::new(work)));
        let label =
            format!("trial {}/{} {}", trial.trial, self.plan.trials_to_run().count(), trial.cell);
        self.progress.step(&label);
        let progress = &self.progress;
        let limit = Duration::from_secs_f64(planned_s * 2.0) + TRIAL_GRACE;
        let end = run_job(&order, limit, &mut |report| {
            if let Report::Rate(rate) = report {
                progress.live(&format!("{label}  {rate:.0}/s"));
            }
        })?;
        self.progress.advance(planned_s + estimate::TRIAL_OVERHEAD_S);
        let (engine_version, reason) = match end {
            JobEnd::Reported(Report::Trial(record)) => return Ok(*record),
            JobEnd::Reported(Report::Failed { reason, code: exit_code::CANNOT_WRITE, .. }) => {
                // The disk's failure and not the engine's: no trial would fare better, and this one is for --resume.
                self.writer.discard_detail(trial.trial)?;
                let message = format!("trial {}: {reason}", trial.trial);
                return Err(Failure::new(exit_code::CANNOT_WRITE, message));
            }
            JobEnd::Reported(Report::Failed { engine_version, reason, .. }) => {
                (engine_version, reason)
            }
            JobEnd::Reported(_) => (String::new(), "it ended without saying how".to_owned()),
            JobEnd::Died(how) => (String::new(), how),
        };
        self.progress.note(&format!("{label} failed: {reason}"));
        self.writer.discard_detail(trial.trial)?;
        Ok(TrialRecord {
            engine_version,
            started_utc: utc_text(started.0),
            duration_s: started.1.elapsed().as_secs_f64(),
            end: TrialEnd::Failed { reason },
            ..record
        })
    }

    fn order(
        &self,
        trial: &PlannedTrial,
        engine_settings: &BTreeMap<String, PlanValue>,
        data: &Path,
        work: Work,
    ) -> Order {
        let engine = self.plan.engine(&trial.engine);
        let name = |of: fn(&dbdyno_plan::PlannedEngine) -> &String| {
            engine.map(of).cloned().unwrap_or_default()
        };
        Order {
            parent: std::process::id(),
            engine: EngineOrder {
                name: name(|engine| &engine.name),
                driver: name(|engine| &engine.driver),
                data_directory: data.to_owned(),
                settings: engine_settings.clone(),
                log_syncs: self.plan.promise(trial).map(|promise| promise.log_syncs),
            },
            workload: trial.settings.clone(),
            dataset_seed: self.plan.seed,
            stream_seed: trial.seed,
            work,
        }
    }

    /// A record of a trial as far as the plan knows it.
    fn record(&self, trial: &PlannedTrial, end: TrialEnd) -> TrialRecord {
        TrialRecord {
            trial: trial.trial,
            cell: trial.cell.clone(),
            engine: trial.engine.clone(),
            engine_version: String::new(),
            configuration: trial.configuration.clone(),
            workload: self.plan.workload.name.clone(),
            workload_version: self.plan.workload.version,
            block: trial.block,
            restart: 0,
            factors: factors(trial),
            started_utc: utc_text(SystemTime::now()),
            duration_s: 0.0,
            end,
            observations: Vec::new(),
            warnings: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.profile_device("device_profile_after")?;
        Ok(self.writer.finish(&utc_text(SystemTime::now()))?)
    }
}

/// Adds a JSON file to the record; after a resume the host may be another one, so names are counted on.
fn add(writer: &mut RunWriter, name: &str, value: &Value) -> Result<(), Failure> {
    let names = std::iter::once(format!("{name}.json"))
        .chain((2..).map(|number| format!("{name}-{number}.json")));
    // A file that a kill left without its line is no part of the record, and is written again.
    let free = names.into_iter().find(|name| !writer.files().contains_key(name));
    let text = serde_json::to_vec_pretty(value).map_err(Failure::json)?;
    Ok(writer.add_file(&free.unwrap_or_default(), &text)?)
}
