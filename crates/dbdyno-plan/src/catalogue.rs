//! What can be planned with: the workloads, experiments and engines that exist, handed in by the command.
//!
//! Planning knows no list of its own, so tests plan with lists of theirs. Names are looked up here, and a miss names
//! the nearest one.

use dbdyno_workload::WorkloadEntry;

use crate::engine_file::{BASE_CONFIGURATION, EngineFile};
use crate::input_error::{InputError, Place};
use crate::nearest::suggestion;
use crate::shipped::NamedText;

/// Everything that can be planned with.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue<'a> {
    /// Workloads.
    pub workloads: &'a [WorkloadEntry],
    /// Experiments that are found by name.
    pub experiments: &'a [NamedText<'a>],
    /// Engine files.
    pub engines: &'a [NamedText<'a>],
}

/// An engine that was chosen, with its configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChosenEngine<'a> {
    pub(crate) file: &'a EngineFile,
    pub(crate) configuration: String,
}

impl ChosenEngine<'_> {
    /// The engine's name, with `:configuration` unless that is `base`.
    pub(crate) fn label(&self) -> String {
        match self.configuration.as_str() {
            BASE_CONFIGURATION => self.file.name.clone(),
            other => format!("{}:{other}", self.file.name),
        }
    }
}

/// The item of that name, or an error at `place` that offers the nearest name.
pub(crate) fn find_named<'a, T>(
    kind: &str,
    name: &str,
    known: &'a [T],
    name_of: impl Fn(&T) -> &str,
    place: Place,
) -> Result<&'a T, InputError> {
    known.iter().find(|item| name_of(item) == name).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(&name_of).collect();
        let near = suggestion(name, names);
        InputError::about_key(place, kind, format!("unknown {kind} \"{name}\"{near}"))
    })
}

/// The engine that `asked` means: its name or an unambiguous beginning of it, perhaps with `:configuration`.
pub(crate) fn choose_engine<'a>(
    asked: &str,
    engines: &'a [EngineFile],
    place: &Place,
) -> Result<ChosenEngine<'a>, InputError> {
    let (name, configuration) = asked.split_once(':').unwrap_or((asked, BASE_CONFIGURATION));
    let begun: Vec<&EngineFile> =
        engines.iter().filter(|engine| !name.is_empty() && engine.name.starts_with(name)).collect();
    let file = match (engines.iter().find(|engine| engine.name == name), begun.as_slice()) {
        (Some(exact), _) => exact,
        (None, [only]) => *only,
        (None, [_, _, ..]) => {
            let names: Vec<&str> = begun.iter().map(|engine| engine.name.as_str()).collect();
            let message =
                format!("engine \"{name}\" could be {}; write more of it", names.join(" or "));
            return Err(InputError::about_key(place.clone(), "engine", message));
        }
        (None, []) => find_named("engine", name, engines, |engine| &engine.name, place.clone())?,
    };
    if !file.configurations.contains_key(configuration) {
        let near = suggestion(configuration, file.configurations.keys().map(String::as_str));
        let message =
            format!("engine {} has no configuration \"{configuration}\"{near}", file.name);
        return Err(InputError::about_key(place.clone(), "engine", message));
    }
    Ok(ChosenEngine { file, configuration: configuration.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;

    #[test]
    fn engines_are_found_by_name_or_beginning() {
        let mut engines: Vec<EngineFile> = shipped::ENGINES
            .iter()
            .map(|engine| EngineFile::parse(engine.file, engine.text).unwrap())
            .filter(|engine| engine.packages().is_empty())
            .collect();
        engines.push(EngineFile { name: "lmdb-next".into(), ..engines[1].clone() });
        let place = Place::argument("--engine");
        let check = |asked: &str, expected: &str| {
            let shown = match choose_engine(asked, &engines, &place) {
                Ok(engine) => engine.label(),
                Err(error) => error.to_string(),
            };
            assert_eq!(shown, expected, "{asked}");
        };
        check("sqlite", "sqlite");
        check("sq", "sqlite");
        check("sqlite:base", "sqlite");
        check("lmdb", "lmdb");
        check("lm", "--engine: engine \"lm\" could be lmdb or lmdb-next; write more of it");
        check("sqlit3", "--engine: unknown engine \"sqlit3\"; did you mean \"sqlite\"?");
        check(
            "oracle",
            "--engine: unknown engine \"oracle\"; known: sqlite, lmdb, null, memory, lmdb-next",
        );
        check("", "--engine: unknown engine \"\"; known: sqlite, lmdb, null, memory, lmdb-next");
        check(
            "sqlite:bas",
            "--engine: engine sqlite has no configuration \"bas\"; did you mean \"base\"?",
        );
    }
}
