//! `dbdyno engines list`: what engines there are, which are fetched, what they lock and how durable they can be.

use super::needs::needs;
use super::up::find_up;
use crate::cache_directory::CacheArgs;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::view::text::{align, bytes};
use dbdyno_plan::{Durability, DurabilityMapping, EngineFile, Source};
use dbdyno_provision::{Cache, Installed};
use serde_json::{Value, json};
use std::path::Path;

/// Runs the command.
pub fn run(engines: &[EngineFile], json: bool, cache: &CacheArgs) -> Result<u8, Failure> {
    // A listing makes no directory: without a cache nothing is fetched.
    let directory = cache.directory().ok().filter(|directory| directory.is_dir());
    let cache = directory.as_ref().map(Cache::open).transpose()?;
    let listed: Vec<Listed<'_>> = engines
        .iter()
        .map(|engine| {
            let installed = |(name, package)| cache.as_ref()?.installed(name, package);
            let installed = engine.packages().into_iter().map(installed).collect();
            let running = directory.as_ref().map_or_else(Vec::new, |cache| running(engine, cache));
            Listed { engine, installed, running }
        })
        .collect();
    output::print(&match json {
        true => format!("{}\n", Value::Array(listed.iter().map(as_json).collect())),
        false => as_text(&listed),
    })?;
    Ok(exit_code::DONE)
}

/// An engine, what is in the cache of it, and who runs it.
struct Listed<'a> {
    engine: &'a EngineFile,
    /// One for each of its packages.
    installed: Vec<Option<Installed>>,
    /// What is up by hand: its name with a configuration, and the process that owns it.
    running: Vec<(String, u32)>,
}

impl Listed<'_> {
    /// Whether all that it needs is there.
    fn is_installed(&self) -> bool {
        self.installed.iter().all(Option::is_some)
    }

    /// Room that all of it takes, if all is there.
    fn bytes_on_disk(&self) -> Option<u64> {
        let sizes = || self.installed.iter().map(|one| Some(one.as_ref()?.bytes_on_disk));
        sizes().next()?;
        sizes().sum()
    }
}

fn download_bytes(engine: &EngineFile) -> u64 {
    let packages = engine.packages().into_iter();
    packages.filter_map(|(_, package)| package.sources.first()).map(Source::bytes).sum()
}

/// What is needed for all its packages, the same need once.
fn needs_of(engine: &EngineFile) -> String {
    let mut all: Vec<String> =
        engine.packages().into_iter().map(|(_, package)| needs(package)).collect();
    all.dedup();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" and ") }
}

/// What of an engine `engines up` keeps running: with its defaults, or in one of its configurations.
fn running(engine: &EngineFile, cache: &Path) -> Vec<(String, u32)> {
    let of_configurations =
        engine.configurations.keys().map(|name| format!("{}:{name}", engine.name));
    let labels = std::iter::once(engine.name.clone()).chain(of_configurations);
    labels.filter_map(|label| find_up(cache, &label).map(|up| (label, up.pid))).collect()
}

const HEAD: &[&str] = &[
    "engine",
    "driver",
    "fetched",
    "running",
    "version",
    "download",
    "on disk",
    "needs",
    "locks",
    "durability",
    "configurations",
];

fn as_text(listed: &[Listed<'_>]) -> String {
    let head = HEAD.iter().map(|&cell| cell.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(listed.iter().map(row)).collect();
    let mut text = align(&rows, HEAD.len());
    for one in listed {
        text += &format!("\n{}: {}\n", one.engine.name, one.engine.about);
        if let Some(other) = &one.engine.stands_in_for {
            text += &format!("  stands in for {other}\n");
        }
        for ((name, _), installed) in one.engine.packages().iter().zip(&one.installed) {
            let behind = match *name == one.engine.name {
                true => String::new(),
                false => format!("behind it, {name}, "),
            };
            match installed {
                Some(installed) => text += &format!("  {behind}fetched: {}\n", installed.source),
                None if !behind.is_empty() => text += &format!("  {behind}not fetched\n"),
                None => {}
            }
        }
        for (label, pid) in &one.running {
            text += &format!("  running: {label}, owned by process {pid}\n");
        }
        text += &promises(one.engine);
        text += &settings(one.engine);
    }
    text
}

fn row(listed: &Listed<'_>) -> Vec<String> {
    let engine = listed.engine;
    let packages = engine.packages();
    let package = packages.first().map(|(_, package)| *package);
    let size = |count: Option<u64>| count.map_or("-".to_owned(), |count| bytes(count as f64));
    let fetched = match (package, listed.is_installed()) {
        (None, _) => "built in",
        (Some(_), true) => "yes",
        (Some(_), false) => "no",
    };
    let running = match (&engine.server, listed.running.is_empty()) {
        (None, _) => "-",
        (Some(_), true) => "no",
        (Some(_), false) => "yes",
    };
    let durability: Vec<&str> = supported(engine).map(Durability::name).collect();
    let configurations: Vec<&str> = engine.configurations.keys().map(String::as_str).collect();
    vec![
        engine.name.clone(),
        engine.driver.clone(),
        fetched.to_owned(),
        running.to_owned(),
        package.map_or("-".to_owned(), |package| format!("{}x", package.series)),
        size(package.map(|_| download_bytes(engine))),
        size(listed.bytes_on_disk()),
        needs_of(engine),
        engine.lock_scope.clone(),
        durability.join(" "),
        configurations.join(" "),
    ]
}

fn promises(engine: &EngineFile) -> String {
    let promise = |(durability, mapping): (&Durability, &DurabilityMapping)| match mapping {
        DurabilityMapping::Supported(promise) => format!(
            "  {}: {}\n    when the process dies: {} When the host dies: {}\n",
            durability.name(),
            promise.about,
            promise.process_death,
            promise.host_death
        ),
        DurabilityMapping::Unsupported(reason) => {
            format!("  {}: unsupported: {reason}\n", durability.name())
        }
    };
    engine.durability.iter().map(promise).collect()
}

fn settings(engine: &EngineFile) -> String {
    let line = |name: &str| {
        let setting = &engine.settings[name];
        format!(
            "  --set engine_setting.{}.{name}=... (now {}): {}\n",
            engine.name, setting.default, setting.about
        )
    };
    settable(engine).map(line).collect()
}

fn supported(engine: &EngineFile) -> impl Iterator<Item = Durability> {
    engine.durability.iter().filter_map(|(durability, mapping)| match mapping {
        DurabilityMapping::Supported(_) => Some(*durability),
        DurabilityMapping::Unsupported(_) => None,
    })
}

/// Settings that are not chosen by the durability.
fn settable(engine: &EngineFile) -> impl Iterator<Item = &str> {
    engine.settings.keys().map(String::as_str).filter(|name| !engine.is_reserved(name))
}

fn as_json(listed: &Listed<'_>) -> Value {
    let engine = listed.engine;
    let durability: Value = engine
        .durability
        .iter()
        .map(|(durability, mapping)| {
            let value = match mapping {
                DurabilityMapping::Supported(promise) => json!({
                    "supported": true, "about": promise.about,
                    "process_death": promise.process_death, "host_death": promise.host_death,
                }),
                DurabilityMapping::Unsupported(reason) => {
                    json!({ "supported": false, "reason": reason })
                }
            };
            (durability.name().to_owned(), value)
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let settings: Value = engine
        .settings
        .iter()
        .map(|(name, setting)| {
            (
                name.clone(),
                json!({ "default": setting.default.to_string(), "about": setting.about }),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({
        "name": engine.name, "about": engine.about, "driver": engine.driver, "in_process": engine.in_process,
        "lock_scope": engine.lock_scope, "stands_in_for": engine.stands_in_for, "keeps_rows": engine.keeps_rows, "capabilities": engine.capabilities,
        "durability": durability, "settings": settings,
        "configurations": engine.configurations.iter().map(|(name, one)| (name.clone(), one.about.clone().into()))
            .collect::<serde_json::Map<String, Value>>(),
        "installed": package_as_json(listed),
    })
}

fn package_as_json(listed: &Listed<'_>) -> Value {
    let packages = listed.engine.packages();
    let Some((_, package)) = packages.first() else { return Value::Null };
    let own = listed.installed.first().and_then(Option::as_ref);
    let behind: Vec<&str> = packages.iter().skip(1).map(|(name, _)| *name).collect();
    let installed = own.filter(|_| listed.is_installed()).map(|installed| {
        json!({ "source": installed.source, "bytes_on_disk": installed.bytes_on_disk, "prefix": installed.prefix })
    });
    let running: Vec<Value> = listed
        .running
        .iter()
        .map(|(label, pid)| json!({ "name": label, "owner_pid": pid }))
        .collect();
    json!({
        "running": running, "series": package.series, "needs": needs_of(listed.engine), "own_root": package.own_root, "fetched": installed,
        "download_bytes": download_bytes(listed.engine), "behind": behind,
    })
}
