//! From keys as written to checked values: layers file, scale, `--quick` and `--set` over each other, then lists
//! every combination of the factors.
//!
//! Each value remembers where it was written, so that a misfit found late still names its line. What an engine makes
//! of its settings is decided in `planning`, for each engine.

use std::collections::BTreeMap;

use dbdyno_workload::{Parameter, Setting, Settings, WorkloadEntry};

use crate::catalogue::ChosenEngine;
use crate::engine_file::EngineFile;
use crate::experiment::{ENGINE_SETTING, ExperimentFile, REPEAT, REPEATS_MAX, Scale};
use crate::harness::{self, EVERY_BLOCK, LOAD_PATIENCE_S, Load};
use crate::input_error::{InputError, Place};
use crate::toml_reader::Entry;
use crate::value::{Raw, Value, Wanted};

/// A key whose values are varied.
#[derive(Debug, Clone)]
pub(crate) struct Factor {
    pub(crate) key: String,
    pub(crate) values: Vec<Setting>,
    entry: Entry,
}

/// A key with one value for all cells.
#[derive(Debug, Clone)]
struct Held {
    value: Setting,
    entry: Entry,
}

/// What the layers come to.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) factors: Vec<Factor>,
    held: BTreeMap<String, Held>,
    pub(crate) repeat: u32,
    pub(crate) seed: u64,
    pub(crate) device_profile: bool,
    /// Whether each block loads its dataset anew.
    pub(crate) loads_every_block: bool,
    pub(crate) load_patience_s: u64,
    file: String,
}

/// One combination of factor values, complete but for the engine.
#[derive(Debug, Clone)]
pub(crate) struct Combination {
    pub(crate) factors: BTreeMap<String, Setting>,
    pub(crate) load: Load,
    pub(crate) workload: Settings,
    /// Every parameter of the harness.
    pub(crate) harness: Settings,
    /// Given engine settings, `NAME` or `ENGINE.NAME`.
    pub(crate) engine: Settings,
}

/// What keys are checked against.
pub(crate) struct Known<'a> {
    pub(crate) workload: &'a WorkloadEntry,
    pub(crate) engines: &'a [EngineFile],
    pub(crate) chosen: &'a [ChosenEngine<'a>],
}

impl<'a> Known<'a> {
    fn parameter(&self, key: &str) -> Option<&'static Parameter> {
        let all = harness::PARAMETERS.iter().chain(self.workload.parameters);
        all.into_iter().find(|parameter| parameter.name == key)
    }

    fn unknown(&self, entry: &Entry) -> InputError {
        let mut names: Vec<&str> = harness::PARAMETERS.iter().map(|known| known.name).collect();
        names.extend(self.workload.parameters.iter().map(|known| known.name));
        let settings: Vec<String> = self
            .engines
            .iter()
            .flat_map(|engine| {
                engine.settings.keys().filter(|name| !engine.is_reserved(name)).collect::<Vec<_>>()
            })
            .map(|name| format!("{ENGINE_SETTING}.{name}"))
            .collect();
        if entry.key.starts_with(ENGINE_SETTING) {
            names = settings.iter().map(String::as_str).collect();
        }
        entry.unknown(names)
    }

    /// What the key takes, or an error if there is no such key.
    fn wanted(&self, entry: &Entry) -> Result<Wanted<'a>, InputError> {
        if let Some(parameter) = self.parameter(&entry.key) {
            return Ok(harness::wanted(parameter));
        }
        let path = entry.key.strip_prefix(ENGINE_SETTING).and_then(|rest| rest.strip_prefix('.'));
        let path = path.ok_or_else(|| self.unknown(entry))?;
        let (scope, name) = match path.rsplit_once('.') {
            Some((engine, name)) => (Some(engine), name),
            None => (None, path),
        };
        // Engines that were chosen come first: an engine that was not may mean something else by the name.
        let chosen = self.chosen.iter().map(|engine| engine.file);
        let mut found: Option<&'a EngineFile> = None;
        for engine in chosen.chain(self.engines) {
            let in_scope = scope.is_none_or(|scope| scope == engine.name);
            if in_scope && engine.settings.contains_key(name) {
                if engine.is_reserved(name) {
                    let why =
                        format!("is set by durability on {}; set durability instead", engine.name);
                    return Err(entry.wrong(&why));
                }
                found = found.or(Some(engine));
            }
        }
        let engine = found.ok_or_else(|| self.unknown(entry))?;
        Ok(engine.settings[name].kind.wanted())
    }

    fn hold(&self, entry: Entry) -> Result<Held, InputError> {
        let value = entry.read(&self.wanted(&entry)?)?;
        Ok(Held { value, entry })
    }

    fn vary(&self, entry: Entry) -> Result<Factor, InputError> {
        let wanted = self.wanted(&entry)?;
        if harness::OF_WHOLE_PLAN.contains(&entry.key.as_str()) {
            return Err(entry.wrong("belongs to the whole plan and has one value; hold it"));
        }
        if entry.key.matches('.').count() > 1 {
            return Err(entry.wrong("is for one engine and cannot be varied; hold it"));
        }
        let mut values: Vec<Setting> = Vec::new();
        for item in entry.items()? {
            let value = item.read(&wanted)?;
            if values.contains(&value) {
                return Err(item.wrong(&format!("lists {} twice; keep one", Value(value))));
            }
            values.push(value);
        }
        Ok(Factor { key: entry.key.clone(), values, entry })
    }
}

/// Layers the experiment, a scale and the command's entries over each other.
pub(crate) fn resolve(
    known: &Known<'_>,
    file: &ExperimentFile,
    scale: Option<&Scale>,
    overrides: Vec<Entry>,
) -> Result<Resolved, InputError> {
    let mut resolved = Resolved {
        factors: vec![],
        held: BTreeMap::new(),
        repeat: scale.and_then(|scale| scale.repeat).unwrap_or(file.repeat),
        seed: 0,
        device_profile: true,
        loads_every_block: false,
        load_patience_s: 0,
        file: file.file.clone(),
    };
    for entry in &file.vary {
        resolved.factors.push(known.vary(entry.clone())?);
    }
    // All scales are checked whichever is used, so that a typo does not wait for the long run.
    for scale in &file.scales {
        for entry in &scale.hold {
            known.hold(entry.clone())?;
        }
    }
    let scale_entries = scale.map_or(&[][..], |scale| &scale.hold);
    for entry in file.hold.iter().chain(scale_entries) {
        resolved.held.insert(entry.key.clone(), known.hold(entry.clone())?);
    }
    for entry in overrides {
        resolved.set(known, entry)?;
    }
    let integer = |resolved: &Resolved, key: &str| match resolved.value(key) {
        Setting::Integer(value) => value,
        _ => unreachable!("{key} is a whole number"),
    };
    resolved.seed = integer(&resolved, "seed");
    resolved.load_patience_s = integer(&resolved, LOAD_PATIENCE_S);
    resolved.device_profile = resolved.value("device_profile") == Setting::Flag(true);
    resolved.loads_every_block = resolved.value("loading") == Setting::Text(EVERY_BLOCK.to_owned());
    Ok(resolved)
}

impl Resolved {
    /// One entry of the command: a list makes a factor, one value keeps what the key was.
    fn set(&mut self, known: &Known<'_>, entry: Entry) -> Result<(), InputError> {
        if entry.key == REPEAT {
            let repeat = entry.integer(1..=REPEATS_MAX)?;
            self.repeat = u32::try_from(repeat).expect("repeats have a small bound");
            return Ok(());
        }
        let position = self.factors.iter().position(|factor| factor.key == entry.key);
        let is_list = matches!(entry.value, Raw::List(_));
        if !is_list && position.is_none() {
            self.held.insert(entry.key.clone(), known.hold(entry)?);
            return Ok(());
        }
        let factor = match is_list {
            true => known.vary(entry)?,
            false => {
                let Held { value, entry } = known.hold(entry)?;
                Factor { key: entry.key.clone(), values: vec![value], entry }
            }
        };
        self.held.remove(&factor.key);
        match position {
            Some(index) => self.factors[index] = factor,
            None => self.factors.push(factor),
        }
        Ok(())
    }

    /// The value of a harness parameter that is not varied.
    fn value(&self, key: &str) -> Setting {
        self.held.get(key).map_or_else(|| default(key), |held| held.value.clone())
    }

    /// How many combinations the factors have.
    pub(crate) fn combinations(&self) -> u64 {
        self.factors
            .iter()
            .fold(1_u64, |product, factor| product.saturating_mul(factor.values.len() as u64))
    }

    /// The combination with this number; the first factor changes slowest.
    pub(crate) fn combination(
        &self,
        mut number: u64,
        workload: &WorkloadEntry,
    ) -> Result<Combination, InputError> {
        let mut factors = BTreeMap::new();
        for factor in self.factors.iter().rev() {
            let count = factor.values.len() as u64;
            factors.insert(factor.key.clone(), factor.values[(number % count) as usize].clone());
            number /= count;
        }
        let given: Settings = self
            .held
            .iter()
            .map(|(key, held)| (key.clone(), held.value.clone()))
            .chain(factors.clone())
            .collect();
        let complete = |parameters: &[Parameter]| -> Settings {
            let value = |parameter: &Parameter| {
                let value = given.get(parameter.name).cloned();
                value.unwrap_or_else(|| default_of(parameter))
            };
            parameters.iter().map(|known| (known.name.to_string(), value(known))).collect()
        };
        let harness = complete(harness::PARAMETERS);
        let load = Load::from_settings(&harness)
            .map_err(|misfit| self.misfit(misfit.key, misfit.message))?;
        let workload_settings = complete(workload.parameters);
        (workload.validate)(&workload_settings).map_err(|error| {
            self.misfit(&error.key, &format!("does not fit: {}", error.message))
        })?;
        let engine = given
            .iter()
            .filter_map(|(key, value)| {
                let path = key.strip_prefix(ENGINE_SETTING)?.strip_prefix('.')?;
                Some((path.to_string(), value.clone()))
            })
            .collect();
        Ok(Combination { factors, load, workload: workload_settings, harness, engine })
    }

    /// An error about a key at the place where it got its value.
    fn misfit(&self, key: &str, why: &str) -> InputError {
        let varied = self.factors.iter().find(|factor| factor.key == key);
        let held = self.held.get(key).map(|held| &held.entry);
        match varied.map(|factor| &factor.entry).or(held) {
            Some(entry) => entry.wrong(why),
            None => {
                let message = format!("\"{key}\" (its default) {why}");
                InputError::about_key(Place::line(&self.file, 1), key, message)
            }
        }
    }
}

fn default(key: &str) -> Setting {
    let parameter = harness::PARAMETERS.iter().find(|parameter| parameter.name == key);
    default_of(parameter.expect("a harness parameter"))
}

/// The default of a parameter, which its own list guarantees to be a value it takes.
fn default_of(parameter: &Parameter) -> Setting {
    harness::wanted(parameter)
        .read(&Raw::Word(parameter.default.to_string()))
        .unwrap_or_else(|why| panic!("default of {}: {why}", parameter.name))
}
