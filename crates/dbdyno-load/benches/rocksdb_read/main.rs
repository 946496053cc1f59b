//! What worker, recorder and driver add to RocksDB point reads: the request loop beside a loop in C over the same
//! library, database and keys. `cargo bench -p dbdyno-load --bench rocksdb_read -- --library FILE`, where FILE is the
//! shared object of an engine, as `librocksdbjni-linux64.so` below its directory in the cache.
#![allow(missing_docs)]

#[path = "../point_reads/mod.rs"]
mod point_reads;

use dbdyno_load::driver::{OpenOptions, rocksdb::Rocksdb};
use point_reads::{ROUND_NS, ROWS, compare, load};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The same for both sides: everything fits.
const CACHE_MB: &str = "256";

/// Makes the loop out of its source.
fn compile(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/rocksdb_read/loop.c");
    let program = directory.join("loop");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-o"]).arg(&program).arg(source).arg("-ldl");
    assert!(compiler.status().expect("runs the C compiler").success());
    program
}

fn library() -> Option<PathBuf> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--library");
    arguments.nth(1).map(PathBuf::from)
}

#[allow(clippy::print_stderr, reason = "this is what a bench without its argument says")]
fn main() {
    let Some(library) = library() else {
        return eprintln!("rocksdb_read: skipped; it needs --library FILE");
    };
    let place = tempfile::tempdir().expect("a temporary directory");
    let (program, directory) = (compile(place.path()), place.path().join("data"));
    let settings = [
        ("concurrency", "pessimistic"),
        ("wal", "true"),
        ("sync", "false"),
        ("deadlock_detect", "false"),
        ("lock_timeout_ms", "1000"),
        ("cache_mb", CACHE_MB),
        ("write_buffer_mb", "64"),
        ("background_jobs", "2"),
        ("perf_context", "off"),
        ("compaction", "level"),
        ("compression", "none"),
        ("statistics", "false"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = OpenOptions {
        library: Some(library.clone()),
        ..OpenOptions::of_directory(directory.clone(), settings, 1)
    };
    load::<Rocksdb>(&options);
    compare::<Rocksdb>("RocksDB", &options, || {
        let mut command = Command::new(&program);
        command.arg(&library).arg(&directory).arg(CACHE_MB);
        command.args([ROWS.to_string(), ROUND_NS.to_string()]);
        let output = command.output().expect("starts");
        let words = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        words.trim().parse().unwrap_or_else(|_| panic!("the loop said: {words}{errors}"))
    });
}
