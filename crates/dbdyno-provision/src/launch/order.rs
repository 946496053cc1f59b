//! What the launcher is told: everything about one program to be started, as JSON on its standard input.

use crate::identity::{Identity, ProcessMark};
use crate::leftovers::record::Record;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One program to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOrder {
    /// The program: its path below `prefix`.
    pub program: String,
    /// Its arguments, ready.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// The installed programs.
    pub prefix: PathBuf,
    /// The server's own directory.
    pub directory: PathBuf,
    /// Directory to start in.
    pub within: PathBuf,
    /// What it reads; nothing without.
    pub input: Option<PathBuf>,
    /// Where its output and its errors go, at the end.
    pub log: PathBuf,
    /// Who it runs as.
    pub identity: Identity,
    /// Whether the prefix is to be its root.
    pub own_root: bool,
    /// How many files it may have open.
    pub open_files: u64,
    /// Who started the launcher, and must be alive.
    pub parent: ProcessMark,
    /// What is written down before the program begins, and where. The launcher fills in its own mark.
    pub record: Option<(PathBuf, Record)>,
}
