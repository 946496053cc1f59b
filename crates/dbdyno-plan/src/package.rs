//! What must be installed for an engine, and where it comes from: the part that servers and libraries share.
//!
//! Nothing here fetches anything; that is the provisioner's work.

use serde::{Deserialize, Serialize};

use crate::input_error::InputError;
use crate::library_recipe::Shim;
use crate::toml_reader::{Entry, Table};
use crate::value::Raw;

/// What is to be installed, as a recipe has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package<'a> {
    /// Alternatives, the first that this host can use is taken.
    pub sources: &'a [Source],
    /// What the version must begin with.
    pub series: &'a str,
    /// The file below the prefix that it is about: a server's program, or a library.
    pub file: &'a str,
    /// Whether its programs must see the prefix as the root.
    pub own_root: bool,
    /// What is compiled against what was fetched, and becomes that file.
    pub shim: Option<&'a Shim>,
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
        /// What packages' own scripts would have done and the server needs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        build: Vec<BuildCommand>,
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
        /// `postgres://`, `mysql://` or `mongodb://`.
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

/// Reads `[[source]]`.
pub(crate) fn read_sources(sources: &Entry) -> Result<Vec<Source>, InputError> {
    sources.items()?.into_iter().map(read_source).collect()
}

pub(crate) fn text_or_empty(table: &mut Table, key: &str) -> Result<String, InputError> {
    table.optional(key).map_or(Ok(String::new()), |entry| entry.text_or_blank())
}

pub(crate) fn flag(table: &mut Table, key: &str) -> Result<bool, InputError> {
    table.optional(key).map_or(Ok(false), |entry| entry.flag())
}

/// A list of texts, which may be absent; unlike names, the same text may stand twice.
pub(crate) fn texts(table: &mut Table, key: &str) -> Result<Vec<String>, InputError> {
    let Some(entry) = table.optional(key) else { return Ok(vec![]) };
    entry.items()?.iter().map(Entry::text_or_blank).collect()
}

pub(crate) fn list<T>(
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
            build: list(&mut table, "build", read_build)?,
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
