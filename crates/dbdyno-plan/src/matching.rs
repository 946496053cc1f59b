//! What a workload and an experiment need, held against what an engine can give.
//!
//! Every pair that cannot run gets a reason that lists all that is missing; nothing is rounded to the nearest thing
//! that the engine has.

use dbdyno_workload::{Setting, Settings, WorkloadEntry};

use crate::engine_file::{DurabilityMapping, EngineFile};
use crate::harness::Load;
use crate::value::{Raw, Value};

/// What one cell asks of an engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    pub(crate) workload: &'a WorkloadEntry,
    pub(crate) load: &'a Load,
    /// Given engine settings, `NAME` or `ENGINE.NAME`.
    pub(crate) settings: &'a Settings,
}

/// Why the engine cannot run the cell, if it cannot.
pub(crate) fn unsupported(needs: &Needs<'_>, engine: &EngineFile) -> Option<String> {
    let mut missing: Vec<String> = Vec::new();
    let check_needs = if engine.keeps_rows { needs.workload.check_needs } else { &[] };
    for need in needs.workload.needs.iter().chain(check_needs) {
        if !engine.capabilities.iter().any(|capability| capability == need) {
            missing.push(format!("no capability \"{need}\""));
        }
    }
    let durability = needs.load.durability;
    if let DurabilityMapping::Unsupported(reason) = &engine.durability[&durability] {
        missing.push(format!("no durability \"{}\" ({reason})", durability.name()));
    }
    if engine.in_process {
        let asked = needs.load.client.needs_server().into_iter();
        missing.extend(asked.map(|asked| format!("no server, which {asked} is about")));
    }
    for (path, value) in needs.settings {
        missing.extend(setting_refused(path, value, engine));
    }
    match missing.is_empty() {
        true => None,
        false => Some(format!("{} has {}", engine.name, missing.join("; "))),
    }
}

fn setting_refused(path: &str, value: &Setting, engine: &EngineFile) -> Option<String> {
    // A setting for one engine says nothing to the others.
    let name = match path.rsplit_once('.') {
        Some((scope, _)) if scope != engine.name => return None,
        Some((_, name)) => name,
        None => path,
    };
    let Some(setting) = engine.settings.get(name) else {
        return Some(format!("no setting \"{name}\""));
    };
    let raw = match value {
        Setting::Integer(value) => Raw::Integer(i128::from(*value)),
        Setting::Number(value) => Raw::Number(*value),
        Setting::Text(value) => Raw::Text(value.clone()),
        Setting::Flag(value) => Raw::Flag(*value),
    };
    let refused = setting.kind.wanted().read(&raw).err()?;
    Some(format!("no value {} for \"{name}\" ({refused})", Value(value.clone())))
}
