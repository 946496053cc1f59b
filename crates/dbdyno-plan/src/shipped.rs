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
pub const EXPERIMENTS: &[NamedText<'static>] = &[
    shipped!("biebermarks", "experiments/biebermarks.toml"),
    shipped!("versions", "experiments/versions.toml"),
    shipped!("insert-benchmark", "experiments/insert-benchmark.toml"),
];

/// What engines of one family have in common; an engine file names its family and says what is different.
pub const FAMILIES: &[NamedText<'static>] = &[
    shipped!("postgres", "engines/families/postgres.toml"),
    shipped!("mysql", "engines/families/mysql.toml"),
    shipped!("mariadb", "engines/families/mariadb.toml"),
    shipped!("rocksdb", "engines/families/rocksdb.toml"),
    shipped!("wiredtiger", "engines/families/wiredtiger.toml"),
    shipped!("ferretdb", "engines/families/ferretdb.toml"),
    shipped!("mongodb", "engines/families/mongodb.toml"),
];

/// C texts that are compiled against a library when it is installed.
pub const SHIMS: &[NamedText<'static>] = &[shipped!("wiredtiger", "engines/shims/wiredtiger.c")];

/// Engines.
pub const ENGINES: &[NamedText<'static>] = &[
    shipped!("sqlite", "engines/sqlite/engine.toml"),
    shipped!("lmdb", "engines/lmdb/engine.toml"),
    shipped!("null", "engines/null/engine.toml"),
    shipped!("memory", "engines/memory/engine.toml"),
    shipped!("postgres-9.6", "engines/postgres-9.6/engine.toml"),
    shipped!("postgres-13", "engines/postgres-13/engine.toml"),
    shipped!("postgres-15", "engines/postgres-15/engine.toml"),
    shipped!("postgres-17", "engines/postgres-17/engine.toml"),
    shipped!("postgres-18", "engines/postgres-18/engine.toml"),
    shipped!("postgres-18-debian", "engines/postgres-18-debian/engine.toml"),
    shipped!("postgres-18-documentdb", "engines/postgres-18-documentdb/engine.toml"),
    shipped!("mysql-5.5", "engines/mysql-5.5/engine.toml"),
    shipped!("mysql-5.6", "engines/mysql-5.6/engine.toml"),
    shipped!("mysql-8.0", "engines/mysql-8.0/engine.toml"),
    shipped!("mysql-9.7", "engines/mysql-9.7/engine.toml"),
    shipped!("mariadb-10.1", "engines/mariadb-10.1/engine.toml"),
    shipped!("mariadb-10.2", "engines/mariadb-10.2/engine.toml"),
    shipped!("mariadb-10.11", "engines/mariadb-10.11/engine.toml"),
    shipped!("mariadb-11.8", "engines/mariadb-11.8/engine.toml"),
    shipped!("rocksdb-6.29", "engines/rocksdb-6.29/engine.toml"),
    shipped!("rocksdb-7.10", "engines/rocksdb-7.10/engine.toml"),
    shipped!("rocksdb-8.11", "engines/rocksdb-8.11/engine.toml"),
    shipped!("rocksdb-9.10", "engines/rocksdb-9.10/engine.toml"),
    shipped!("rocksdb-10", "engines/rocksdb-10/engine.toml"),
    shipped!("rocksdb-11", "engines/rocksdb-11/engine.toml"),
    shipped!("wiredtiger-3.2", "engines/wiredtiger-3.2/engine.toml"),
    shipped!("wiredtiger-11.3", "engines/wiredtiger-11.3/engine.toml"),
    shipped!("ferretdb-1", "engines/ferretdb-1/engine.toml"),
    shipped!("ferretdb-2", "engines/ferretdb-2/engine.toml"),
];
