//! A server as data: where its programs come from, how a data directory is made, how it starts, answers and stops.
//!
//! The part of an engine file that only servers have. It is stored in the plan, so that a run is resumed with the
//! recipe that it began with. Nothing here fetches or starts anything; that is the provisioner's work.
//!
//! In arguments and files these words in braces are replaced: `prefix` (the installed programs), `data` (the data
//! directory), `run` (the server's own directory, with socket and log), `tmp`, `socket`, `port`. With `own_root` the
//! programs see the prefix as `/`, so paths of their own are written from there and `prefix` is not used. A server with
//! another one behind it knows that one's socket by `backend`: the directory it is in, written as URLs want it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::input_error::InputError;
use crate::package::{Package, Source, flag, list, read_sources, text_or_empty, texts};
use crate::toml_reader::{Entry, Table};

/// How to get, start, ask and stop a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRecipe {
    /// Where the programs come from: alternatives, the first that this host can use is taken.
    pub sources: Vec<Source>,
    /// What the server's version must begin with, for example `18.`; empty for a build of the user's own.
    pub series: String,
    /// Whether the programs bring their own libraries below `/`, so that they must see the prefix as the root.
    pub own_root: bool,
    /// The server's program, below the prefix.
    pub program: String,
    /// Its arguments, always.
    pub arguments: Vec<String>,
    /// More of them if it must listen on a loopback port.
    pub arguments_with_port: Vec<String>,
    /// More of them if it must not.
    pub arguments_without_port: Vec<String>,
    /// How settings become arguments, by setting. A setting that is not here belongs to the driver.
    pub settings: BTreeMap<String, PassedAs>,
    /// Environment, beside a fixed PATH, HOME and locale.
    pub environment: BTreeMap<String, String>,
    /// What makes a data directory, in this order.
    pub init: Vec<InitCommand>,
    /// Where its socket is.
    pub socket: String,
    /// Login name on a server of ours, which asks for no password.
    pub user: String,
    /// A statement whose only value is the version.
    pub version_query: String,
    /// A statement that lists the effective settings: name, value.
    pub settings_query: String,
    /// A statement whose value is the number of times the log was forced, if the server counts that: the last column
    /// of the first row, because `SHOW GLOBAL STATUS LIKE` answers with the name before it.
    pub log_syncs_query: Option<String>,
    /// What is done between cells, so that the next begins without the last one's debts.
    pub settle: Vec<SettleStep>,
    /// The signal that asks it to stop cleanly: `INT` or `TERM`.
    pub stop_signal: String,
    /// How long a clean stop may take, seconds.
    pub stop_limit_s: u64,
    /// How long it may take until it answers, seconds: recovery after a crash included.
    pub ready_limit_s: u64,
    /// The server that must run behind it, and has its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Box<Backend>>,
}

/// A program that makes a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitCommand {
    /// The program, below the prefix.
    pub program: String,
    /// Its arguments. An argument that is `{settings}` and nothing else becomes all arguments that the settings come to:
    /// MySQL up to 5.5 does not start with another log size than the data directory was made with.
    pub arguments: Vec<String>,
    /// Directories made before, for example `{data}/mysql`.
    pub directories: Vec<String>,
    /// What it reads: pieces one after another, a text or, with `<` before it, a file below the prefix.
    pub input: Vec<String>,
}

/// How a setting becomes an argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassedAs {
    /// Arguments in which `{value}` stands for the value, `{value/2}` for half of it, and `{value/1024}` for it in the next
    /// larger unit; an empty value passes nothing.
    Argument(Vec<String>),
    /// Other arguments for each value; a value that is not here passes nothing.
    ByValue(BTreeMap<String, Vec<String>>),
}

/// One step of settling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleStep {
    /// A statement; `{table}` makes it one for each table.
    pub statement: String,
    /// With this the statement asks for a number, and is repeated until it is at most this.
    pub until_at_most: Option<u64>,
    /// How long that may take, seconds.
    pub limit_s: u64,
}

impl ServerRecipe {
    /// The arguments that these settings come to.
    pub fn setting_arguments(&self, settings: &BTreeMap<String, String>) -> Vec<String> {
        let of = |(name, value): (&String, &String)| match self.settings.get(name) {
            Some(PassedAs::Argument(arguments)) if !value.is_empty() => {
                arguments.iter().map(|argument| with_value(argument, value)).collect()
            }
            Some(PassedAs::ByValue(by_value)) => by_value.get(value).cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        settings.iter().flat_map(of).collect()
    }

    /// What is to be installed before it can be started.
    pub fn package(&self) -> Package<'_> {
        Package {
            sources: &self.sources,
            series: &self.series,
            file: &self.program,
            own_root: self.own_root,
            shim: None,
        }
    }

    /// All that is to be installed for the engine of this name, with the names that it is installed under: its own
    /// programs first, then those of the server behind it.
    pub fn packages<'a>(&'a self, name: &'a str) -> Vec<(&'a str, Package<'a>)> {
        let behind = self.backend.as_ref();
        let behind = behind.map(|backend| (backend.engine.as_str(), backend.recipe.package()));
        std::iter::once((name, self.package())).chain(behind).collect()
    }

    /// The URL of the server, if it is one that runs already.
    pub fn running_url(&self) -> Option<&str> {
        self.sources.iter().find_map(|source| match source {
            Source::Running { url } => Some(url.as_str()),
            _ => None,
        })
    }

    /// Reads `[[source]]` and `[server]`.
    pub(crate) fn read(sources: &Entry, server: Table) -> Result<ServerRecipe, InputError> {
        let mut server = server;
        let sources = read_sources(sources)?;
        let init = list(&mut server, "init", read_init)?;
        let settle = list(&mut server, "settle", read_settle)?;
        let recipe = ServerRecipe {
            sources,
            series: text_or_empty(&mut server, "series")?,
            own_root: flag(&mut server, "own_root")?,
            program: server.required("program")?.text()?,
            arguments: texts(&mut server, "arguments")?,
            arguments_with_port: texts(&mut server, "arguments_with_port")?,
            arguments_without_port: texts(&mut server, "arguments_without_port")?,
            settings: BTreeMap::new(),
            environment: read_environment(server.table("environment")?)?,
            init,
            socket: server.required("socket")?.text()?,
            user: server.required("user")?.text()?,
            version_query: server.required("version_query")?.text()?,
            settings_query: server.required("settings_query")?.text()?,
            log_syncs_query: server
                .optional("log_syncs_query")
                .map(|entry| entry.text())
                .transpose()?,
            settle,
            stop_signal: server.required("stop_signal")?.word(&["INT", "TERM"])?,
            stop_limit_s: server.required("stop_limit_s")?.integer(1..=86_400)?,
            ready_limit_s: server.required("ready_limit_s")?.integer(1..=86_400)?,
            backend: None,
        };
        server.finish()?;
        Ok(recipe)
    }
}

/// `{value}` is the value, `{value/2}` half of it, for what a server makes two of, and `{value/1024}` the same in a larger
/// unit, with its fraction, for a server that counts in that.
fn with_value(argument: &str, value: &str) -> String {
    let number = value.parse::<u64>().ok();
    let or_as_it_is = |text: Option<String>| text.unwrap_or_else(|| value.to_owned());
    let half = or_as_it_is(number.map(|all| (all / 2).to_string()));
    let larger = or_as_it_is(number.map(|all| (all as f64 / 1024.0).to_string()));
    argument.replace("{value/2}", &half).replace("{value/1024}", &larger).replace("{value}", value)
}

fn read_environment(mut table: Table) -> Result<BTreeMap<String, String>, InputError> {
    table.rest().into_iter().map(|entry| Ok((entry.key.clone(), entry.text_or_blank()?))).collect()
}

fn read_init(mut table: Table) -> Result<InitCommand, InputError> {
    let command = InitCommand {
        program: table.required("program")?.text()?,
        arguments: texts(&mut table, "arguments")?,
        directories: texts(&mut table, "directories")?,
        input: texts(&mut table, "input")?,
    };
    table.finish()?;
    Ok(command)
}

fn read_settle(mut table: Table) -> Result<SettleStep, InputError> {
    let until_at_most = table.optional("until_at_most");
    let limit_s = table.optional("limit_s");
    let step = SettleStep {
        statement: table.required("statement")?.text()?,
        until_at_most: until_at_most.map(|entry| entry.integer(0..=u64::MAX)).transpose()?,
        limit_s: limit_s.map_or(Ok(60), |entry| entry.integer(1..=86_400))?,
    };
    table.finish()?;
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values stand in arguments as servers want them; what is no number is not divided.
    #[test]
    fn values_become_arguments() {
        let check = |argument: &str, value: &str, expected: &str| {
            assert_eq!(with_value(argument, value), expected, "{argument} {value}");
        };
        check("--cache={value}M", "300", "--cache=300M");
        check("--log={value/2}M", "65", "--log=32M");
        check("{value/1024}", "256", "0.25");
        check("{value/1024}", "300", "0.29296875");
        check("{value/1024}", "2048", "2");
        check("{value/2} {value/1024} {value}", "on", "on on on");
    }
}
