//! A place of their own for tests of the command: a temporary directory with a tiny experiment in it, the command
//! started there as a user starts it, and the bytes of what was recorded.
//!
//! Not a test itself. Everything runs in the directory, so processes of a test are known by where they run.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod host;

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Ten cells that run and two that do not, each twice: about six seconds.
pub const TINY: &str = "\
name = 'tiny'
question = 'Does the command keep its promises?'
workload = 'hot_row'
engines = ['sqlite', 'lmdb']

[vary]
tables = [1, 2]
dop = [1, 2, 4]

[hold]
rows = 200
dataset_tables = 2
warmup_s = 0.05
measured_s = 0.15
device_profile = false

[repeat]
count = 2
";

/// A directory in which commands run.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// With `tiny.toml` that says this. In memory where the host has such a place: one stall of a busy disk is longer
    /// than a whole interval of these tests, and leaves it without a request.
    pub fn with(experiment: &str) -> Place {
        let memory = tempfile::tempdir_in("/dev/shm");
        Place::at(memory.or_else(|_| tempfile::tempdir()), experiment)
    }

    /// The same on disk, where there is room.
    pub fn on_disk(experiment: &str) -> Place {
        Place::at(tempfile::tempdir(), experiment)
    }

    fn at(directory: std::io::Result<tempfile::TempDir>, experiment: &str) -> Place {
        let place = Place { directory: directory.expect("a temporary directory") };
        place.write("tiny.toml", experiment);
        place
    }

    /// The directory, without links in its path.
    pub fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().expect("it is there")
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).expect("writes");
    }

    /// The results directory, where the command has it by default.
    pub fn results(&self) -> PathBuf {
        self.path().join("results")
    }

    /// The command with arguments separated by blanks, not started yet.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dbdyno"));
        command.args(arguments.split_whitespace()).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &str) -> Ended {
        Ended::of(self.command(arguments).output().expect("the command starts"))
    }

    /// Ids of the runs in the results directory, oldest first.
    pub fn runs(&self) -> Vec<String> {
        dbdyno_record::list_runs(&self.results()).expect("a readable results directory")
    }

    /// The id of the only run.
    pub fn only_run(&self) -> String {
        let mut runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }
}

/// How a command ended.
pub struct Ended {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said beside that.
    pub stderr: String,
}

impl Ended {
    /// From the output of a process.
    pub fn of(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("it prints UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("it prints UTF-8"),
        }
    }

    /// Fails the test unless the command ended with this code.
    pub fn expect(self, code: u8, about: &str) -> Ended {
        let Ended { code: found, stdout, stderr } = &self;
        assert_eq!(*found, Some(code.into()), "{about}\n{stdout}\n{stderr}");
        self
    }

    /// Its standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ended { code, stdout, stderr } = self;
        write!(formatter, "exit code {code:?}\nstdout:\n{stdout}\nstderr:\n{stderr}")
    }
}

/// All files below a directory, by path, with their bytes.
pub fn bytes_below(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a readable directory").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let bytes = fs::read(&path).expect("a readable file");
                files.insert(path, bytes);
            }
        }
    }
    files
}

/// Copies a directory with all that is below it.
pub fn copy(from: &Path, to: &Path) {
    for (path, bytes) in bytes_below(from) {
        let path = to.join(path.strip_prefix(from).expect("it is below"));
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("makes");
        fs::write(path, bytes).expect("writes");
    }
}

/// The cells of `show --json`, as `engine tables dop` with n of the throughput and the ends of the trials.
pub fn cells(shown: &Value) -> BTreeMap<String, (u64, Vec<String>)> {
    let cells = shown["cells"].as_array().expect("cells");
    let words = cells.iter().map(|cell| {
        let factors = &cell["factors"];
        let key = format!("{} {} {}", cell["engine"], factors["tables"], factors["dop"]);
        let n = cell["metrics"]["throughput_per_s"]["n"].as_u64().unwrap_or(0);
        let trials = cell["trials"].as_array().expect("trials");
        let ends = trials.iter().map(|trial| trial["trial_end"].as_str().expect("a word").into());
        (key.replace('"', ""), (n, ends.collect()))
    });
    words.collect()
}
