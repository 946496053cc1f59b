//! The last lines of a server's log, for messages.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of the end is read: no message wants more.
const BYTES_MAX: u64 = 64 * 1024;
/// How many lines go into a message.
pub(super) const USUAL_LINES: usize = 12;

/// The last lines of a log that begins at `from`, joined; empty if there are none.
pub(super) fn tail(path: &Path, from: u64, lines: usize) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(end.saturating_sub(BYTES_MAX).max(from.min(end))))?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The end of a message: the log's last lines, or that there are none.
pub(super) fn quoted(path: &Path, from: u64) -> String {
    let tail = tail(path, from, USUAL_LINES);
    if tail.is_empty() {
        format!("its log, {}, says nothing", path.display())
    } else {
        format!("the last lines of its log, {}:\n{tail}", path.display())
    }
}
