//! `dbdyno engines list`: what engines there are, what they lock and how durable they can be.

use crate::cli::EnginesCommand;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::view::text::align;
use dbdyno_plan::{Durability, DurabilityMapping, ENGINES, EngineFile};
use serde_json::{Value, json};

/// Runs the command.
pub fn run(command: &EnginesCommand) -> Result<u8, Failure> {
    let EnginesCommand::List { json } = command;
    let engines = ENGINES
        .iter()
        .map(|engine| EngineFile::parse(engine.file, engine.text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::new(exit_code::WRONG_INPUT, error.to_string()))?;
    output::print(&match json {
        true => format!("{}\n", Value::Array(engines.iter().map(as_json).collect())),
        false => as_text(&engines),
    })?;
    Ok(exit_code::DONE)
}

fn as_text(engines: &[EngineFile]) -> String {
    let head = ["engine", "driver", "locks", "durability", "settings"].map(str::to_owned).to_vec();
    let row = |engine: &EngineFile| {
        let names: Vec<&str> = supported(engine).map(Durability::name).collect();
        let settings: Vec<&str> = settable(engine).collect();
        vec![
            engine.name.clone(),
            engine.driver.clone(),
            engine.lock_scope.clone(),
            names.join(" "),
            settings.join(" "),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(engines.iter().map(row)).collect();
    let mut text = align(&rows, 5);
    for engine in engines {
        text += &format!("\n{}: {}\n", engine.name, engine.about);
        for (durability, mapping) in &engine.durability {
            match mapping {
                DurabilityMapping::Supported(promise) => {
                    text += &format!("  {}: {}\n", durability.name(), promise.about);
                    text += &format!(
                        "    when the process dies: {} When the host dies: {}\n",
                        promise.process_death, promise.host_death
                    );
                }
                DurabilityMapping::Unsupported(reason) => {
                    text += &format!("  {}: unsupported: {reason}\n", durability.name());
                }
            }
        }
        for name in settable(engine) {
            let setting = &engine.settings[name];
            text += &format!(
                "  --set engine_setting.{}.{name}=... (now {}): {}\n",
                engine.name, setting.default, setting.about
            );
        }
    }
    text
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

fn as_json(engine: &EngineFile) -> Value {
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
        "lock_scope": engine.lock_scope, "keeps_rows": engine.keeps_rows, "capabilities": engine.capabilities,
        "durability": durability, "settings": settings,
    })
}
