//! Rules of the tree that the compiler does not know, checked by `tests/tidy.rs`.
//!
//! Each rule takes the tree's files as text and returns what is wrong, one sentence each, naming file and line.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file without a reason in [`LONG_FILES`].
pub const LINES_MAX: usize = 1000;
/// Source files that may be longer, with the reason.
pub const LONG_FILES: &[(&str, &str)] = &[];
/// A header is two to six lines; a map of a directory or a format may need more.
const HEADER_LINES: std::ops::RangeInclusive<usize> = 1..=12;

/// A file of the tree.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path from the root of the tree, with `/`.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// The root of the tree.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the tree").to_owned()
}

/// All text files of the tree with one of these endings, without what is built or measured.
pub fn sources(endings: &[&str]) -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a readable tree").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let is_left_out =
                ["target", "results", ".git", "proptest-regressions"].contains(&name.as_str());
            if path.is_dir() && !is_left_out {
                open.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) && path.is_file() {
                let text = fs::read_to_string(&path).expect("sources are UTF-8");
                let path = path
                    .strip_prefix(&root)
                    .expect("below the root")
                    .to_string_lossy()
                    .into_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Each source file begins by saying what it is.
pub fn headers(sources: &[Source]) -> Vec<String> {
    let wrong = |source: &&Source| {
        let header = source.text.lines().take_while(|line| line.starts_with("//!")).count();
        !HEADER_LINES.contains(&header)
    };
    sources
        .iter()
        .filter(wrong)
        .map(|source| format!("{}: no `//!` header of one to twelve lines", source.path))
        .collect()
}

/// No source file is too long to be one idea.
pub fn lengths(sources: &[Source]) -> Vec<String> {
    let is_allowed = |path: &str| LONG_FILES.iter().any(|(file, _)| *file == path);
    sources
        .iter()
        .map(|source| (source, source.text.lines().count()))
        .filter(|(source, lines)| *lines > LINES_MAX && !is_allowed(&source.path))
        .map(|(source, lines)| format!("{}: {lines} lines", source.path))
        .collect()
}

/// Lines that hold a word which only some places may say. Comments and tests do not count.
pub fn only_in(sources: &[Source], word: &str, allowed: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in
        sources.iter().filter(|source| !allowed.iter().any(|place| source.path.starts_with(place)))
    {
        if source.path.contains("/tests/")
            || source.path.contains("/benches/")
            || source.path.ends_with("_tests.rs")
        {
            continue;
        }
        for (number, line) in source.text.lines().enumerate() {
            if line.trim_start().starts_with("#[cfg(test)]") {
                break;
            }
            if line.contains(word) && !line.trim_start().starts_with("//") {
                wrong.push(format!(
                    "{}:{}: `{word}` belongs in {} only",
                    source.path,
                    number + 1,
                    allowed.join(" and ")
                ));
            }
        }
    }
    wrong
}

/// Outside crates that the manifest names and ARCHITECTURE.md does not explain, and the other way round.
pub fn dependencies(manifest: &str, architecture: &str) -> Vec<String> {
    let in_section = manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    let named: Vec<&str> = in_section
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name.trim()))
        .filter(|name| !name.starts_with("dbdyno-") && !name.starts_with('#'))
        .collect();
    let explained: Vec<&str> = architecture
        .lines()
        .skip_while(|line| !line.starts_with("## Dependencies"))
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
        .collect();
    let missing = named.iter().filter(|name| !explained.contains(name));
    let stale = explained.iter().filter(|name| !named.contains(name));
    missing
        .map(|name| format!("Cargo.toml: ARCHITECTURE.md does not say why `{name}` is here"))
        .chain(stale.map(|name| format!("ARCHITECTURE.md: `{name}` is no dependency any more")))
        .collect()
}
