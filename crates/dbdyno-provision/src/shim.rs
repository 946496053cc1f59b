//! Compiles our C text against a library that was just fetched, so that it can be called without its header.
//!
//! The library, and what it needs beside it, is found through links in the shim's own directory and nowhere else in the
//! prefix: that may hold a C library, and this process has one already.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use dbdyno_plan::{Package, Shim};

use crate::cache::files::{cannot_write, make_directory, remove};
use crate::error::{ProvisionError, Trouble};
use crate::tools::{self, Tools};

/// The compiler, by the name that every host gives it.
const COMPILER: &str = "cc";

/// What the host lacks for it.
pub(crate) fn lacks(tools: &Tools) -> Option<String> {
    let lack = || format!("needs {COMPILER}, a C compiler; install the package gcc");
    tools.find(COMPILER).is_none().then(lack)
}

/// Makes the package's file from its shim.
pub(crate) fn compile(
    tools: &Tools,
    prefix: &Path,
    package: Package<'_>,
    shim: &Shim,
) -> Result<(), ProvisionError> {
    let made = prefix.join(package.file);
    let directory = made.parent().unwrap_or(prefix);
    make_directory(directory)?;
    let linked = shim.libraries.iter().map(|library| set_beside(prefix, directory, library));
    let linked = linked.collect::<Result<Vec<PathBuf>, _>>()?;
    let text = made.with_extension("c");
    fs::write(&text, shim.text()).map_err(cannot_write("write", &text))?;
    remove(&made)?;
    let mut command = tools.command(COMPILER);
    command.args(["-O2", "-fPIC", "-shared", "-pthread"]);
    command.arg("-I").arg(prefix.join(&shim.include)).arg("-o").arg(&made).arg(&text);
    command.args(linked.first());
    // The old kind of search path, which also holds for what the library opens itself.
    command.arg("-Wl,--disable-new-dtags,-rpath,$ORIGIN");
    tools::run(&mut command).map(drop).map_err(|said| {
        let why = format!(
            "the shim \"{}\" cannot be compiled against what was fetched; is it a version that it knows? {said}",
            shim.name
        );
        ProvisionError::new(Trouble::WrongContent, why)
    })
}

/// Makes a file of the prefix visible in the shim's directory, and returns the path there.
fn set_beside(prefix: &Path, directory: &Path, library: &str) -> Result<PathBuf, ProvisionError> {
    let file = prefix.join(library);
    if !file.exists() {
        let why = format!(
            "there is no `{library}` in what was fetched; correct `libraries` in the engine file"
        );
        return Err(ProvisionError::new(Trouble::WrongContent, why));
    }
    let beside = directory.join(file.file_name().unwrap_or_default());
    if !beside.exists() {
        let steps = directory.strip_prefix(prefix).map_or(0, |below| below.components().count());
        let target = "../".repeat(steps) + library;
        symlink(target, &beside).map_err(cannot_write("make", &beside))?;
    }
    Ok(beside)
}
