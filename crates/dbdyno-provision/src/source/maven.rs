//! Maven artifacts, through the host's `mvn`, so that its settings and mirrors count.

use std::fs;
use std::path::{Path, PathBuf};

use dbdyno_plan::Unpack;

use super::{Fetch, Fetched};
use crate::cache::files::{cannot_write, make_directory, remove, sha256_of_file};
use crate::cache::lock;
use crate::error::{ProvisionError, Trouble};
use crate::tools::Tools;
use crate::unpack::unpack;

/// What the host lacks.
pub(super) fn lacks(tools: &Tools) -> Option<String> {
    let lack = "needs Maven (mvn); install the package maven, or put a mvn of your own on PATH";
    tools.find("mvn").is_none().then(|| lack.to_owned())
}

/// Gets an artifact and unpacks it.
pub(super) fn fetch(
    fetch: &mut Fetch<'_>,
    artifact: &str,
    sha256: &str,
    bytes: u64,
    steps: &[Unpack],
) -> Result<Fetched, ProvisionError> {
    let store = fetch.store("maven");
    let Some(archive) = archive_in(&store, artifact) else {
        let why =
            format!("`maven = \"{artifact}\"` is not group:name:version[:packaging[:classifier]]");
        return Err(ProvisionError::new(Trouble::WrongContent, why));
    };
    // Two clients that fetch the same plugins into one store would trip over each other.
    let _lock = lock::take(&store.join("lock"), &mut || {})?;
    if !is_whole(&archive, sha256) {
        // What an interrupted client has left is not trusted, whatever it is named.
        remove(&archive)?;
        download(fetch, artifact, &archive, &store, bytes)?;
        check(&archive, artifact, sha256)?;
    }
    fetch.step(format!("unpacking {artifact}"));
    unpack(&archive, fetch.prefix, steps)?;
    remove(&archive)?;
    Ok(Fetched { line: format!("maven {artifact} sha256 {sha256}"), archives: vec![] })
}

fn download(
    fetch: &mut Fetch<'_>,
    artifact: &str,
    archive: &Path,
    store: &Path,
    bytes: u64,
) -> Result<(), ProvisionError> {
    let directory = archive.parent().unwrap_or(store).to_owned();
    make_directory(&directory)?;
    // Without its own records the client asks the repository again, instead of remembering an old failure.
    for entry in fs::read_dir(&directory).map_err(cannot_write("read", &directory))?.flatten() {
        remove(&entry.path())?;
    }
    fetch.step(format!("downloading {artifact}"));
    let mut command = fetch.tools.command("mvn");
    command.args(["-q", "-B", "dependency:get", "-Dtransitive=false"]);
    command.arg(format!("-Dartifact={artifact}"));
    command.arg(format!("-Dmaven.repo.local={}", store.display()));
    fetch.run_client(&mut command, &directory, bytes, artifact)?;
    Ok(())
}

/// A fresh download that is something else than the engine file promises is not kept.
fn check(archive: &Path, artifact: &str, sha256: &str) -> Result<(), ProvisionError> {
    let found = sha256_of_file(archive).map_err(|error| {
        let why = format!("{artifact}: {} was not downloaded: {error}", archive.display());
        ProvisionError::new(Trouble::Download, why)
    })?;
    if found == sha256 {
        return Ok(());
    }
    remove(archive)?;
    let why = format!(
        "{artifact}: expected sha256 {sha256}, found {found}; the file {} was deleted. Fetch again in case it was \
         damaged on its way; if it stays so, `sha256` in the engine file is wrong or the repository serves something else",
        archive.display()
    );
    Err(ProvisionError::new(Trouble::WrongContent, why))
}

fn is_whole(archive: &Path, sha256: &str) -> bool {
    sha256_of_file(archive).is_ok_and(|found| found == sha256)
}

/// Where a client with this store puts an artifact: `group:name:version[:packaging[:classifier]]`.
fn archive_in(store: &Path, artifact: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = artifact.split(':').collect();
    let is_odd = |part: &&str| part.is_empty() || part.contains('/') || part.starts_with('.');
    let ([group, name, version, rest @ ..], None) =
        (parts.as_slice(), parts.iter().find(|part| is_odd(part)))
    else {
        return None;
    };
    let file = match rest {
        [] => format!("{name}-{version}.jar"),
        [packaging] => format!("{name}-{version}.{packaging}"),
        [packaging, classifier] => format!("{name}-{version}-{classifier}.{packaging}"),
        _ => return None,
    };
    Some(store.join(group.replace('.', "/")).join(name).join(version).join(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_has_one_place_in_the_store() {
        let check = |artifact: &str, expected: Option<&str>| {
            let expected = expected.map(PathBuf::from);
            assert_eq!(archive_in(Path::new("/s"), artifact), expected, "{artifact}");
        };
        check("a.b:c:1.0", Some("/s/a/b/c/1.0/c-1.0.jar"));
        check("a.b:c:1.0:zip", Some("/s/a/b/c/1.0/c-1.0.zip"));
        check("a.b:c:1.0:zip:linux", Some("/s/a/b/c/1.0/c-1.0-linux.zip"));
        check("a.b:c", None);
        check("a.b:../c:1.0", None);
        check("a:b:c:d:e:f", None);
    }
}
