//! What worker, recorder and shim add to WiredTiger: point reads through the request loop beside a loop in C over the same
//! library, database and keys. Needs an installed engine:
//! `cargo bench -p dbdyno-load --bench wiredtiger_read -- PREFIX/dbdyno/shim.so PREFIX/INCLUDE`.
#![allow(missing_docs)]

#[path = "../point_reads/mod.rs"]
mod point_reads;

use dbdyno_load::driver::{OpenOptions, wiredtiger::WiredTiger};
use point_reads::{ROUND_NS, ROWS, compare, load};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the loop against the library that lies beside the shim.
fn compile(shim: &Path, include: &Path, directory: &Path) -> PathBuf {
    let beside = shim.parent().expect("in a directory");
    let entries = std::fs::read_dir(beside).expect("a readable directory");
    let is_library = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with("libwiredtiger.so")
    };
    let mut paths = entries.map(|entry| entry.expect("readable").path());
    let library = paths.find(is_library).expect("the library beside the shim");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/wiredtiger_read/loop.c");
    let program = directory.join("loop");
    let mut command = Command::new("cc");
    command.arg("-O2").arg("-I").arg(include).arg("-o").arg(&program).arg(source).arg(library);
    command.arg(format!("-Wl,-rpath,{}", beside.display()));
    assert!(command.status().expect("runs the C compiler").success());
    program
}

#[allow(clippy::print_stderr, reason = "this is what a bench without its arguments says")]
fn main() {
    // Cargo adds a flag of its own.
    let paths = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let Ok([shim, include]) =
        <[PathBuf; 2]>::try_from(paths.map(PathBuf::from).collect::<Vec<_>>())
    else {
        return eprintln!(
            "wiredtiger_read: skipped; it needs PREFIX/dbdyno/shim.so and PREFIX/INCLUDE"
        );
    };
    let place = tempfile::tempdir().expect("a temporary directory");
    let (program, directory) = (compile(&shim, &include, place.path()), place.path().join("data"));
    let settings = [
        ("cache_mb", "256"),
        ("log_enabled", "false"),
        ("log_file_mb", "100"),
        ("transaction_sync", "off"),
        ("checkpoint_s", "0"),
        ("eviction_threads", "4"),
        ("block_compressor", "none"),
        ("leaf_page_kb", "32"),
        ("conflict_backoff", "none"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = OpenOptions {
        library: Some(shim.clone()),
        ..OpenOptions::of_directory(directory.clone(), settings, 1)
    };
    load::<WiredTiger>(&options);
    compare::<WiredTiger>("WiredTiger", &options, || {
        let mut command = Command::new(&program);
        command.arg(&directory).args([ROWS.to_string(), ROUND_NS.to_string()]);
        let output = command.output().expect("starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
    });
}
