//! The way from a request to a plan, on one screen: [`plan`]; what it calls works out cells, blocks and cost.
//!
//! A cell is one engine with one combination of factor values. The decisions are in `resolve`, `matching` and
//! `order`; here they are put together.

use std::collections::BTreeMap;

use dbdyno_workload::{DatasetFacts, Seed, Setting, Settings, WorkloadEntry};

use crate::catalogue::{Catalogue, ChosenEngine, choose_engine, find_named};
use crate::engine_file::{DurabilityMapping, EngineFile, EngineSetting};
use crate::estimate::{self, Work, expected};
use crate::experiment::{ExperimentFile, SCALES, Scale};
use crate::harness::CACHE_MB;
use crate::input_error::{InputError, Place};
use crate::matching::{Needs, unsupported};
use crate::nearest::suggestion;
use crate::order::{CellToOrder, OrderedBlock, SplitMix64, order_blocks};
use crate::plan::{
    Fate, PLAN_FORMAT, Plan, PlannedBlock, PlannedDataset, PlannedEngine, PlannedFactor,
    PlannedPromise, PlannedTrial, PlannedWorkload,
};
use crate::request::{ExperimentSource, PlanRequest, quick_entries, set_entries};
use crate::resolve::{Combination, Known, Resolved, resolve};
use crate::step::{PlannedStep, Step, read_steps};
use crate::value::Value;

/// Most trials of a plan; more is a slip of the pen.
pub const TRIALS_MAX: u64 = 100_000;

/// Plans what is asked for, or says what is wrong with it. The same inputs always give the same plan.
pub fn plan(catalogue: &Catalogue<'_>, request: &PlanRequest) -> Result<Plan, InputError> {
    let file = read_experiment(catalogue, &request.experiment)?;
    let workload = find_named(
        "workload",
        &file.workload.0,
        catalogue.workloads,
        |workload| workload.name,
        file.workload.1.clone(),
    )?;
    let engines = read_engines(catalogue)?;
    let chosen = choose_engines(&engines, &file, &request.engines)?;
    let (scale_name, scale) = choose_scale(&file, request)?;
    let mut overrides = if request.quick { quick_entries() } else { vec![] };
    overrides.extend(set_entries(&request.set)?);
    let steps = read_steps(file.steps.as_ref(), workload, &Place::line(&file.file, 1))?;
    let known = Known { workload, engines: &engines, chosen: &chosen };
    let resolved = resolve(&known, &file, scale, overrides)?;
    check_size(&resolved, chosen.len(), &file)?;

    let cells = list_cells(&resolved, workload, &chosen, &steps)?;
    let (blocks, trials) = lay_out(&cells, &chosen, &resolved, &file);
    let (datasets, work) = list_work(&cells, &blocks, &trials, &chosen, &resolved);
    Ok(Plan {
        format: PLAN_FORMAT,
        experiment: file.name.clone(),
        question: file.question.clone(),
        document: file.document.clone(),
        scale: scale_name,
        seed: resolved.seed,
        workload: PlannedWorkload { name: workload.name.to_string(), version: workload.version },
        device_profile: resolved.device_profile,
        loads_every_block: resolved.loads_every_block,
        load_patience_s: resolved.load_patience_s,
        repeats: resolved.repeat,
        order: file.order,
        factors: resolved.factors.iter().map(planned_factor).collect(),
        engines: chosen
            .iter()
            .enumerate()
            .map(|(index, engine)| planned_engine(index, engine, &cells))
            .collect(),
        datasets,
        blocks,
        trials,
        expected: expected(&work),
    })
}

fn read_experiment(
    catalogue: &Catalogue<'_>,
    source: &ExperimentSource,
) -> Result<ExperimentFile, InputError> {
    match source {
        ExperimentSource::File { file, text } => ExperimentFile::parse(file, text),
        ExperimentSource::Shipped(name) => {
            let known = catalogue.experiments;
            let place = Place::argument(format!("experiment {name}"));
            let found = find_named("experiment", name, known, |known| known.name, place)?;
            ExperimentFile::parse(found.file, found.text)
        }
    }
}

/// Reads every engine file of the catalogue.
pub fn read_engines(catalogue: &Catalogue<'_>) -> Result<Vec<EngineFile>, InputError> {
    catalogue.engines.iter().map(|engine| EngineFile::parse(engine.file, engine.text)).collect()
}

fn choose_engines<'a>(
    engines: &'a [EngineFile],
    file: &ExperimentFile,
    asked: &[String],
) -> Result<Vec<ChosenEngine<'a>>, InputError> {
    let wanted: Vec<(String, Place)> = if !asked.is_empty() {
        let place = |name: &String| Place::argument(format!("--engine {name}"));
        asked.iter().map(|name| (name.clone(), place(name))).collect()
    } else if !file.engines.is_empty() {
        file.engines.clone()
    } else {
        let usual = engines.iter().filter(|engine| engine.default_for_experiments);
        usual.map(|engine| (engine.name.clone(), Place::line(&file.file, 1))).collect()
    };
    let mut chosen: Vec<ChosenEngine<'a>> = Vec::new();
    for (name, place) in wanted {
        let engine = choose_engine(&name, engines, &place)?;
        if chosen.contains(&engine) {
            let message = format!("engine {} is asked for twice; keep one", engine.label());
            return Err(InputError::about_key(place, "engine", message));
        }
        chosen.push(engine);
    }
    Ok(chosen)
}

/// Name of the scale and its table. A file without scales is planned as written.
fn choose_scale<'a>(
    file: &'a ExperimentFile,
    request: &PlanRequest,
) -> Result<(String, Option<&'a Scale>), InputError> {
    if request.quick {
        if let Some(name) = &request.scale {
            let message = format!("--quick and --scale {name} exclude each other; drop one");
            return Err(InputError::about_key(Place::argument("--quick"), "scale", message));
        }
        return Ok(("quick".to_string(), file.scale(SCALES[0])));
    }
    let Some(name) = &request.scale else {
        let scale = file.usual_scale();
        return Ok((scale.map_or("as-written".to_string(), |scale| scale.name.clone()), scale));
    };
    let scale = file.scale(name).ok_or_else(|| {
        if file.scales.is_empty() {
            let message = format!("{} has no scales; leave out --scale", file.file);
            let place = Place::argument(format!("--scale {name}"));
            return InputError::about_key(place, "scale", message);
        }
        let near = suggestion(name, file.scales.iter().map(|scale| scale.name.as_str()));
        let message = format!("{} has no scale \"{name}\"{near}", file.file);
        InputError::about_key(Place::argument(format!("--scale {name}")), "scale", message)
    })?;
    Ok((name.clone(), Some(scale)))
}

fn check_size(
    resolved: &Resolved,
    engines: usize,
    file: &ExperimentFile,
) -> Result<(), InputError> {
    let trials = resolved
        .combinations()
        .saturating_mul(engines as u64)
        .saturating_mul(u64::from(resolved.repeat));
    if trials <= TRIALS_MAX {
        return Ok(());
    }
    let message = format!(
        "the plan would have {trials} trials, more than {TRIALS_MAX}; vary fewer values or repeat less"
    );
    Err(InputError::about_place(Place::line(&file.file, 1), message))
}

/// One engine with one combination, and what becomes of it.
struct Cell {
    engine: usize,
    key: String,
    combination: Combination,
    steps: Vec<PlannedStep>,
    engine_settings: Settings,
    /// The same without what durability needs.
    load_settings: Settings,
    dataset: DatasetFacts,
    dataset_id: String,
    fate: Fate,
}

fn list_cells(
    resolved: &Resolved,
    workload: &WorkloadEntry,
    chosen: &[ChosenEngine<'_>],
    steps: &[Step],
) -> Result<Vec<Cell>, InputError> {
    let combinations: Vec<Combination> = (0..resolved.combinations())
        .map(|number| resolved.combination(number, workload))
        .collect::<Result<_, _>>()?;
    let mut cells = Vec::new();
    for (engine, choice) in chosen.iter().enumerate() {
        for combination in &combinations {
            let Combination { workload: settings, load, .. } = combination;
            let steps = steps.iter().map(|step| step.resolve(settings, load.dop));
            let steps = steps.collect::<Result<Vec<_>, _>>()?;
            cells.push(cell(engine, choice, combination.clone(), steps, workload, resolved.seed));
        }
    }
    Ok(cells)
}

fn cell(
    engine: usize,
    choice: &ChosenEngine<'_>,
    combination: Combination,
    steps: Vec<PlannedStep>,
    workload: &WorkloadEntry,
    seed: u64,
) -> Cell {
    let label = choice.label();
    let mut key = format!("engine={label}");
    for (name, value) in &combination.factors {
        key.push_str(&format!(" {name}={}", Value(value.clone())));
    }
    let Combination { load, workload: settings, engine: given, .. } = &combination;
    let needs = Needs { workload, load, settings: given };
    let not_run = (workload.not_run)(settings, load.dop).map(Fate::NotRun);
    let unsupported = || unsupported(&needs, choice.file).map(Fate::Unsupported);
    let fate = not_run.or_else(unsupported).unwrap_or(Fate::Run);
    let promise = match &choice.file.durability[&load.durability] {
        DurabilityMapping::Supported(promise) => promise.settings.clone(),
        DurabilityMapping::Unsupported(_) => Settings::new(),
    };
    let engine_settings = engine_settings(choice, &combination, promise);
    // A dataset is loaded the same way whatever the durability of its trials.
    let load_settings = self::engine_settings(choice, &combination, Settings::new());
    let largest = steps.iter().map(PlannedStep::clients_of_largest_role).max();
    let clients = u16::try_from(largest.unwrap_or(load.dop)).unwrap_or(u16::MAX);
    let dataset = (workload.dataset)(settings, Seed(seed), clients);
    let shaping: String = choice
        .file
        .settings
        .iter()
        .filter(|(_, setting)| setting.shapes_dataset)
        .map(|(name, _)| format!("-{name}={}", Value(engine_settings[name].clone())))
        .collect();
    let mut dataset_id = format!("{}-{}", choice.file.name, dataset.fingerprint);
    match choice.file.server.is_some() {
        // A server's socket lies below a directory of this name, and a socket's path has 107 bytes at most.
        true => dataset_id.push_str(&format!("-{:08x}", short_hash(&shaping))),
        false => dataset_id.push_str(&shaping),
    }
    Cell {
        engine,
        key,
        combination,
        steps,
        engine_settings,
        load_settings,
        dataset,
        dataset_id,
        fate,
    }
}

/// FNV-1a, 32 bits (draft-eastlake-fnv): the same text has the same number in every version of this program.
fn short_hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Defaults, then the configuration, then what durability needs, then what the experiment says, for this engine last.
fn engine_settings(
    choice: &ChosenEngine<'_>,
    combination: &Combination,
    durability: Settings,
) -> Settings {
    let file = choice.file;
    let default = |known: &EngineSetting| {
        let followed = known.follows.as_ref().and_then(|key| combination.harness.get(key));
        followed.unwrap_or(&known.default).clone()
    };
    let mut settings: Settings =
        file.settings.iter().map(|(name, known)| (name.clone(), default(known))).collect();
    settings.extend(file.configurations[&choice.configuration].settings.clone());
    settings.extend(durability);
    let scope = format!("{}.", file.name);
    let shared = combination.engine.iter().filter(|(path, _)| !path.contains('.'));
    let own = combination
        .engine
        .iter()
        .filter_map(|(path, value)| Some((path.strip_prefix(&scope)?, value)));
    let given: Vec<(&str, &Setting)> =
        shared.map(|(path, value)| (path.as_str(), value)).chain(own).collect();
    for (name, value) in given {
        // A setting that the engine lacks makes the cell Unsupported; it is not passed on.
        if let Some(setting) = settings.get_mut(name) {
            *setting = value.clone();
        }
    }
    settings
}

/// Blocks and trials in the order they are run; what is not run stands once at the end.
fn lay_out(
    cells: &[Cell],
    chosen: &[ChosenEngine<'_>],
    resolved: &Resolved,
    file: &ExperimentFile,
) -> (Vec<PlannedBlock>, Vec<PlannedTrial>) {
    let (run, left_out): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| cell.fate == Fate::Run);
    let ordered = order_blocks(&starts(&run), resolved.repeat, file.order, resolved.seed);
    let mut blocks = Vec::new();
    let mut trials: Vec<PlannedTrial> = Vec::new();
    for OrderedBlock { repeat, engine, cells: members } in ordered {
        let block = blocks.len() as u32 + 1;
        blocks.push(PlannedBlock {
            block,
            repeat,
            engine: chosen[engine].label(),
            dataset: run[members[0]].dataset_id.clone(),
            first_trial: trials.len() as u32 + 1,
            trials: members.len() as u32,
        });
        for member in members {
            let number = trials.len() as u32 + 1;
            let seed = stream_seed(resolved.seed, repeat);
            let trial = planned_trial(run[member], &chosen[engine]);
            trials.push(PlannedTrial { trial: number, block, repeat, seed, ..trial });
        }
    }
    for cell in left_out {
        let number = trials.len() as u32 + 1;
        let trial = planned_trial(cell, &chosen[cell.engine]);
        trials.push(PlannedTrial { trial: number, ..trial });
    }
    (blocks, trials)
}

/// Cells that agree on all that is fixed when an engine starts get the same number. A trial with steps changes its
/// dataset for good, so none other can share its start.
fn starts(cells: &[&Cell]) -> Vec<CellToOrder> {
    let mut seen: Vec<(usize, &str, &Settings, Option<usize>)> = Vec::new();
    cells
        .iter()
        .enumerate()
        .map(|(index, cell)| {
            let alone = (!cell.steps.is_empty()).then_some(index);
            let start = (cell.engine, cell.dataset_id.as_str(), &cell.engine_settings, alone);
            let number = seen.iter().position(|earlier| *earlier == start).unwrap_or_else(|| {
                seen.push(start);
                seen.len() - 1
            });
            CellToOrder { engine: cell.engine, start: number }
        })
        .collect()
}

/// Seed of the request streams of a repeat, small enough for every reader of JSON.
fn stream_seed(seed: u64, repeat: u32) -> u64 {
    let mixed = SplitMix64(seed).bits();
    SplitMix64(mixed ^ u64::from(repeat)).bits() >> 11
}

/// The trial of a cell, as one that is not run; the caller gives numbers to those that are.
fn planned_trial(cell: &Cell, engine: &ChosenEngine<'_>) -> PlannedTrial {
    PlannedTrial {
        trial: 0,
        cell: cell.key.clone(),
        engine: engine.label(),
        configuration: engine.configuration.clone(),
        block: 0,
        repeat: 0,
        seed: 0,
        dataset: cell.dataset_id.clone(),
        factors: values(&cell.combination.factors),
        load: cell.combination.load.clone(),
        steps: cell.steps.clone(),
        settings: values(&cell.combination.workload),
        engine_settings: values(&cell.engine_settings),
        fate: cell.fate.clone(),
    }
}

fn values(settings: &Settings) -> BTreeMap<String, Value> {
    settings.iter().map(|(name, setting)| (name.clone(), Value(setting.clone()))).collect()
}

fn planned_factor(factor: &crate::resolve::Factor) -> PlannedFactor {
    let values = factor.values.iter().cloned().map(Value).collect();
    PlannedFactor { key: factor.key.clone(), values }
}

fn planned_engine(index: usize, engine: &ChosenEngine<'_>, cells: &[Cell]) -> PlannedEngine {
    let file = engine.file;
    let mut promises = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.engine == index && cell.fate == Fate::Run) {
        let durability = cell.combination.load.durability;
        if let DurabilityMapping::Supported(promise) = &file.durability[&durability] {
            promises.insert(
                durability,
                PlannedPromise {
                    about: promise.about.clone(),
                    process_death: promise.process_death.clone(),
                    host_death: promise.host_death.clone(),
                    log_syncs: promise.log_syncs,
                    settings: values(&promise.settings),
                },
            );
        }
    }
    PlannedEngine {
        label: engine.label(),
        name: file.name.clone(),
        about: file.about.clone(),
        configuration: engine.configuration.clone(),
        driver: file.driver.clone(),
        in_process: file.in_process,
        server: file.server.clone(),
        library: file.library.clone(),
        lock_scope: file.lock_scope.clone(),
        stands_in_for: file.stands_in_for.clone(),
        keeps_rows: file.keeps_rows,
        capabilities: file.capabilities.clone(),
        promises,
    }
}

/// The datasets to load and what the whole plan's cost follows from.
fn list_work(
    cells: &[Cell],
    blocks: &[PlannedBlock],
    trials: &[PlannedTrial],
    chosen: &[ChosenEngine<'_>],
    resolved: &Resolved,
) -> (Vec<PlannedDataset>, Work) {
    let mut datasets: Vec<PlannedDataset> = Vec::new();
    let mut disk_bytes: BTreeMap<&str, f64> = BTreeMap::new();
    let mut work = Work { device_profile: resolved.device_profile, ..Work::default() };
    for cell in cells.iter().filter(|cell| cell.fate == Fate::Run) {
        if disk_bytes.contains_key(cell.dataset_id.as_str()) {
            continue;
        }
        let (facts, engine) = (&cell.dataset, &chosen[cell.engine]);
        let speeds = &engine.file.estimates;
        let disk = facts.bytes as f64 * speeds.disk_bytes_per_dataset_byte;
        let seconds = facts.rows as f64 / speeds.load_rows_per_s
            + facts.aging_updates as f64 / speeds.aging_updates_per_s;
        disk_bytes.insert(&cell.dataset_id, disk);
        let of_dataset = blocks.iter().filter(|block| block.dataset == cell.dataset_id).count();
        let times = if resolved.loads_every_block { of_dataset } else { 1 };
        work.loads.push(estimate::Load { seconds: seconds * times as f64, disk_bytes: disk });
        datasets.push(PlannedDataset {
            id: cell.dataset_id.clone(),
            engine: engine.label(),
            rows: facts.rows,
            bytes: facts.bytes,
            aging_updates: facts.aging_updates,
            engine_settings: values(&cell.load_settings),
        });
    }
    // Configurations of one engine share what is installed.
    let downloads: BTreeMap<&str, u64> = chosen
        .iter()
        .flat_map(|engine| engine.file.packages())
        .filter_map(|(name, package)| Some((name, package.sources.first()?.bytes())))
        .collect();
    let caches = cells.iter().filter(|cell| cell.fate == Fate::Run).filter_map(|cell| {
        let settings = &chosen[cell.engine].file.settings;
        let is_cache = |name: &str| settings[name].follows.as_deref() == Some(CACHE_MB);
        let mut caches = cell.engine_settings.iter().filter(|(name, _)| is_cache(name));
        caches.find_map(|(_, value)| match value {
            Setting::Integer(mb) => Some(mb << 20),
            _ => None,
        })
    });
    work.cache_bytes = caches.max().unwrap_or(0);
    work.download_bytes = downloads.values().sum();
    work.server_blocks = blocks
        .iter()
        .filter(|block| {
            let is_it = |engine: &&ChosenEngine<'_>| engine.label() == block.engine;
            chosen.iter().find(is_it).is_some_and(|engine| engine.file.server.is_some())
        })
        .count();
    work.block_bytes = blocks.iter().map(|block| disk_bytes[block.dataset.as_str()]).collect();
    let run = trials.iter().filter(|trial| trial.fate == Fate::Run);
    work.trial_seconds = run.map(|trial| seconds_of(trial, chosen)).collect();
    (datasets, work)
}

/// How long a trial is expected to measure.
fn seconds_of(trial: &PlannedTrial, chosen: &[ChosenEngine<'_>]) -> f64 {
    if trial.steps.is_empty() {
        return trial.load.warmup_s + trial.load.measured_s;
    }
    let engine = chosen.iter().find(|engine| engine.label() == trial.engine);
    let load_rows_per_s = engine.map_or(1.0, |engine| engine.file.estimates.load_rows_per_s);
    trial.steps.iter().map(|step| step.expected_seconds(load_rows_per_s)).sum()
}
