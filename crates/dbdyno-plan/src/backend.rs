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
