//! A server behind a server: `[backend]` in an engine file names a shipped engine that has the data.
//!
//! The one in front speaks the wire that clients use and keeps nothing; what is promised and what can be set is the
//! backend's. So the file in front has the backend's `durability` and `settings`, and adds to them what is its own.

use serde::{Deserialize, Serialize};

use crate::engine_file::{EngineFile, over_bases};
use crate::input_error::InputError;
use crate::package::texts;
use crate::server_recipe::ServerRecipe;
use crate::shipped::ENGINES;
use crate::toml_reader::Table;

/// What a file in front has from its backend unless it says otherwise.
const INHERITED: &[&str] = &["durability", "settings"];

/// The server behind another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backend {
    /// Name of the engine, which it is installed under: it is the same installation that the engine itself uses.
    pub engine: String,
    /// Driver that speaks to it.
    pub driver: String,
    /// How to get, start, ask and stop it. Settings that it knows are passed to it and not to the server in front.
    pub recipe: ServerRecipe,
    /// Statements that it is told whenever it has started, before the server in front is.
    pub prepare: Vec<String>,
}

/// Takes `[backend]` out of a file. Returns the file with what it has from its backend, and the backend.
pub(crate) fn take_backend(mut root: Table) -> Result<(Table, Option<Backend>), InputError> {
    let Some(entry) = root.optional("backend") else { return Ok((root, None)) };
    let mut table = entry.into_table()?;
    let named = table.required("engine")?;
    let names: Vec<&str> = ENGINES.iter().map(|engine| engine.name).collect();
    let word = named.word(&names)?;
    let prepare = texts(&mut table, "prepare")?;
    table.finish()?;
    let Some(shipped) = ENGINES.iter().find(|engine| engine.name == word) else {
        return Err(named.unknown(names));
    };
    let file = EngineFile::parse(shipped.file, shipped.text)?;
    let Some(recipe) = file.server.filter(|server| server.backend.is_none()) else {
        return Err(named.wrong("wants a server that keeps its data itself"));
    };
    let inherited = over_bases(Table::parse(shipped.file, shipped.text)?)?.only(INHERITED);
    let backend = Backend { engine: file.name, driver: file.driver, recipe, prepare };
    Ok((root.over(inherited), Some(backend)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine_file::{Durability, DurabilityMapping};

    fn shipped(name: &str) -> (&'static str, &'static str) {
        let engine = ENGINES.iter().find(|engine| engine.name == name).unwrap();
        (engine.file, engine.text)
    }

    fn parsed(name: &str) -> EngineFile {
        let (file, text) = shipped(name);
        EngineFile::parse(file, text).unwrap()
    }

    /// The one in front promises what the one behind it does, and passes settings on to it alone.
    #[test]
    fn promises_and_settings_are_the_backends() {
        for (front, behind) in
            [("ferretdb-1", "postgres-17"), ("ferretdb-2", "postgres-18-documentdb")]
        {
            let (front, behind) = (parsed(front), parsed(behind));
            assert_eq!(front.durability, behind.durability, "{}", front.name);
            assert_eq!(front.settings, behind.settings, "{}", front.name);
            let recipe = front.server.as_ref().unwrap();
            let backend = recipe.backend.as_deref().unwrap();
            assert_eq!(Some(&backend.recipe), behind.server.as_ref());
            let DurabilityMapping::Supported(promise) = &front.durability[&Durability::None] else {
                panic!("{} promises nothing", front.name);
            };
            let settings: BTreeMap<String, String> = promise
                .settings
                .iter()
                .map(|(key, value)| (key.clone(), value.to_string()))
                .collect();
            assert!(recipe.setting_arguments(&settings).is_empty(), "{}", front.name);
            let passed = backend.recipe.setting_arguments(&settings);
            assert_eq!(passed, ["-c", "fsync=off", "-c", "synchronous_commit=off"]);
            let names: Vec<&str> = front.packages().iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [front.name.as_str(), behind.name.as_str()]);
        }
    }

    /// Only a server that keeps its data itself can stand behind another one.
    #[test]
    fn wrong_backends_are_refused() {
        let (file, text) = shipped("ferretdb-1");
        for (engine, says) in [
            ("postgres-177", "did you mean \"postgres-17\"?"),
            ("sqlite", "wants a server that keeps its data itself"),
            ("ferretdb-2", "wants a server that keeps its data itself"),
        ] {
            let text = text.replace("\"postgres-17\"", &format!("\"{engine}\""));
            let error = EngineFile::parse(file, &text).unwrap_err().to_string();
            assert!(error.contains(says), "{engine}: {error}");
        }
    }
}
