//! `dbdyno engines up`, `down` and `settings`: one server by hand, outside of any run.
//!
//! `up` stays in the foreground and owns the server; `down` asks it to stop, from anywhere.

use crate::catalogue;
use crate::cli::{DownArgs, Question, SettingsArgs, UpArgs};
use crate::engines::{Engines, StartOrder, Started};
use crate::exit_code;
use crate::failure::Failure;
use crate::interrupt;
use crate::job::server::ServerOrder;
use crate::output;
use crate::view::text::align;
use crate::workspace::cannot;
use dbdyno_host::process_tree::process_start_time;
use dbdyno_plan::{Plan, PlannedEngine, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks whether something has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// `down` waits this much longer than a clean stop may take.
const DOWN_GRACE: Duration = Duration::from_secs(10);

/// A server that is up, as a file says it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Up {
    /// The `dbdyno engines up` that owns it.
    pub pid: u32,
    /// When that started, to tell it from a later process with its number.
    pub start_time: u64,
    /// How long its clean stop may take, seconds.
    pub stop_limit_s: u64,
}

/// Where the file of an engine lies that is up.
fn file_of(cache: &Path, label: &str) -> PathBuf {
    cache.join("up").join(format!("{}.json", label.replace(':', "-")))
}

/// The owner of an engine that is up, if it lives.
pub fn find_up(cache: &Path, label: &str) -> Option<Up> {
    let text = fs::read_to_string(file_of(cache, label)).ok()?;
    let up: Up = serde_json::from_str(&text).ok()?;
    (process_start_time(up.pid).ok()? == up.start_time).then_some(up)
}

/// The right to be the one that has an engine up, for as long as the file is open. Two that begin at the same moment
/// would otherwise work on the same directory before either is up.
fn sole_owner(cache: &Path, label: &str) -> Result<File, Failure> {
    let directory = cache.join("up");
    let path = directory.join(format!("{}.lock", label.replace(':', "-")));
    fs::create_dir_all(&directory).map_err(cannot("make", &directory))?;
    let lock = File::create(&path).map_err(cannot("make", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let advice = format!("`dbdyno engines down {label}` stops it once it is up");
            let message = format!("{label} is being started by another dbdyno: {advice}");
            Err(Failure::new(exit_code::NO_SERVER, message))
        }
        Err(TryLockError::Error(error)) => Err(cannot("lock", &path)(error)),
    }
}

/// Where a server by hand works.
struct Place {
    directory: PathBuf,
    /// Made for this one time, and removed after it.
    is_temporary: bool,
}

/// What a server's own directory may hold: everything in it is given to the server's user.
const OWN_ENTRIES: &[&str] = &["data", "run", "tmp", "root", "log", "front.log", "input"];

impl Place {
    /// The user's directory must be one that a server can have for itself.
    fn of_user(directory: &Path) -> Result<Place, Failure> {
        let directory = std::path::absolute(directory).map_err(cannot("find", directory))?;
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(cannot("read", &directory))?.flatten().collect::<Vec<_>>(),
        };
        let names = entries.iter().map(fs::DirEntry::file_name);
        let mut names = names.map(|name| name.to_string_lossy().into_owned());
        if let Some(other) = names.find(|name| !OWN_ENTRIES.contains(&name.as_str())) {
            let message = format!(
                "{} holds {other}, which no server's directory does: name a new directory, or one that `engines up` made",
                directory.display()
            );
            return Err(Failure::new(exit_code::WRONG_INPUT, message));
        }
        Ok(Place { directory, is_temporary: false })
    }

    fn clear(&self) -> Result<(), Failure> {
        if !self.is_temporary {
            return Ok(());
        }
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(cannot("remove", &self.directory)(error))
            }
            _ => Ok(()),
        }
    }
}

/// What the names of directories begin with in which `settings` starts servers.
const SETTINGS: &str = "settings-";

/// Where this process's `settings` starts its server: the name says whose it is, by number and start.
fn settings_directory(cache: &Path) -> Result<PathBuf, Failure> {
    let pid = std::process::id();
    Ok(cache.join("up").join(format!("{SETTINGS}{pid}-{}", process_start_time(pid)?)))
}

/// Removes what a killed `settings` left in the cache; its server was ended before. What cannot be removed now is tried
/// again by the next one.
fn sweep_settings(cache: &Path) {
    let is_left = |name: &str| {
        let (pid, start_time) = name.strip_prefix(SETTINGS)?.split_once('-')?;
        let (pid, start_time) = (pid.parse().ok()?, start_time.parse::<u64>().ok()?);
        Some(process_start_time(pid).ok() != Some(start_time))
    };
    for entry in fs::read_dir(cache.join("up")).into_iter().flatten().flatten() {
        if entry.file_name().to_str().and_then(is_left) == Some(true) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// One engine with all its settings, planned as any experiment would.
struct OneEngine {
    plan: Plan,
}

impl OneEngine {
    fn plan(name: &str, set: &[String]) -> Result<OneEngine, Failure> {
        let question = Question {
            experiment: Some("biebermarks".to_owned()),
            engine: vec![name.to_owned()],
            scale: None,
            quick: true,
            set: set.to_vec(),
        };
        let plan = catalogue::plan(&question)?;
        let one = OneEngine { plan };
        if one.engine()?.server.is_none() {
            let name = &one.engine()?.name;
            let message =
                format!("{name} is a library that runs inside dbdyno: there is no server to start");
            return Err(Failure::new(exit_code::WRONG_INPUT, message));
        }
        Ok(one)
    }

    fn engine(&self) -> Result<&PlannedEngine, Failure> {
        self.plan.engines.first().ok_or_else(|| Failure::other("a plan without an engine"))
    }

    fn settings(&self) -> Result<&BTreeMap<String, Value>, Failure> {
        let runs = self.plan.trials_to_run().next();
        let missing = || {
            let reasons = self.plan.trials.iter().find_map(|trial| match &trial.fate {
                dbdyno_plan::Fate::Unsupported(reason) => Some(reason.clone()),
                _ => None,
            });
            Failure::new(exit_code::WRONG_INPUT, reasons.unwrap_or_default())
        };
        Ok(&runs.ok_or_else(missing)?.engine_settings)
    }

    /// Installs it and starts it on the data in `place`, which is made if there is none.
    fn start(&self, cache: &Path, place: &Place, with_port: bool) -> Result<Started, Failure> {
        for left in Engines::prepare_process()? {
            eprintln!("{left}");
        }
        sweep_settings(cache);
        let servers = Engines::install(&self.plan, cache, false)?;
        // What a killed one left may be half made, and for other settings.
        place.clear()?;
        let started = self.start_installed(&servers, place, with_port);
        if started.is_err() {
            place.clear()?;
        }
        started
    }

    fn start_installed(
        &self,
        servers: &Engines,
        place: &Place,
        with_port: bool,
    ) -> Result<Started, Failure> {
        let (engine, directory) = (self.engine()?, &place.directory);
        let order = StartOrder { engine, settings: self.settings()?, directory, with_port };
        let is_named = engine.server.as_ref().is_some_and(|recipe| recipe.running_url().is_some());
        if !is_named {
            fs::create_dir_all(directory).map_err(cannot("make", directory))?;
            let data = directory.join("data");
            if !data.exists() {
                servers.init(&order).inspect_err(|_| {
                    // A data directory that is half made would be taken for a whole one the next time.
                    let _ = fs::remove_dir_all(&data);
                })?;
            }
        }
        servers.start(&order)
    }
}

/// Runs `up`.
pub fn up(args: &UpArgs) -> Result<u8, Failure> {
    let one = OneEngine::plan(&args.engine, &args.set)?;
    let label = one.engine()?.label.clone();
    let cache = args.cache.directory()?;
    if let Some(up) = find_up(&cache, &label) {
        let message = format!(
            "{label} is up already, by process {}: `dbdyno engines down {label}` stops it",
            up.pid
        );
        return Err(Failure::new(exit_code::NO_SERVER, message));
    }
    let place = match &args.directory {
        Some(directory) => Place::of_user(directory)?,
        None => {
            let directory = cache.join("up").join(label.replace(':', "-"));
            let directory = std::path::absolute(&directory).map_err(cannot("find", &directory))?;
            Place { directory, is_temporary: true }
        }
    };
    interrupt::listen()?;
    let _sole_owner = sole_owner(&cache, &label)?;
    let mut started = one.start(&cache, &place, args.port)?;
    let file = file_of(&cache, &label);
    let pid = std::process::id();
    let up = Up {
        pid,
        start_time: process_start_time(pid)?,
        stop_limit_s: one.engine()?.server.as_ref().map_or(60, |recipe| recipe.stop_limit_s),
    };
    fs::write(&file, serde_json::to_string(&up).map_err(Failure::json)?)
        .map_err(cannot("write", &file))?;
    output::print(&how_to_connect(&label, &started))?;
    let ended = loop {
        if let Some(how) = started.ended() {
            break Some(how);
        }
        if interrupt::has_come() {
            break None;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let stopped = started.stop();
    place.clear()?;
    fs::remove_file(&file).map_err(cannot("remove", &file))?;
    stopped?;
    match ended {
        Some(how) => {
            Err(Failure::new(exit_code::NO_SERVER, format!("{label}: the server ended: {how}")))
        }
        None => Ok(exit_code::DONE),
    }
}

fn how_to_connect(label: &str, started: &Started) -> String {
    let ServerOrder { socket, host_and_port, user, .. } = &started.order;
    let mut rows = vec![vec!["version".to_owned(), started.receipt.version.clone()]];
    if let Some(socket) = socket {
        rows.push(vec!["socket".to_owned(), socket.display().to_string()]);
    }
    if let Some((host, port)) = host_and_port {
        rows.push(vec!["port".to_owned(), format!("{host}:{port}")]);
    }
    rows.push(vec!["user".to_owned(), format!("{user}, no password")]);
    rows.push(vec!["database".to_owned(), crate::job::server::DATABASE.to_owned()]);
    format!(
        "{label} is up\n{}stop it with Ctrl-C or `dbdyno engines down {label}`\n",
        align(&rows, 2)
    )
}

/// Runs `down`.
pub fn down(args: &DownArgs) -> Result<u8, Failure> {
    let one = OneEngine::plan(&args.engine, &[])?;
    let label = &one.engine()?.label;
    let cache = args.cache.directory()?;
    let Some(up) = find_up(&cache, label) else {
        let message = format!("{label} is not up");
        return Err(Failure::new(exit_code::WRONG_INPUT, message));
    };
    // SAFETY: a signal to a process that this cache's file names and whose start time was checked; no memory is involved.
    if unsafe { libc::kill(up.pid as libc::pid_t, libc::SIGTERM) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Failure::other(format!("cannot signal process {}: {error}", up.pid)));
    }
    let by = Instant::now() + Duration::from_secs(up.stop_limit_s) + DOWN_GRACE;
    while find_up(&cache, label).is_some() {
        if Instant::now() >= by {
            let message = format!("{label} does not stop; its owner is process {}", up.pid);
            return Err(Failure::new(exit_code::NO_SERVER, message));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(exit_code::DONE)
}

/// Runs `settings`: starts the engine for a moment and prints what it has in effect.
pub fn settings(args: &SettingsArgs) -> Result<u8, Failure> {
    let one = OneEngine::plan(&args.engine, &args.set)?;
    let cache = args.cache.directory()?;
    let directory = settings_directory(&cache)?;
    let directory = std::path::absolute(&directory).map_err(cannot("find", &directory))?;
    let place = Place { directory, is_temporary: true };
    interrupt::listen()?;
    let started = one.start(&cache, &place, false)?;
    let receipt = started.receipt.clone();
    let stopped = started.stop();
    place.clear()?;
    stopped?;
    let rows: Vec<Vec<String>> = std::iter::once(("version".to_owned(), receipt.version))
        .chain(receipt.settings)
        .map(|(name, value)| vec![name, value])
        .collect();
    output::print(&align(&rows, 2))?;
    Ok(exit_code::DONE)
}
