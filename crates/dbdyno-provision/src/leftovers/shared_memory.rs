//! Shared memory that outlives processes: System V segments and semaphores, and files in `/dev/shm`.
//!
//! Only servers without a namespace of their own can leave some. A segment or set of semaphores is a server's if its
//! user owns it, one of its processes made it, it is not older than the server, and no process is attached; a file, if
//! it was seen in the memory of one of its processes.

use super::record::Record;
use crate::system_calls::{remove_segment, remove_semaphores, semaphore_pid};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files in `/dev/shm` that these processes have in their memory. Asked before they are ended.
pub(crate) fn mapped_files(pids: impl IntoIterator<Item = u32>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let host = namespace_of("self");
    for pid in pids {
        // With a namespace of its own, the name means another file there, which goes by itself.
        if namespace_of(&pid.to_string()) != host {
            continue;
        }
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let paths = maps.lines().filter_map(|line| Some(&line[line.find("/dev/shm/")?..]));
        found.extend(paths.filter(|path| !path.ends_with(" (deleted)")).map(PathBuf::from));
    }
    found
}

fn namespace_of(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// Removes what a server left, whose processes were these and are all gone. Returns what, for a message.
pub(crate) fn remove(record: &Record, pids: &BTreeSet<u32>) -> Vec<String> {
    let mut removed = Vec::new();
    let table = |name: &str| fs::read_to_string(name).unwrap_or_default();
    for id in segments(&table("/proc/sysvipc/shm"), record, pids) {
        if remove_segment(id).is_ok() {
            removed.push(format!("shared memory segment {id}"));
        }
    }
    for id in semaphores(&table("/proc/sysvipc/sem"), record, pids) {
        if remove_semaphores(id).is_ok() {
            removed.push(format!("set of semaphores {id}"));
        }
    }
    let owned = |path: &&PathBuf| {
        path.parent() == Some(Path::new("/dev/shm"))
            && fs::symlink_metadata(path).is_ok_and(|facts| facts.uid() == record.identity.uid)
    };
    for path in record.shared_files.iter().filter(owned) {
        if fs::remove_file(path).is_ok() {
            removed.push(path.display().to_string());
        }
    }
    removed
}

/// Segments that this server's processes made. The table has a head line that names its columns.
fn segments(text: &str, record: &Record, pids: &BTreeSet<u32>) -> Vec<i32> {
    let is_ours = |row: &Row| {
        row.is_of(record)
            && row.number("cpid").is_some_and(|pid| pids.contains(&(pid as u32)))
            && row.number("nattch") == Some(0)
    };
    rows(text).filter(is_ours).filter_map(|row| row.number("shmid")).map(|id| id as i32).collect()
}

/// Sets of semaphores, of which the kernel remembers who changed each semaphore last, and not who made them.
fn semaphores(text: &str, record: &Record, pids: &BTreeSet<u32>) -> Vec<i32> {
    let changed_by_us = |row: &Row| {
        let (id, count) = (row.number("semid")? as i32, row.number("nsems")? as i32);
        (0..count)
            .filter_map(|index| semaphore_pid(id, index).ok())
            .any(|pid| pids.contains(&pid))
            .then_some(id)
    };
    rows(text).filter(|row| row.is_of(record)).filter_map(|row| changed_by_us(&row)).collect()
}

/// One line of a table, with the names of the columns.
struct Row<'a> {
    names: Vec<&'a str>,
    values: Vec<&'a str>,
}

impl Row<'_> {
    fn number(&self, name: &str) -> Option<u64> {
        let column = self.names.iter().position(|column| *column == name)?;
        self.values.get(column)?.parse().ok()
    }

    fn is_of(&self, record: &Record) -> bool {
        let made = self.number("ctime");
        self.number("cuid") == Some(u64::from(record.identity.uid))
            && made.is_some_and(|time| time >= record.started_s)
    }
}

fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    lines.map(move |line| Row { names: names.clone(), values: line.split_whitespace().collect() })
}
