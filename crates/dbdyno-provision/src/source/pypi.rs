//! Releases of the Python package index as source, through the host's `pip`, built by the recipe's commands.

use std::fs;
use std::path::PathBuf;

use dbdyno_plan::{BuildCommand, Unpack};

use super::{Fetch, Fetched};
use crate::cache::files::{make_directory, remove, sha256_of_file};
use crate::error::{ProvisionError, Trouble};
use crate::tools::Tools;
use crate::unpack::unpack;

/// Names that pip goes by.
const PIPS: &[&str] = &["pip3", "pip"];

/// A release as the recipe has it.
pub(super) struct Release<'a> {
    /// `name==version`.
    pub(super) requirement: &'a str,
    /// What the file must hash to.
    pub(super) sha256: &'a str,
    /// Its size.
    pub(super) bytes: u64,
    /// How it becomes a source tree.
    pub(super) unpack: &'a [Unpack],
    /// What builds it.
    pub(super) build: &'a [BuildCommand],
}

/// What the host lacks.
pub(super) fn lacks(tools: &Tools) -> Option<String> {
    pip(tools).is_none().then(|| "needs pip; install the package python3-pip".to_owned())
}

fn pip(tools: &Tools) -> Option<&'static str> {
    PIPS.iter().find(|name| tools.find(name).is_some()).copied()
}

/// Gets a release, unpacks and builds it.
pub(super) fn fetch(
    fetch: &mut Fetch<'_>,
    release: &Release<'_>,
) -> Result<Fetched, ProvisionError> {
    let requirement = release.requirement;
    // Two engines may be of the same release; each downloads into a directory of its own.
    let directory = fetch.downloads("pypi").join(&release.sha256[..16]);
    remove(&directory)?;
    make_directory(&directory)?;
    fetch.step(format!("downloading {requirement}"));
    let mut command = fetch.tools.command(pip(fetch.tools).unwrap_or("pip"));
    command.args(["download", "--no-deps", "--no-binary", ":all:", "--dest"]).arg(&directory);
    command.arg("--cache-dir").arg(fetch.store("pip")).arg(requirement);
    fetch.run_client(&mut command, &directory, release.bytes, requirement)?;
    let checked = check(&directory, release);
    let unpacked = checked.and_then(|archive| {
        fetch.step(format!("unpacking {requirement}"));
        unpack(&archive, fetch.prefix, release.unpack)
    });
    remove(&directory)?;
    unpacked?;
    fetch.build(release.build, &[])?;
    Ok(Fetched { line: format!("pypi {requirement} sha256 {}", release.sha256), archives: vec![] })
}

/// The only file that was downloaded, if it is what the engine file promises.
fn check(directory: &std::path::Path, release: &Release<'_>) -> Result<PathBuf, ProvisionError> {
    let requirement = release.requirement;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let [file] = files.as_slice() else {
        let why = format!("pip downloaded {} files for {requirement}, expected one", files.len());
        return Err(ProvisionError::new(Trouble::Download, why));
    };
    let found = sha256_of_file(file).map_err(|error| {
        ProvisionError::new(Trouble::Download, format!("{requirement}: {error}"))
    })?;
    if found == release.sha256 {
        return Ok(file.clone());
    }
    let why = format!(
        "{requirement}: expected sha256 {}, found {found}; the file {} was deleted. Fetch again in case it was damaged \
         on its way; if it stays so, `sha256` in the engine file is wrong or the index serves something else",
        release.sha256,
        file.display()
    );
    Err(ProvisionError::new(Trouble::WrongContent, why))
}
