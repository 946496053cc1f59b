//! The program on one screen: [`execute`] takes a plan and leaves a sealed record.
//!
//! A block is one copy of a loaded dataset in which each of its cells is measured once, each trial in a process of its
//! own. What is sealed is never done again, so executing a plan twice, or after a kill, only does what is missing.

use crate::block::{Block, Parts};
use crate::cmd::doctor::{facts_json, host_json};
use crate::engines::{Engines, StartOrder};
use crate::exit_code;
use crate::failure::Failure;
use crate::instrument;
use crate::interrupt;
use crate::job::load_cost::LoadCost;
use crate::job::run::{JobEnd, Watch, run as run_job};
use crate::job::{EngineOrder, LoadOrder, Order, Report, TrialOrder, Work};
use crate::load_watch::LoadWatch;
use crate::progress::Progress;
use crate::stored::factors;
use crate::template::{self, Template};
use crate::workspace::{Workspace, force_to_disk};
use dbdyno_host::device_profile::{Budget, DeviceProfile};
use dbdyno_host::facts::HostFacts;
use dbdyno_load::instrument::{Effort, Instrument};
use dbdyno_plan::{
    Fate, Plan, PlannedBlock, PlannedEngine, PlannedStep, PlannedTrial, Value as PlanValue,
    estimate,
};
use dbdyno_record::{Run, RunWriter, TrialEnd, TrialRecord, utc_text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// What `run` spends on measuring the instrument: nine rounds of 60 ms, and half a second of timers.
const EFFORT_ROUND_NS: u64 = 60_000_000;
/// A trial that takes this much longer than its own time hangs.
const TRIAL_GRACE: Duration = Duration::from_secs(120);
/// A load that has no end after this time never has one, though rows still come: 400 million rows at 2,000 a second.
const LOAD_LIMIT: Duration = Duration::from_secs(200_000);

/// What a run is done with, besides its plan.
pub struct Means<'a> {
    /// Where runs, templates and copies lie.
    pub results: &'a Path,
    /// Where installed engines lie.
    pub cache: &'a Path,
    /// Nothing is downloaded.
    pub offline: bool,
    /// Data directories of servers that failed in a trial are kept.
    pub keep_data: bool,
    /// The database is dropped at the end on servers that the user named.
    pub drop: bool,
}

/// Measures everything of the plan that is not sealed yet, and seals the run.
///
/// # Errors
/// If the run cannot go on: a dataset cannot be loaded or copied, the record cannot be written, the disk is full. A
/// trial that fails otherwise is no error: it is recorded as Failed.
pub fn execute(
    plan: &Plan,
    means: &Means<'_>,
    writer: RunWriter,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let engines = provision(plan, means, progress)?;
    let mut stand = Stand::set_up(plan, means, &engines, writer, progress)?;
    stand.seal_what_is_not_run()?;
    for planned in stand.unfinished_blocks() {
        let (template, cost) = stand.load(planned)?;
        let workspace = stand.workspace.clone();
        let mut block = stand.block(planned, &workspace, template)?;
        for trial in stand.unsealed_trials(planned) {
            let record = stand.measure(trial, &mut block, cost.as_ref())?;
            stand.writer.seal_trial(&record)?;
        }
        block.stop()?;
    }
    if means.drop {
        engines.drop_named_databases(plan)?;
    }
    stand.finish()
}

/// Installs engines before anything is measured, and removes what a killed dbdyno left running.
fn provision(plan: &Plan, means: &Means<'_>, progress: &mut Progress) -> Result<Engines, Failure> {
    if plan.engines.iter().all(|engine| engine.packages().is_empty()) {
        return Ok(Engines::default());
    }
    Engines::prepare_process()?.iter().for_each(|left| progress.note(left));
    progress.step("engines");
    Engines::install(plan, means.cache, means.offline)
}

/// What a run has in hand while it goes on.
struct Stand<'a> {
    plan: &'a Plan,
    means: &'a Means<'a>,
    engines: &'a Engines,
    writer: RunWriter,
    workspace: Rc<Workspace>,
    progress: &'a mut Progress,
    instrument: Instrument,
    /// The last restart number given out; they go on after a resume.
    restart: u32,
}

/// A job that is followed: its progress goes to the screen, and it is ended early for a reason.
struct Follow<'f, 'b> {
    progress: &'f Progress,
    label: &'f str,
    block: Option<&'f mut Block<'b>>,
    server_ended: Option<String>,
    load: Option<LoadWatch>,
}

impl Watch for Follow<'_, '_> {
    fn progress(&mut self, report: Report) {
        let label = self.label;
        match report {
            Report::Rate(rate) => self.progress.live(&format!("{label}  {rate:.0}/s")),
            Report::Loading { done, total } => {
                if let Some(load) = &mut self.load {
                    load.progress(done, total, Instant::now());
                }
                let percent = done as f64 / total.max(1) as f64 * 100.0;
                self.progress.live(&format!("{label} {percent:.0}%"));
            }
            _ => {}
        }
    }

    fn reason_to_end(&mut self) -> Option<String> {
        if interrupt::has_come() {
            return Some("stopped by a signal".to_owned());
        }
        if let Some(reason) = self.load.as_ref().and_then(|load| load.reason_to_end(Instant::now()))
        {
            return Some(reason);
        }
        let ended = self.block.as_mut()?.ended()?;
        let reason = format!("the server ended: {ended}");
        self.server_ended = Some(reason.clone());
        Some(reason)
    }
}

impl<'a> Stand<'a> {
    /// Notes host and instrument in the record and makes the workspace.
    fn set_up(
        plan: &'a Plan,
        means: &'a Means<'a>,
        engines: &'a Engines,
        mut writer: RunWriter,
        progress: &'a mut Progress,
    ) -> Result<Self, Failure> {
        let run = Run::open(writer.path())?;
        let workspace = Rc::new(Workspace::create(means.results, &run.header.run)?);
        let restart = run.trials.iter().map(|trial| trial.restart).max().unwrap_or(0);
        progress.step("host facts and instrument");
        add(&mut writer, "host", &host_json(&HostFacts::read(means.results)))?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let effort = Effort { rounds: 9, round_ns: EFFORT_ROUND_NS, cores };
        let instrument = instrument::measure(effort)?;
        add(&mut writer, "instrument", &instrument::as_json(&instrument))?;
        progress.advance(plan.expected_seconds(estimate::INSTRUMENT));
        let mut stand =
            Stand { plan, means, engines, writer, workspace, progress, instrument, restart };
        stand.profile_device("device_profile_before")?;
        Ok(stand)
    }

    fn profile_device(&mut self, name: &str) -> Result<(), Failure> {
        if self.plan.device_profile {
            self.progress.step("device profile");
            let profile = DeviceProfile::measure(self.means.results, Budget::default());
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

    fn planned_engine(&self, label: &str) -> Result<&'a PlannedEngine, Failure> {
        let missing = || Failure::other(format!("the plan has no engine {label}"));
        self.plan.engine(label).ok_or_else(missing)
    }

    /// Completes the template of a block's dataset, or finds it complete, and returns its data directory; and what that
    /// cost, if the plan has every block loaded anew to measure it.
    fn load(&mut self, block: &PlannedBlock) -> Result<(PathBuf, Option<LoadCost>), Failure> {
        let trials = self.unsealed_trials(block);
        let Some(first) = trials.first() else {
            return Err(Failure::other("a block without trials was to be loaded"));
        };
        let every_block = self.plan.loads_every_block;
        let directory = match every_block {
            true => self.workspace.empty_template()?,
            false => self.means.results.join("cache").join("datasets").join(&block.dataset),
        };
        let engine = self.planned_engine(&block.engine)?;
        let settings = self.plan.dataset(&block.dataset).map(|dataset| &dataset.engine_settings);
        let settings = settings.unwrap_or(&first.engine_settings);
        let label = format!("block {}: {} dataset", block.block, block.engine);
        self.progress.step(&label);
        let data = directory.join("data");
        let load = LoadOrder { template: directory, fingerprint: block.dataset.clone() };
        let order = self.order(first, settings, &data, Work::Load(load.clone()));
        let failed = |failure: Failure| {
            if failure.code == exit_code::INTERRUPTED {
                return failure;
            }
            let message = format!("{}: the dataset cannot be loaded: {failure}", block.engine);
            Failure::new(failure.code, message)
        };
        let cost = match &engine.server {
            None => self.run_load(&order, &label),
            Some(recipe) if recipe.running_url().is_some() => {
                let directory = self.workspace.server_directory();
                let start =
                    StartOrder { engine, settings, directory: &directory, with_port: false };
                self.engines.start(&start).and_then(|started| {
                    let server = Some(started.order.clone());
                    let engine = EngineOrder { server, ..order.engine.clone() };
                    self.run_load(&Order { engine, ..order.clone() }, &label)
                })
            }
            Some(_) => self.load_server(&order, &load, &label, settings),
        };
        let cost = cost.map_err(failed)?;
        if cost.is_some() {
            let plan = self.plan;
            let loads = if every_block { plan.blocks.len() } else { plan.datasets.len() };
            self.progress.advance(plan.expected_seconds(estimate::LOADING) / loads.max(1) as f64);
        }
        Ok((data, cost.filter(|_| every_block)))
    }

    /// Completes a template by a server that runs on it.
    fn load_server(
        &self,
        order: &Order,
        load: &LoadOrder,
        label: &str,
        settings: &BTreeMap<String, PlanValue>,
    ) -> Result<Option<LoadCost>, Failure> {
        let engine = self.planned_engine(&order.engine.label)?;
        let version = self.engines.installed_from(engine);
        let template = Template::open(&load.template, &load.fingerprint, &version)?;
        let data = &order.engine.data_directory;
        let start = StartOrder { engine, settings, directory: &load.template, with_port: false };
        match template.begin(data)? {
            template::State::Complete => return Ok(None),
            template::State::Begun => {}
            template::State::Empty => self.engines.init(&start)?,
        }
        let started = self.engines.start(&start)?;
        template.begun()?;
        let engine = EngineOrder { server: Some(started.order.clone()), ..order.engine.clone() };
        let done = self.run_load(&Order { engine, ..order.clone() }, label);
        // A clean stop also after a failure: what was loaded is used by the next attempt.
        started.stop()?;
        let cost = done?;
        force_to_disk(&load.template)?;
        template.complete()?;
        Ok(cost)
    }

    fn run_load(&self, order: &Order, label: &str) -> Result<Option<LoadCost>, Failure> {
        let patience = Duration::from_secs(self.plan.load_patience_s);
        let mut follow = Follow {
            progress: self.progress,
            label,
            block: None,
            server_ended: None,
            load: Some(LoadWatch::new(patience)),
        };
        let end = run_job(order, LOAD_LIMIT, &mut follow)?;
        interrupt::check()?;
        match end {
            JobEnd::Reported(Report::Loaded { cost }) => Ok(cost),
            JobEnd::Reported(Report::Failed { reason, code, .. }) => {
                Err(Failure::new(code, reason))
            }
            JobEnd::Reported(_) => Err(Failure::other("it ended without saying how")),
            JobEnd::Died(how) => Err(Failure::other(how)),
        }
    }

    /// How long the steps that settle a server before a trial may take.
    fn settling(&self, trial: &PlannedTrial) -> Duration {
        let server = self.plan.engine(&trial.engine).and_then(|engine| engine.server.as_ref());
        let steps = server.into_iter().flat_map(|recipe| &recipe.settle);
        Duration::from_secs(steps.map(|step| step.limit_s).sum())
    }

    /// The engine of a block, of which nothing is copied or started yet.
    fn block<'b>(
        &self,
        planned: &PlannedBlock,
        workspace: &'b Workspace,
        template_data: PathBuf,
    ) -> Result<Block<'b>, Failure>
    where
        'a: 'b,
    {
        let trials = self.unsealed_trials(planned);
        let Some(first) = trials.first() else {
            return Err(Failure::other("a block without trials was to be measured"));
        };
        Ok(Block::new(Parts {
            engines: self.engines,
            workspace,
            engine: self.planned_engine(&planned.engine)?,
            settings: &first.engine_settings,
            template_data,
            with_port: trials.iter().any(|trial| trial.load.client.transport == "tcp"),
        }))
    }

    /// Measures one trial in a process of its own.
    fn measure(
        &mut self,
        trial: &PlannedTrial,
        block: &mut Block<'_>,
        load_cost: Option<&LoadCost>,
    ) -> Result<TrialRecord, Failure> {
        interrupt::check()?;
        let started = (SystemTime::now(), Instant::now());
        self.writer.discard_detail(trial.trial)?;
        let label =
            format!("trial {}/{} {}", trial.trial, self.plan.trials_to_run().count(), trial.cell);
        self.progress.step(&label);
        let failed = |reason: String, engine_version: String, record: TrialRecord| TrialRecord {
            engine_version,
            started_utc: utc_text(started.0),
            duration_s: started.1.elapsed().as_secs_f64(),
            end: TrialEnd::Failed { reason },
            ..record
        };
        let unmeasured =
            self.record(trial, TrialEnd::Failed { reason: "not measured yet".to_owned() });
        let ready = match block.ready() {
            Ok(ready) => ready,
            Err(failure) if failure.code == exit_code::NO_SERVER => {
                self.progress.note(&format!("{label} failed: {failure}"));
                return Ok(failed(failure.message, String::new(), unmeasured));
            }
            Err(failure) => return Err(failure),
        };
        self.restart += u32::from(ready.is_fresh);
        let record = TrialRecord { restart: self.restart, ..unmeasured };
        let expected_s = self.expected_s(trial);
        let work = TrialOrder {
            run_directory: self.writer.path().to_owned(),
            record: record.clone(),
            load: trial.load.clone(),
            steps: trial.steps.clone(),
            clock_read_ns: self.instrument.clock_read_ns,
            null_driver_ns: self.instrument.null_driver_ns_median(),
            load_cost: load_cost.cloned(),
        };
        let work = Work::Trial(Box::new(work));
        let order = self.order(trial, &trial.engine_settings, &ready.data, work);
        let order = Order { engine: EngineOrder { server: ready.server, ..order.engine }, ..order };
        let limit =
            Duration::from_secs_f64(longest_s(trial) * 2.0) + TRIAL_GRACE + self.settling(trial);
        let mut follow = Follow {
            progress: self.progress,
            label: &label,
            block: Some(block),
            server_ended: None,
            load: None,
        };
        let end = run_job(&order, limit, &mut follow)?;
        let server_ended = follow.server_ended.or_else(|| block.ended());
        self.progress.advance(expected_s + estimate::TRIAL_OVERHEAD_S);
        if interrupt::has_come() {
            self.writer.discard_detail(trial.trial)?;
        }
        interrupt::check()?;
        let (engine_version, reason) = match (end, server_ended) {
            (_, Some(reason)) => (String::new(), reason),
            (JobEnd::Reported(Report::Trial(record)), None) => return Ok(*record),
            (JobEnd::Reported(Report::Failed { reason, code, .. }), None)
                if code == exit_code::CANNOT_WRITE =>
            {
                // The disk's failure and not the engine's: no trial would fare better, and this one is for --resume.
                self.writer.discard_detail(trial.trial)?;
                let message = format!("trial {}: {reason}", trial.trial);
                return Err(Failure::new(exit_code::CANNOT_WRITE, message));
            }
            (JobEnd::Reported(Report::Failed { engine_version, reason, .. }), None) => {
                (engine_version, reason)
            }
            (JobEnd::Reported(_), None) => {
                (String::new(), "it ended without saying how".to_owned())
            }
            (JobEnd::Died(how), None) => (String::new(), how),
        };
        self.progress.note(&format!("{label} failed: {reason}"));
        self.writer.discard_detail(trial.trial)?;
        if self.means.keep_data {
            let run = self.writer.path().file_name().unwrap_or_default().to_owned();
            let kept = self.means.results.join("kept").join(run);
            let kept = kept.join(format!("trial-{}", trial.trial));
            block.keep(&kept)?;
            self.progress.note(&format!("the data directory is kept in {}", kept.display()));
        }
        Ok(failed(reason, engine_version, record))
    }

    /// How long a trial is expected to measure; one with steps as long as the others.
    fn expected_s(&self, trial: &PlannedTrial) -> f64 {
        if trial.steps.is_empty() {
            return trial.load.warmup_s + trial.load.measured_s;
        }
        let trials = self.plan.trials_to_run().count().max(1);
        self.plan.expected_seconds(estimate::MEASURING) / trials as f64
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
                label: trial.engine.clone(),
                driver: name(|engine| &engine.driver),
                data_directory: data.to_owned(),
                settings: engine_settings.clone(),
                log_syncs: self.plan.promise(trial).map(|promise| promise.log_syncs),
                promised_settings: self
                    .plan
                    .promise(trial)
                    .map_or_else(BTreeMap::new, |promise| promise.settings.clone()),
                library: engine.and_then(|engine| self.engines.library(engine)),
                server: None,
            },
            workload_name: self.plan.workload.name.clone(),
            workload: trial.settings.clone(),
            clients: largest_role(trial),
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
            steps: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.profile_device("device_profile_after")?;
        Ok(self.writer.finish(&utc_text(SystemTime::now()))?)
    }
}

/// Clients of the role that has most, in any step.
fn largest_role(trial: &PlannedTrial) -> u16 {
    let largest = trial.steps.iter().map(PlannedStep::clients_of_largest_role).max();
    u16::try_from(largest.unwrap_or(trial.load.dop)).unwrap_or(u16::MAX)
}

/// How long a trial may measure: its own time, or that of its steps, of which those that rows end have a day.
fn longest_s(trial: &PlannedTrial) -> f64 {
    if trial.steps.is_empty() {
        return trial.load.warmup_s + trial.load.measured_s;
    }
    trial.steps.iter().map(|step| step.limit_s()).sum()
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
