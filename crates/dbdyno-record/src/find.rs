//! Finds runs: by path, by id or by the beginning of an id, in a results directory.
//!
//! Only names are looked at; [`crate::Run::open`] reads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::error::{RecordError, Result};
use crate::layout::{self, TRIALS_FILE};

/// Ids of the runs in a results directory, oldest first if they were made by [`crate::new_run_id`]; none if the
/// directory does not exist. Directories that hold no `trials.jsonl` are left out.
///
/// # Errors
/// [`RecordError::Io`] if the directory cannot be listed.
pub fn list_runs(results: &Path) -> Result<Vec<String>> {
    if let Err(error) = fs::metadata(results)
        && error.kind() == io::ErrorKind::NotFound
    {
        return Ok(Vec::new());
    }
    let mut names = disk::names_in(results)?;
    names.retain(|name| {
        !layout::is_reserved_in_results(name) && results.join(name).join(TRIALS_FILE).is_file()
    });
    Ok(names)
}

/// Path of the run that `name` means: a path of a run directory, an id, or a beginning that only one id has.
///
/// # Errors
/// [`RecordError::NotARun`] for a path that is none, [`RecordError::UnknownRun`] with the nearest ids,
/// [`RecordError::AmbiguousRun`], [`RecordError::Io`].
pub fn find_run(results: &Path, name: &str) -> Result<PathBuf> {
    let path = PathBuf::from(name);
    let is_path = name.contains('/') || path.join(TRIALS_FILE).is_file();
    if is_path && !name.is_empty() {
        return match path.join(TRIALS_FILE).is_file() {
            true => Ok(path),
            false if path.is_dir() => {
                Err(RecordError::NotARun { path, why: "it has no trials.jsonl" })
            }
            false if path.exists() => {
                Err(RecordError::NotARun { path, why: "it is not a directory" })
            }
            false => Err(RecordError::NotARun { path, why: "it does not exist" }),
        };
    }
    let ids = list_runs(results)?;
    if ids.iter().any(|id| id == name) {
        return Ok(results.join(name));
    }
    let begins = |id: &&String| !name.is_empty() && id.starts_with(name);
    let mut matches: Vec<String> = ids.iter().filter(begins).cloned().collect();
    match matches.len() {
        0 => Err(RecordError::UnknownRun {
            name: name.to_owned(),
            results: results.to_owned(),
            near: nearest(name, ids),
        }),
        1 => Ok(results.join(matches.remove(0))),
        _ => Err(RecordError::AmbiguousRun {
            name: name.to_owned(),
            results: results.to_owned(),
            matches,
        }),
    }
}

/// The three ids most like the name: those that contain it first, then by the edits between them, newest first.
fn nearest(name: &str, mut ids: Vec<String>) -> Vec<String> {
    ids.reverse();
    ids.sort_by_cached_key(|id| (!id.contains(name), edits(name, id)));
    ids.truncate(3);
    ids
}

/// Levenshtein distance in bytes: the fewest insertions, removals and changes that make one text the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, byte) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other_byte) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(byte != other_byte);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        fn check(one: &str, other: &str, expected: usize) {
            assert_eq!(edits(one, other), expected, "{one} {other}");
        }
        check("", "", 0);
        check("abc", "", 3);
        check("abc", "abd", 1);
        check("kitten", "sitting", 3);
    }

    #[test]
    fn runs_are_found_by_path_id_and_beginning() {
        let results = tempfile::tempdir().unwrap();
        for id in ["20261121-a-1", "20261121-a-2", "20261122-b-1", "cache", ".partial-x", "other"] {
            fs::create_dir(results.path().join(id)).unwrap();
            if id != "other" {
                fs::write(results.path().join(id).join(TRIALS_FILE), "").unwrap();
            }
        }
        let find = |name: &str| find_run(results.path(), name);
        assert_eq!(list_runs(results.path()).unwrap().len(), 3);
        assert_eq!(find("20261121-a-1").unwrap(), results.path().join("20261121-a-1"));
        assert_eq!(find("20261122").unwrap(), results.path().join("20261122-b-1"));
        let path = results.path().join("20261121-a-2");
        assert_eq!(find(path.to_str().unwrap()).unwrap(), path);
        assert!(matches!(find("20261121"), Err(RecordError::AmbiguousRun { .. })));
        assert!(matches!(find("./nowhere"), Err(RecordError::NotARun { .. })));
        for name in ["", "cache", "other", "20261122-c-1"] {
            let message = find(name).unwrap_err().to_string();
            assert!(message.contains("did you mean"), "{message}");
        }
        assert!(find("20261122-c-1").unwrap_err().to_string().contains("mean 20261122-b-1"));
        assert!(list_runs(&results.path().join("none")).unwrap().is_empty());
    }
}
