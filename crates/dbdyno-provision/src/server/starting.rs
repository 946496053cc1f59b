//! From a site to a data directory, and to a server that has begun.

use super::running::{RunningServer, describe};
use super::words::{PORT_NAME, Words, init_arguments, server_arguments};
use super::{Site, log, port, prepare};
use crate::error::{ProvisionError, Trouble};
use crate::identity::{Identity, NONCE_VARIABLE, ProcessMark, boot_id, new_nonce};
use crate::launch::order::LaunchOrder;
use crate::launch::root::MOUNT_POINT;
use crate::leftovers::family::{await_child, forget_child};
use crate::leftovers::record::{RECORD_FORMAT, Record, file_mark, record_path, state_directory};
use crate::leftovers::sweep;
use dbdyno_host::clock::wall_clock_s;
use dbdyno_plan::InitCommand;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How many ports are tried.
const PORT_TRIES: usize = 3;

/// Makes the data directory with the recipe's commands, as the server's user. It must not be there already.
///
/// # Errors
/// If a command fails; its last lines are in the message.
pub fn init(site: &Site) -> Result<(), ProvisionError> {
    init_in(site, &state_directory()?)
}

pub(super) fn init_in(site: &Site, state: &Path) -> Result<(), ProvisionError> {
    let identity = Identity::of_servers();
    let words = Words::of(site, PORT_NAME);
    if site.data().exists() {
        let text = format!(
            "{} is there already: remove it to make a new data directory for {}",
            site.data().display(),
            site.name
        );
        return Err(ProvisionError::new(Trouble::CannotWrite, text));
    }
    prepare::directories(site, identity)?;
    prepare::directory(&site.data(), identity)?;
    for command in &site.recipe.init {
        for directory in words.all(&command.directories) {
            prepare::directory(Path::new(&directory), identity)?;
        }
        run_init(site, state, &words, command)?;
    }
    Ok(())
}

fn run_init(
    site: &Site,
    state: &Path,
    words: &Words,
    command: &InitCommand,
) -> Result<(), ProvisionError> {
    let input = site.directory.join("input");
    let arguments = init_arguments(site, words, &command.arguments);
    let mut start = Start::new(site, &command.program, arguments, words)?;
    if !command.input.is_empty() {
        // A file and no pipe: a program that does not read all of it cannot hang either side.
        fs::write(&input, input_text(site, command)?).map_err(prepare::cannot("write", &input))?;
        start.order.input = Some(input.clone());
    }
    let (mut child, record, path) = start.launch(site, state)?;
    let status = child.wait();
    forget_child(child.id());
    // A failed program may leave helpers behind, for example initdb its single-user server.
    sweep(&record);
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(&input);
    let how = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => describe(status),
        Err(error) => format!("could not be waited for: {error}"),
    };
    let text = format!(
        "{} cannot make a data directory for {}: it {how}; {}",
        command.program,
        site.name,
        log::quoted(&site.log(), start.log_from)
    );
    Err(ProvisionError::new(Trouble::Server, text))
}

/// Texts and files below the prefix, one after another.
fn input_text(site: &Site, command: &InitCommand) -> Result<Vec<u8>, ProvisionError> {
    let mut bytes = Vec::new();
    for piece in &command.input {
        match piece.strip_prefix('<') {
            Some(file) => {
                let path = site.prefix.join(file.trim_start_matches('/'));
                bytes.extend(fs::read(&path).map_err(|error| {
                    let text = format!(
                        "{} has no {}, which its recipe reads to make a data directory: {error}",
                        site.name,
                        path.display()
                    );
                    ProvisionError::new(Trouble::WrongContent, text)
                })?);
            }
            None => bytes.extend(piece.as_bytes()),
        }
    }
    Ok(bytes)
}

/// Starts the server, from a thread that must live as long as it, and returns once its program is executed, with a port
/// once it listens there. Whether it answers is for the caller to ask.
///
/// # Errors
/// If the host or the directory cannot have it, or with a port if it ended before it listened.
pub fn start(site: &Site) -> Result<RunningServer, ProvisionError> {
    start_in(site, &state_directory()?)
}

pub(super) fn start_in(site: &Site, state: &Path) -> Result<RunningServer, ProvisionError> {
    if site.backend.is_none() {
        prepare::directories(site, Identity::of_servers())?;
    }
    if !site.with_port {
        return start_once(site, state, None);
    }
    start_on(site, state, port::free)
}

/// Starts it on a port that `choose` gives, and on another one if somebody takes that before the server does.
pub(super) fn start_on(
    site: &Site,
    state: &Path,
    mut choose: impl FnMut() -> Result<u16, ProvisionError>,
) -> Result<RunningServer, ProvisionError> {
    let mut tried = Vec::new();
    loop {
        let port = choose()?;
        let mut server = start_once(site, state, Some(port))?;
        let Some(words) = server.wait_for_port() else { return Ok(server) };
        tried.push(port.to_string());
        // PostgreSQL and MySQL both say "Address already in use", which are the C library's words.
        let is_taken = words.to_lowercase().contains("in use");
        if is_taken && tried.len() < PORT_TRIES {
            continue;
        }
        let (name, ports) = (&site.name, tried.join(", "));
        let text = if is_taken {
            format!(
                "{name} got no port of 127.0.0.1: {ports} were free, and somebody else had each before the server did; \
                 run it again, with less going on, or without a port (transport = unix): {words}"
            )
        } else {
            format!("{name} did not start on port {port}: {words}")
        };
        return Err(ProvisionError::new(Trouble::Server, text));
    }
}

fn start_once(
    site: &Site,
    state: &Path,
    port: Option<u16>,
) -> Result<RunningServer, ProvisionError> {
    let words = Words::of(site, port.unwrap_or(PORT_NAME));
    words.check_socket(site)?;
    let arguments = server_arguments(site, &words);
    let start = Start::new(site, &site.recipe.program, arguments, &words)?;
    let (child, record, path) = start.launch(site, state)?;
    Ok(RunningServer::new(site, child, record, path, port, start.log_from))
}

/// One program about to be started.
struct Start {
    order: LaunchOrder,
    record: Record,
    log_from: u64,
}

impl Start {
    fn new(
        site: &Site,
        program: &str,
        arguments: Vec<String>,
        words: &Words,
    ) -> Result<Start, ProvisionError> {
        let program = program.trim_start_matches('/');
        let (identity, parent, nonce) = (Identity::of_servers(), ProcessMark::own()?, new_nonce()?);
        let file = site.prefix.join(program);
        let program_mark = file_mark(&file).ok_or_else(|| {
            let text =
                format!("{} has no program {}: is its prefix complete?", site.name, file.display());
            ProvisionError::new(Trouble::WrongContent, text)
        })?;
        let record = Record {
            format: RECORD_FORMAT,
            name: site.name.clone(),
            nonce: nonce.clone(),
            boot: boot_id(),
            identity,
            server: ProcessMark { pid: 0, start_time: 0 },
            parent,
            directory: site.directory.clone(),
            socket: words.socket(),
            program: program.to_owned(),
            program_mark,
            work_marks: [site.data(), site.run()]
                .iter()
                .filter_map(|path| file_mark(path))
                .collect(),
            mounts: mounts(site),
            started_s: wall_clock_s(),
            shared_files: Vec::new(),
        };
        let order = LaunchOrder {
            program: program.to_owned(),
            arguments,
            environment: environment(site, words, &nonce),
            prefix: site.prefix.clone(),
            directory: site.directory.clone(),
            within: site.run(),
            input: None,
            log: site.log(),
            identity,
            own_root: site.recipe.own_root,
            open_files: site.open_files,
            parent,
            record: None,
        };
        let log_from = fs::metadata(site.log()).map_or(0, |facts| facts.len());
        Ok(Start { order, record, log_from })
    }

    /// Starts the launcher and waits until it has become the program.
    fn launch(
        &self,
        site: &Site,
        state: &Path,
    ) -> Result<(Child, Record, PathBuf), ProvisionError> {
        let path = record_path(state, &self.record.nonce);
        let mut order = self.order.clone();
        order.record = Some((path.clone(), self.record.clone()));
        let failed = |error: std::io::Error| {
            let text = format!(
                "cannot start {} to launch {}: {error}",
                site.launcher.display(),
                site.name
            );
            ProvisionError::new(Trouble::Server, text)
        };
        let mut child = Command::new(&site.launcher)
            .arg("launch")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        await_child(child.id());
        let text = serde_json::to_vec(&order).unwrap_or_default();
        // A launcher that is gone already shows in what it says next.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(&text));
        let mut words = String::new();
        let _ = child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut words));
        let mut record = self.record.clone();
        match ProcessMark::of(child.id()) {
            Some(mark) if words.is_empty() => {
                record.server = mark;
                Ok((child, record, path))
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                forget_child(child.id());
                let _ = fs::remove_file(&path);
                Err(refused(site, &self.order.program, &words))
            }
        }
    }
}

/// What the launcher said: its first letter is the kind of trouble.
fn refused(site: &Site, program: &str, words: &str) -> ProvisionError {
    let trouble = if words.starts_with('H') { Trouble::HostLacks } else { Trouble::Server };
    let reason = words.get(1..).filter(|reason| !reason.is_empty());
    let reason = reason.unwrap_or("the launcher ended without a word");
    ProvisionError::new(trouble, format!("cannot start {program} of {}: {reason}", site.name))
}

/// What is mounted for it alone, for whoever reads the record.
fn mounts(site: &Site) -> Vec<String> {
    let root = site.directory.join(MOUNT_POINT).display().to_string();
    if site.recipe.own_root { vec![root] } else { Vec::new() }
}

fn environment(site: &Site, words: &Words, nonce: &str) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = [
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("HOME", site.run().display().to_string()),
        ("LC_ALL", "C".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let own = site.recipe.environment.iter();
    all.extend(own.map(|(name, value)| (name.clone(), words.replace(value))));
    all.insert(NONCE_VARIABLE.to_owned(), nonce.to_owned());
    all
}
