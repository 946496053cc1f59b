//! A server as data: where its programs come from, how a data directory is made, how it starts, answers and stops.
//!
//! The part of an engine file that only servers have. It is stored in the plan, so that a run is resumed with the
//! recipe that it began with. Nothing here fetches or starts anything; that is the provisioner's work.
//!
//! In arguments and files these words in braces are replaced: `prefix` (the installed programs), `data` (the data
//! directory), `run` (the server's own directory, with socket and log), `tmp`, `socket`, `port`. With `own_root` the
//! programs see the prefix as `/`, so paths of their own are written from there and `prefix` is not used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::input_error::InputError;
use crate::toml_reader::{Entry, Table};
use crate::value::Raw;

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
}

/// Where programs come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// An artifact of a Maven repository.
    Maven {
        /// `group:name:version`, perhaps with `:packaging` and `:classifier`.
        artifact: String,
        /// What the file must hash to.
        sha256: String,
        /// Its size.
        bytes: u64,
        /// How it becomes a prefix.
        unpack: Vec<Unpack>,
    },
    /// Packages of a Debian suite with all they depend on, through the host's own archive and its signed index.
    Debian {
        /// For example `bookworm`.
        suite: String,
        /// Packages asked for. The first one's version is the server's, and must be of the series.
        packages: Vec<String>,
        /// Size of all archives together, roughly: suites move.
        bytes: u64,
    },
    /// A release of the Python package index, to be built.
    Pypi {
        /// `name==version`.
        requirement: String,
        /// What the file must hash to.
        sha256: String,
        /// Its size.
        bytes: u64,
        /// How it becomes a source tree.
        unpack: Vec<Unpack>,
        /// What builds it.
        build: Vec<BuildCommand>,
    },
    /// A Go module, to be built.
    Go {
        /// `path@version`.
        module: String,
        /// The checksum of go.sum, `h1:...`.
        sum: String,
        /// Size of all it downloads, roughly.
        bytes: u64,
        /// What builds it.
        build: Vec<BuildCommand>,
    },
    /// A container image, exported, on a host that has a container engine.
    Image {
        /// Reference with digest.
        reference: String,
        /// Its size.
        bytes: u64,
    },
    /// A directory of the user's, used as it is.
    Path {
        /// It.
        directory: String,
    },
    /// A server that runs already. It is neither started nor stopped; the URL here has no password.
    Running {
        /// `postgres://` or `mysql://`.
        url: String,
    },
}

impl Source {
    /// What is downloaded, bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Source::Maven { bytes, .. }
            | Source::Debian { bytes, .. }
            | Source::Pypi { bytes, .. }
            | Source::Go { bytes, .. }
            | Source::Image { bytes, .. } => *bytes,
            Source::Path { .. } | Source::Running { .. } => 0,
        }
    }
}

/// One archive to unpack into the prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpack {
    /// A path in the prefix with at most one `*` in its last part; empty for the download itself.
    pub archive: String,
    /// Directory in the prefix that it goes into; empty for the prefix itself.
    pub into: String,
    /// Only entries whose path begins with this, which is cut off.
    pub below: String,
    /// Entries that are left out: paths after `below` was cut off, with `*` for anything, `/` included.
    pub exclude: Vec<String>,
    /// Files made executable afterwards: paths below `into`, with the same `*`.
    pub executable: Vec<String>,
}

/// A program that builds what was unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildCommand {
    /// The program, found on the host.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Directory below the prefix to run in.
    pub within: String,
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
    /// Arguments in which `{value}` stands for the value, and `{value/2}` for half of it; an empty value passes nothing.
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
        let sources =
            sources.items()?.into_iter().map(read_source).collect::<Result<Vec<_>, _>>()?;
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
        };
        server.finish()?;
        Ok(recipe)
    }
}

/// `{value}` is the value, `{value/2}` half of it, for what a server makes two of.
fn with_value(argument: &str, value: &str) -> String {
    let half = value.parse::<u64>().map_or_else(|_| value.to_owned(), |all| (all / 2).to_string());
    argument.replace("{value/2}", &half).replace("{value}", value)
}

fn text_or_empty(table: &mut Table, key: &str) -> Result<String, InputError> {
    table.optional(key).map_or(Ok(String::new()), |entry| entry.text_or_blank())
}

fn flag(table: &mut Table, key: &str) -> Result<bool, InputError> {
    table.optional(key).map_or(Ok(false), |entry| entry.flag())
}

/// A list of texts, which may be absent; unlike names, the same text may stand twice.
fn texts(table: &mut Table, key: &str) -> Result<Vec<String>, InputError> {
    let Some(entry) = table.optional(key) else { return Ok(vec![]) };
    entry.items()?.iter().map(Entry::text_or_blank).collect()
}

fn list<T>(
    table: &mut Table,
    key: &str,
    read: fn(Table) -> Result<T, InputError>,
) -> Result<Vec<T>, InputError> {
    let Some(entry) = table.optional(key) else { return Ok(vec![]) };
    // An empty list is how an engine does without what its family has here.
    if matches!(&entry.value, Raw::List(items) if items.is_empty()) {
        return Ok(vec![]);
    }
    entry.items()?.into_iter().map(|item| read(item.into_table()?)).collect()
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

fn read_unpack(mut table: Table) -> Result<Unpack, InputError> {
    let unpack = Unpack {
        archive: text_or_empty(&mut table, "archive")?,
        into: text_or_empty(&mut table, "into")?,
        below: text_or_empty(&mut table, "below")?,
        exclude: texts(&mut table, "exclude")?,
        executable: texts(&mut table, "executable")?,
    };
    table.finish()?;
    Ok(unpack)
}

fn read_build(mut table: Table) -> Result<BuildCommand, InputError> {
    let build = BuildCommand {
        program: table.required("program")?.text()?,
        arguments: texts(&mut table, "arguments")?,
        within: text_or_empty(&mut table, "within")?,
    };
    table.finish()?;
    Ok(build)
}

/// The keys that say what kind of source it is, of which each has exactly one.
const SOURCE_KINDS: &[&str] = &["maven", "debian", "pypi", "go", "image", "path", "url"];

fn read_source(entry: Entry) -> Result<Source, InputError> {
    let whole = entry.clone();
    let mut table = entry.into_table()?;
    let found: Vec<(&str, Entry)> = SOURCE_KINDS
        .iter()
        .filter_map(|&kind| table.optional(kind).map(|entry| (kind, entry)))
        .collect();
    let [(kind, value)] = found.as_slice() else {
        let why = format!("wants exactly one of {} in each item", SOURCE_KINDS.join(", "));
        return Err(whole.wrong(&why));
    };
    let source = match *kind {
        "maven" => Source::Maven {
            artifact: value.text()?,
            sha256: read_sha256(&mut table)?,
            bytes: read_bytes(&mut table)?,
            unpack: list(&mut table, "unpack", read_unpack)?,
        },
        "debian" => Source::Debian {
            suite: value.text()?,
            packages: texts(&mut table, "packages")?,
            bytes: read_bytes(&mut table)?,
        },
        "pypi" => Source::Pypi {
            requirement: value.text()?,
            sha256: read_sha256(&mut table)?,
            bytes: read_bytes(&mut table)?,
            unpack: list(&mut table, "unpack", read_unpack)?,
            build: list(&mut table, "build", read_build)?,
        },
        "go" => Source::Go {
            module: value.text()?,
            sum: table.required("sum")?.text()?,
            bytes: read_bytes(&mut table)?,
            build: list(&mut table, "build", read_build)?,
        },
        "image" => Source::Image { reference: value.text()?, bytes: read_bytes(&mut table)? },
        "path" => Source::Path { directory: value.text()? },
        _ => Source::Running { url: value.text()? },
    };
    table.finish()?;
    Ok(source)
}

fn read_bytes(table: &mut Table) -> Result<u64, InputError> {
    table.required("bytes")?.integer(1..=1_000_000_000_000)
}

fn read_sha256(table: &mut Table) -> Result<String, InputError> {
    let entry = table.required("sha256")?;
    let text = entry.text()?;
    let fits = text.len() == 64 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    if fits { Ok(text) } else { Err(entry.wrong("wants 64 digits of 0-9 and a-f")) }
}
