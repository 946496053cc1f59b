//! The experiments and engines that come with the program, compiled in: one line each.
//!
//! A user's own experiment is given by path instead; the command reads it and hands over its text.

/// A text that is found by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedText<'a> {
    /// Name that the command takes.
    pub name: &'a str,
    /// File that messages name.
    pub file: &'a str,
    /// What it says.
    pub text: &'a str,
}

macro_rules! shipped {
    ($name:literal, $file:literal) => {
        NamedText { name: $name, file: $file, text: include_str!(concat!("../../../", $file)) }
    };
}

/// Experiments, in the order of the documents they come from.
pub const EXPERIMENTS: &[NamedText<'static>] =
    &[shipped!("biebermarks", "experiments/biebermarks.toml")];

/// What engines of one family have in common; an engine file names its family and says what is different.
pub const FAMILIES: &[NamedText<'static>] = &[
    shipped!("postgres", "engines/families/postgres.toml"),
    shipped!("mysql", "engines/families/mysql.toml"),
    shipped!("mariadb", "engines/families/mariadb.toml"),
];

/// Engines.
pub const ENGINES: &[NamedText<'static>] = &[
    shipped!("sqlite", "engines/sqlite/engine.toml"),
    shipped!("lmdb", "engines/lmdb/engine.toml"),
    shipped!("null", "engines/null/engine.toml"),
    shipped!("memory", "engines/memory/engine.toml"),
    shipped!("postgres-18", "engines/postgres-18/engine.toml"),
    shipped!("mariadb-10.11", "engines/mariadb-10.11/engine.toml"),
];
