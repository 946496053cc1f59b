//! The way from a recipe to a complete prefix: lock, choose a source, fetch, unpack, list, put in place.

use std::fs;
use std::path::Path;

use dbdyno_plan::{Package, Shim, Source};

use super::files::{cannot_write, make_directory, need_room, remove};
use super::lock;
use super::manifest::Manifest;
use super::{Cache, FetchProgress, Installed};
use crate::error::{ProvisionError, Trouble};
use crate::shim;
use crate::source::{self, Fetch, Fetched};
use crate::tools::Tools;

/// Installs an engine that is not there yet, or waits for another process that does.
pub(super) fn install(
    cache: &Cache,
    name: &str,
    package: Package<'_>,
    offline: bool,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<Installed, ProvisionError> {
    let source = choose(cache, name, package)?;
    let engine = cache.engine_directory(name);
    let _lock = lock::take(&engine.join("lock"), &mut || {
        progress(FetchProgress::Step {
            text: format!("waiting for another process that fetches {name}"),
        });
    })?;
    if let Some(installed) = cache.installed(name, package) {
        return Ok(installed);
    }
    if offline {
        return Err(not_offline(cache, name, source));
    }
    if let Some(compiled) = compile_again(cache, name, package, progress) {
        return compiled;
    }
    // An older installation of another source goes first, its claim to be complete before its files.
    Manifest::remove(&engine)?;
    remove(&engine.join("prefix"))?;
    let partial = engine.join("prefix.partial");
    remove(&partial)?;
    need_room(cache.directory(), source.bytes().saturating_mul(room_factor(source)))?;
    make_directory(&partial)?;
    let installed = fill(cache, &engine, &partial, source, package, progress);
    if installed.is_err() {
        let _ = remove(&partial);
    }
    installed?;
    found_again(cache, name, package)
}

fn found_again(
    cache: &Cache,
    name: &str,
    package: Package<'_>,
) -> Result<Installed, ProvisionError> {
    cache.installed(name, package).ok_or_else(|| {
        let engine = cache.engine_directory(name);
        let why = format!("{name}: what was just installed is gone from {}", engine.display());
        ProvisionError::new(Trouble::CannotWrite, why)
    })
}

/// Where only the shim is another one, what was fetched, and perhaps built for minutes, stays.
fn compile_again(
    cache: &Cache,
    name: &str,
    package: Package<'_>,
    progress: &mut dyn FnMut(FetchProgress),
) -> Option<Result<Installed, ProvisionError>> {
    let (shim, engine) = (package.shim?, cache.engine_directory(name));
    let prefix = engine.join("prefix");
    let old = Manifest::read(&engine).filter(|_| prefix.is_dir())?;
    let source = old.source_in(package)?;
    let mut again = || {
        Manifest::remove(&engine)?;
        compile(cache.tools(), &prefix, package, shim, progress)?;
        let fetched = Fetched { line: old.source.clone(), archives: old.archives.clone() };
        Manifest::of(&prefix, source, Some(shim), fetched)?.write(&engine)?;
        found_again(cache, name, package)
    };
    Some(again())
}

fn compile(
    tools: &Tools,
    prefix: &Path,
    package: Package<'_>,
    shim: &Shim,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<(), ProvisionError> {
    progress(FetchProgress::Step { text: format!("compiling the shim {}", shim.name) });
    shim::compile(tools, prefix, package, shim)
}

fn fill(
    cache: &Cache,
    engine: &Path,
    partial: &Path,
    source: &Source,
    package: Package<'_>,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<(), ProvisionError> {
    let mut fetch = Fetch {
        tools: cache.tools(),
        cache: cache.directory(),
        prefix: partial,
        package,
        progress,
    };
    let fetched = source::fetch(&mut fetch, source)?;
    if let Some(shim) = package.shim {
        compile(cache.tools(), partial, package, shim, progress)?;
    }
    if !partial.join(package.file).exists() {
        let why = format!(
            "{} holds no `{}`; correct the file's name or `unpack` in the engine file",
            fetched.line, package.file
        );
        return Err(ProvisionError::new(Trouble::WrongContent, why));
    }
    progress(FetchProgress::Step { text: "listing what was installed".to_owned() });
    let manifest = Manifest::of(partial, source, package.shim, fetched)?;
    let prefix = engine.join("prefix");
    fs::rename(partial, &prefix).map_err(cannot_write("make", &prefix))?;
    manifest.write(engine)
}

/// The first source that this host can use.
fn choose<'a>(
    cache: &Cache,
    name: &str,
    package: Package<'a>,
) -> Result<&'a Source, ProvisionError> {
    let mut lacking = Vec::new();
    for source in package.sources {
        match cache.lacks(source, package) {
            None => return Ok(source),
            Some(lack) => lacking.push(format!("{}: {lack}", source::describe(source))),
        }
    }
    let message = format!("{name} cannot be fetched here: {}", lacking.join("; "));
    Err(ProvisionError::new(Trouble::HostLacks, message))
}

fn not_offline(cache: &Cache, name: &str, source: &Source) -> ProvisionError {
    let message = format!(
        "{name} is not in the cache {} and nothing may be downloaded; missing is {} ({} MiB): \
         `dbdyno engines fetch {name}` while there is a network",
        cache.directory().display(),
        source::describe(source),
        source.bytes().div_ceil(1 << 20),
    );
    ProvisionError::new(Trouble::Download, message)
}

/// Room for the download and all that comes out of it, in downloads: seen sizes, rounded up.
fn room_factor(source: &Source) -> u64 {
    match source {
        // An archive within the archive is a hard-packed one, which grows five times.
        Source::Maven { unpack, .. } => match unpack.iter().any(|step| !step.archive.is_empty()) {
            true => 8,
            false => 5,
        },
        Source::Debian { .. } => 9,
        Source::Pypi { .. } => 30,
        Source::Go { .. } => 5,
        Source::Image { .. } => 4,
        Source::Path { .. } | Source::Running { .. } => 0,
    }
}
