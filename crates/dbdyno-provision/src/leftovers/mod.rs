//! What a killed dbdyno left running, found by the records that its launchers wrote, and ended.
//!
//! A server whose dbdyno is alive is never touched, nor a process that is not proved to be a recorded server's.

pub(crate) mod family;
pub mod record;
pub(crate) mod shared_memory;

use crate::error::ProvisionError;
use crate::identity::boot_id;
use record::Record;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Ends the servers that a dead dbdyno left, and removes their shared memory, sockets and records. One sentence for each.
/// `state` is [`record::state_directory`]'s.
///
/// # Errors
/// If the records cannot be read.
pub fn sweep_leftovers(state: &Path) -> Result<Vec<String>, ProvisionError> {
    let boot = boot_id();
    let mut done = Vec::new();
    for (path, record) in Record::all(state)? {
        if record.boot == boot {
            if record.parent.is_there() {
                continue;
            }
            let what = sweep(&record);
            // What would not die is tried again by the next sweep.
            if what.survivors.is_empty() {
                let _ = fs::remove_file(&path);
            }
            done.push(what.sentence(&record));
        } else {
            // The host was started anew since: its processes and their memory are gone.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(done)
}

/// What was done about one server.
pub(crate) struct Swept {
    ended: usize,
    pub(crate) survivors: Vec<u32>,
    removed: Vec<String>,
}

/// Ends all of a server and removes what it left, but not its directory and not its record.
pub(crate) fn sweep(record: &Record) -> Swept {
    let mut record = record.clone();
    let mut pids: BTreeSet<u32> = family::members(&record).iter().map(|mark| mark.pid).collect();
    let seen = shared_memory::mapped_files(pids.iter().copied());
    record.shared_files.extend(seen);
    pids.insert(record.server.pid);
    let (ended, survivors) = family::end_all(&record);
    let mut removed = shared_memory::remove(&record, &pids);
    let socket = record.socket.clone();
    let lock = socket.with_file_name(format!("{}.lock", file_name(&socket)));
    for path in [socket, lock] {
        if path.starts_with(&record.directory) && fs::remove_file(&path).is_ok() {
            removed.push(path.display().to_string());
        }
    }
    Swept { ended, survivors, removed }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Swept {
    fn sentence(&self, record: &Record) -> String {
        let ended = match self.ended {
            0 => "none of its processes was left".to_owned(),
            1 => "ended 1 process".to_owned(),
            many => format!("ended {many} processes"),
        };
        let removed = if self.removed.is_empty() {
            String::new()
        } else {
            format!(", removed {}", self.removed.join(", "))
        };
        let survivors = if self.survivors.is_empty() {
            String::new()
        } else {
            let pids: Vec<String> = self.survivors.iter().map(u32::to_string).collect();
            format!("; still there in spite of SIGKILL: {}", pids.join(", "))
        };
        let Record { name, directory, server, .. } = record;
        format!(
            "{name} (process {}, in {}) was left by a dbdyno that is dead: {ended}{removed}{survivors}",
            server.pid,
            directory.display()
        )
    }
}
