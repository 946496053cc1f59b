//! A server that has begun: watched, stopped, killed, and reaped with all that it started.

use super::{Site, log, port};
use crate::error::{ProvisionError, Trouble};
use crate::leftovers::family::{forget_child, members};
use crate::leftovers::record::Record;
use crate::leftovers::{shared_memory, sweep};
use crate::system_calls::send_signal;
use dbdyno_host::clock::monotonic_ns;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
const PAUSE: Duration = Duration::from_millis(2);
/// How long a server that ignored its own signal has to follow SIGTERM.
const TERM_LIMIT_NS: u64 = 10 * SECOND_NS;

/// A server that is a child of this process. Dropped without being stopped, it is killed.
#[derive(Debug)]
pub struct RunningServer {
    name: String,
    child: Child,
    record: Record,
    record_path: PathBuf,
    log: PathBuf,
    log_from: u64,
    port: Option<u16>,
    stop_signal: libc::c_int,
    stop_limit_ns: u64,
    ready_limit_ns: u64,
    /// How it ended, once that is known and everything of it is reaped.
    end: Option<String>,
}

/// How a server was brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopWay {
    /// It followed its own signal.
    Clean,
    /// It followed SIGTERM only, after its own signal and the recipe's limit.
    Terminated,
    /// It had to be killed.
    Killed,
    /// It had ended before it was asked.
    EndedBefore,
}

/// How stopping went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// How it was brought to its end.
    pub way: StopWay,
    /// From asking until nothing of it was left, ns.
    pub took_ns: u64,
    /// How its process ended, as the end of a sentence that begins with "it".
    pub end: String,
}

impl RunningServer {
    pub(super) fn new(
        site: &Site,
        child: Child,
        record: Record,
        record_path: PathBuf,
        port: Option<u16>,
        log_from: u64,
    ) -> RunningServer {
        let recipe = &site.recipe;
        RunningServer {
            name: site.name.clone(),
            child,
            record,
            record_path,
            log: site.log(),
            log_from,
            port,
            stop_signal: if recipe.stop_signal == "INT" { libc::SIGINT } else { libc::SIGTERM },
            stop_limit_ns: recipe.stop_limit_s * SECOND_NS,
            ready_limit_ns: recipe.ready_limit_s * SECOND_NS,
            end: None,
        }
    }

    #[cfg(test)]
    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.record.server.pid
    }

    /// When its process started, clock ticks after boot.
    pub fn start_time(&self) -> u64 {
        self.record.server.start_time
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.record.socket
    }

    /// Its loopback port, if it has one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The last lines of what it printed since it was started.
    pub fn log_tail(&self, lines: usize) -> String {
        log::tail(&self.log, self.log_from, lines)
    }

    /// Notes the shared memory files that it has now, once it answers, so that they can be removed after a kill. Servers
    /// with a `/dev/shm` of their own have none to note.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn note_shared_memory(&mut self) -> Result<(), ProvisionError> {
        let pids = members(&self.record).into_iter().map(|mark| mark.pid);
        let files: Vec<PathBuf> = shared_memory::mapped_files(pids).into_iter().collect();
        if files != self.record.shared_files {
            self.record.shared_files = files;
            self.record.write(&self.record_path)?;
        }
        Ok(())
    }

    /// How it ended and its last log lines; `None` while it runs. Once it has ended, all that it started is ended and
    /// reaped before this returns.
    pub fn ended(&mut self) -> Option<String> {
        if self.end.is_none() {
            let end = match self.child.try_wait() {
                Ok(None) => return None,
                Ok(Some(status)) => describe(status),
                Err(error) => format!("could not be waited for: {error}"),
            };
            forget_child(self.child.id());
            self.clean_up();
            self.end = Some(end);
        }
        let end = self.end.as_deref().unwrap_or_default();
        Some(format!("it {end}; {}", log::quoted(&self.log, self.log_from)))
    }

    /// Stops it: its own signal and the recipe's limit, then SIGTERM, then SIGKILL; and reaps all that it started.
    ///
    /// # Errors
    /// If something of it survives even that.
    pub fn stop(mut self) -> Result<StopReport, ProvisionError> {
        let begin = monotonic_ns();
        let way = if self.ended().is_some() {
            StopWay::EndedBefore
        } else if self.ends_by(self.stop_signal, self.stop_limit_ns) {
            StopWay::Clean
        } else if self.ends_by(libc::SIGTERM, TERM_LIMIT_NS) {
            StopWay::Terminated
        } else {
            StopWay::Killed
        };
        let survivors = self.end_now();
        let took_ns = monotonic_ns() - begin;
        if survivors.is_empty() {
            return Ok(StopReport { way, took_ns, end: self.end.clone().unwrap_or_default() });
        }
        let text = format!(
            "{} cannot be ended: processes {survivors:?} are there in spite of SIGKILL; a disk that does not answer holds them",
            self.name
        );
        Err(ProvisionError::new(Trouble::Server, text))
    }

    /// Ends it at once by SIGKILL, as a crash would, with all that it started.
    pub fn kill(mut self) {
        self.end_now();
    }

    /// Waits until it listens on its port. Returns how it ended if it did before; nothing if it listens, has no port,
    /// or takes longer than the recipe allows, which the caller then sees by asking it.
    pub(super) fn wait_for_port(&mut self) -> Option<String> {
        let port = self.port?;
        let deadline = monotonic_ns() + self.ready_limit_ns;
        while monotonic_ns() < deadline && !self.has(&port::listeners(port)) {
            if let Some(words) = self.ended() {
                return Some(words);
            }
            sleep(PAUSE);
        }
        None
    }

    /// Whether one of its processes holds one of these sockets.
    fn has(&self, sockets: &[String]) -> bool {
        let holds = |pid: u32| port::sockets_of(pid).any(|socket| sockets.contains(&socket));
        !sockets.is_empty() && members(&self.record).into_iter().any(|mark| holds(mark.pid))
    }

    fn ends_by(&mut self, signal: libc::c_int, limit_ns: u64) -> bool {
        let deadline = monotonic_ns() + limit_ns;
        // The process is a child that was not waited for, so its id is still its own.
        let _ = send_signal(self.pid() as i32, signal);
        while self.ended().is_none() {
            if monotonic_ns() > deadline {
                return false;
            }
            sleep(PAUSE);
        }
        true
    }

    /// SIGKILL for what is left of it. Returns who survives.
    fn end_now(&mut self) -> Vec<u32> {
        if self.end.is_some() {
            return Vec::new();
        }
        // All at once and the server first: backends that saw it die would begin to clean up.
        let _ = send_signal(-(self.pid() as i32), libc::SIGKILL);
        let survivors = self.clean_up();
        if survivors.is_empty() {
            self.end = Some(self.child.wait().map_or_else(|error| error.to_string(), describe));
            forget_child(self.child.id());
        }
        survivors
    }

    fn clean_up(&mut self) -> Vec<u32> {
        let survivors = sweep(&self.record).survivors;
        if survivors.is_empty() {
            let _ = fs::remove_file(&self.record_path);
        }
        survivors
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.end_now();
    }
}

/// How a process ended, as the end of a sentence.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "ended".to_owned(),
    }
}
