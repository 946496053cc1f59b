//! `dbdyno engines`: what engines there are, and getting, checking and removing those that are not built in.

mod fetch;
mod list;
mod needs;
mod up;

use crate::cli::EnginesCommand;
use crate::exit_code;
use crate::failure::Failure;
use dbdyno_plan::{ENGINES, EngineFile, Package, nearest};

/// Runs the command.
///
/// # Errors
/// As its parts.
pub fn run(command: &EnginesCommand) -> Result<u8, Failure> {
    let engines = shipped()?;
    match command {
        EnginesCommand::List { json, cache } => list::run(&engines, *json, cache),
        EnginesCommand::Fetch { names, cache } => fetch::fetch(&engines, names, cache),
        EnginesCommand::Verify { names, cache } => fetch::verify(&engines, names, cache),
        EnginesCommand::Remove { names, cache } => fetch::remove(&engines, names, cache),
        EnginesCommand::Up(args) => up::up(args),
        EnginesCommand::Down(args) => up::down(args),
        EnginesCommand::Settings(args) => up::settings(args),
    }
}

fn shipped() -> Result<Vec<EngineFile>, Failure> {
    let read = |engine: &dbdyno_plan::NamedText<'_>| EngineFile::parse(engine.file, engine.text);
    let engines = ENGINES.iter().map(read).collect::<Result<Vec<_>, _>>();
    engines.map_err(|error| Failure::new(exit_code::WRONG_INPUT, error.to_string()))
}

/// What is installed for the engines of these names. All names are understood before anything is done.
fn packages<'a>(
    engines: &'a [EngineFile],
    names: &[String],
) -> Result<Vec<(&'a str, Package<'a>)>, Failure> {
    let wrong = |message: String| Failure::new(exit_code::WRONG_INPUT, message);
    let find = |name: &String| {
        let Some(engine) = engines.iter().find(|engine| engine.name == *name) else {
            let known = engines.iter().map(|engine| engine.name.as_str());
            let near =
                nearest(name, known).map_or(String::new(), |near| format!("did you mean {near}? "));
            return Err(wrong(format!(
                "no engine is named {name}; {near}`dbdyno engines list` shows all"
            )));
        };
        let packages = engine.packages();
        if packages.is_empty() {
            return Err(wrong(format!(
                "{name} is built into dbdyno: there is nothing to fetch, verify or remove"
            )));
        }
        Ok(packages)
    };
    let all: Vec<_> = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok(all.concat())
}
