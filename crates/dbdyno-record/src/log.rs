//! The whole of `trials.jsonl`, checked and understood; shared by the reader and by resuming.
//!
//! The chain of seals is checked first, then what the lines say. A last line without its newline is torn: it was
//! being written when the run was stopped, and it is not part of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::disk;
use crate::error::{RecordError, Result};
use crate::format::{Ended, FileRecord, Header, TrialRecord};
use crate::layout::{PLAN_FILE, PLAN_FORMAT, RECORD_FORMAT, TRIALS_FILE};
use crate::seal::{Chain, SealedLine};

/// What a log says.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) header: Header,
    /// In the order in which they were sealed.
    pub(crate) trials: Vec<TrialRecord>,
    /// SHA-256 by name of the added files.
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) end: Option<Ended>,
    pub(crate) last_seal: String,
    /// Complete lines.
    pub(crate) lines: usize,
    /// Bytes after the last complete line.
    pub(crate) torn_bytes: usize,
}

/// Just enough of a first line to see its format, whatever else a newer format says there.
#[derive(Deserialize)]
struct FirstLine {
    record: Format,
}

/// Just enough of a header or a plan to see its format.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Log {
    /// Reads the bytes of `trials.jsonl` of the run in this directory.
    pub(crate) fn parse(run_directory: &Path, bytes: &[u8]) -> Result<Log> {
        let path = run_directory.join(TRIALS_FILE);
        let Some(end_of_header) = bytes.iter().position(|&byte| byte == b'\n') else {
            return Err(RecordError::Truncated { path });
        };
        if let Ok(first) = serde_json::from_slice::<FirstLine>(&bytes[..end_of_header])
            && first.record.format > RECORD_FORMAT
        {
            return Err(RecordError::newer_record(&path, first.record.format));
        }
        let mut chain = Chain::new(bytes);
        let mut log: Option<Log> = None;
        let mut sealed = BTreeSet::new();
        for line in chain.by_ref() {
            let line = line.map_err(|broken| RecordError::Edited {
                path: path.clone(),
                line: broken.line,
                what: broken.what.to_owned(),
            })?;
            let number = line.line;
            let understood = match &mut log {
                None => Log::begin(&line).map(|begun| log = Some(begun)),
                Some(log) => log.take(&line, &mut sealed),
            };
            understood.map_err(|what| not_understood(&path, number, what))?;
        }
        let Some(mut log) = log else { return Err(RecordError::Truncated { path }) };
        log.last_seal = chain.last_seal().to_owned();
        log.lines = chain.last_line();
        log.torn_bytes = chain.torn_bytes();
        if log.end.is_some() && log.torn_bytes > 0 {
            let what = "there is text after the line that seals the run".to_owned();
            return Err(RecordError::Edited { path, line: log.lines + 1, what });
        }
        Ok(log)
    }

    fn begin(line: &SealedLine<'_>) -> std::result::Result<Log, String> {
        if line.kind != "record" {
            return Err(format!("it begins with a `{}` line, not with a header", line.kind));
        }
        let header: Header = serde_json::from_str(line.body).map_err(|error| error.to_string())?;
        if header.format != RECORD_FORMAT {
            return Err(format!("there is no format {}", header.format));
        }
        Ok(Log {
            header,
            trials: Vec::new(),
            files: BTreeMap::new(),
            end: None,
            last_seal: String::new(),
            lines: 0,
            torn_bytes: 0,
        })
    }

    fn take(
        &mut self,
        line: &SealedLine<'_>,
        sealed: &mut BTreeSet<u32>,
    ) -> std::result::Result<(), String> {
        if self.end.is_some() {
            return Err("there is a line after the line that seals the run".to_owned());
        }
        let wrong = |error: serde_json::Error| error.to_string();
        match line.kind {
            "trial" => {
                let trial: TrialRecord = serde_json::from_str(line.body).map_err(wrong)?;
                if !sealed.insert(trial.trial) {
                    return Err(format!("trial {} is sealed twice", trial.trial));
                }
                self.trials.push(trial);
            }
            "file" => {
                let file: FileRecord = serde_json::from_str(line.body).map_err(wrong)?;
                if self.files.insert(file.name.clone(), file.sha256).is_some() {
                    return Err(format!("the file {} is added twice", file.name));
                }
            }
            "end" => {
                let end: Ended = serde_json::from_str(line.body).map_err(wrong)?;
                if usize::try_from(end.trials) != Ok(self.trials.len()) {
                    let sealed = self.trials.len();
                    return Err(format!("it counts {} trials of {sealed} sealed", end.trials));
                }
                self.end = Some(end);
            }
            other => return Err(format!("there is no line of the kind `{other}`")),
        }
        Ok(())
    }
}

/// Checks that a plan says a format number which this program reads, and gives the newer number otherwise.
pub(crate) fn plan_format(plan: &[u8]) -> std::result::Result<u32, String> {
    serde_json::from_slice::<Format>(plan)
        .map(|plan| plan.format)
        .map_err(|error| format!("its top level has no format number ({error})"))
}

/// Checks the plan of a run against the header.
pub(crate) fn check_plan(run_directory: &Path, header: &Header, plan: &[u8]) -> Result<()> {
    let path = run_directory.join(PLAN_FILE);
    if disk::sha256_hex(plan) != header.plan_sha256 {
        let what = "edited or truncated: its SHA-256 is not the one in the header of trials.jsonl";
        return Err(RecordError::FileChanged { path, what });
    }
    match plan_format(plan) {
        Ok(found) if found > PLAN_FORMAT => {
            Err(RecordError::NewerFormat { path, found, newest: PLAN_FORMAT })
        }
        Ok(_) => Ok(()),
        Err(what) => Err(not_understood(&path, 1, what)),
    }
}

fn not_understood(path: &Path, line: usize, what: String) -> RecordError {
    RecordError::NotUnderstood { path: path.to_owned(), line, what }
}
