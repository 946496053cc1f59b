//! Where things are in a run directory, and which names are allowed there.
//!
//! ```text
//! RESULTS/<run id>/
//!   plan.json            the resolved plan, as given; its top level has "format": 1
//!   host.json, ...       files added to the run, each with a `file` line in trials.jsonl
//!   trials.jsonl         one header line, one line per sealed trial or added file, one last line that seals the run
//!   trials/00017/        detail of trial 17 (zero-padded plan index); trials/.partial-00017/ while it is written
//! ```
//! RESULTS holds one directory per run and otherwise only names that begin with a dot, `index` or `cache`.

use std::path::{Path, PathBuf};

use crate::RecordError;

/// Format of `trials.jsonl` and of the directory around it that this program writes, and the newest that it reads.
pub const RECORD_FORMAT: u32 = 1;

/// Newest format of `plan.json` that this program reads.
pub const PLAN_FORMAT: u32 = 1;

/// The resolved plan.
pub const PLAN_FILE: &str = "plan.json";

/// Facts about the host, added with [`crate::RunWriter::add_file`].
pub const HOST_FILE: &str = "host.json";

/// What the instrument costs, added with [`crate::RunWriter::add_file`].
pub const INSTRUMENT_FILE: &str = "instrument.json";

/// The append-only list of what was sealed.
pub const TRIALS_FILE: &str = "trials.jsonl";

/// Directory of the detail directories.
pub const TRIALS_DIRECTORY: &str = "trials";

/// What a directory or file is called while it is written; what follows is its final name.
pub const PARTIAL_PREFIX: &str = ".partial-";

/// Largest plan index, so that detail directories of five digits sort by name.
pub const LARGEST_TRIAL: u32 = 99_999;

/// Files of a detail directory. A trial may lack some; a file of another name is kept and hashed like these.
pub const DETAIL_FILES: &[&str] = &[
    "response_time.hlog",
    "service_time.hlog",
    "send_lateness.hlog",
    "series.jsonl",
    "host_samples.json",
    "receipt.json",
    "check.json",
];

/// Name of the detail directory of a trial, for example `00017`.
pub fn detail_name(trial: u32) -> String {
    format!("{trial:05}")
}

/// Path of the detail directory of a trial.
pub fn detail_path(run_directory: &Path, trial: u32) -> PathBuf {
    run_directory.join(TRIALS_DIRECTORY).join(detail_name(trial))
}

/// Path of a detail directory while it is written.
pub(crate) fn partial_detail_path(run_directory: &Path, trial: u32) -> PathBuf {
    run_directory.join(TRIALS_DIRECTORY).join(format!("{PARTIAL_PREFIX}{}", detail_name(trial)))
}

/// Whether a name in a results directory is kept for something that is not a run: `index`, `cache`, or any name that
/// begins with a dot.
pub fn is_reserved_in_results(name: &str) -> bool {
    name.starts_with('.') || name == "index" || name == "cache"
}

/// Checks a name for a file or directory: letters, digits, `.`, `_` and `-`, at most 200 bytes, not beginning with
/// `.` or `-`.
///
/// # Errors
/// [`RecordError::BadName`] with what is wrong.
pub fn check_name(name: &str) -> Result<(), RecordError> {
    let refuse = |what| Err(RecordError::BadName { name: name.to_owned(), what });
    if name.is_empty() || name.len() > 200 {
        return refuse("it must have 1 to 200 characters");
    }
    if name.starts_with(['.', '-']) {
        return refuse("it must begin with a letter, a digit or `_`");
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return refuse("only ASCII letters, digits, `.`, `_` and `-` are allowed");
    }
    Ok(())
}

/// Checks a run id: a [name](check_name) that a results directory does not keep for something else.
///
/// # Errors
/// [`RecordError::BadName`] with what is wrong.
pub fn check_run_id(id: &str) -> Result<(), RecordError> {
    check_name(id)?;
    if is_reserved_in_results(id) {
        let what = "results directories keep `index` and `cache` for themselves";
        return Err(RecordError::BadName { name: id.to_owned(), what });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_directory_or_hide_are_refused() {
        fn check(name: &str, allowed: bool) {
            assert_eq!(check_run_id(name).is_ok(), allowed, "{name:?}");
        }
        check("20261121-041512-biebermarks-3f9a", true);
        check("host.json", true);
        check("", false);
        check(".", false);
        check("..", false);
        check("../x", false);
        check("a/b", false);
        check(".partial-x", false);
        check("-rf", false);
        check("index", false);
        check("cache", false);
        check("zwölf", false);
        check("a\0b", false);
        check(&"a".repeat(201), false);
    }
}
