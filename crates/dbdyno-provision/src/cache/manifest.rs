//! What was installed: written last, so that an installation without it was never finished.
//!
//! It lists every file with its size and hash, so that `verify` can say which of them is no longer what was installed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use dbdyno_plan::{Package, Shim, Source};
use serde::{Deserialize, Serialize};

use super::files::{cannot_write, remove, sha256_of_file, sha256_of_text};
use crate::error::ProvisionError;
use crate::source::Fetched;
use crate::unpack::each_file;

/// Raised when the same source is installed in another way than before, so that old installations are redone.
const INSTALL_FORMAT: u32 = 1;
/// Its name in an engine's directory.
const FILE: &str = "manifest.json";

/// What was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The source as the engine file had it, and how it is installed, as one hash.
    pub(crate) fingerprint: String,
    /// The shim that was compiled against it, as a hash of all that decides it; empty without one.
    #[serde(default)]
    pub(crate) shim: String,
    /// One line: what exactly it is.
    pub(crate) source: String,
    /// Archives that stay in the cache, because the place they came from may not keep them: paths below the cache.
    pub(crate) archives: Vec<String>,
    /// Room that the files take.
    pub(crate) bytes_on_disk: u64,
    /// All files.
    pub(crate) files: Vec<ListedFile>,
}

/// A file or a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFile {
    /// Path below the prefix.
    pub(crate) path: String,
    /// Its size; a link has the length of its target.
    pub(crate) bytes: u64,
    /// Hash of its content; of a link, `-> ` and its target.
    pub(crate) content: String,
}

impl Manifest {
    /// Lists what lies below a prefix.
    pub(crate) fn of(
        prefix: &Path,
        source: &Source,
        shim: Option<&Shim>,
        fetched: Fetched,
    ) -> Result<Manifest, ProvisionError> {
        let (mut files, mut bytes_on_disk) = (Vec::new(), 0);
        each_file(prefix, "", &mut |path, file| {
            let found = fs::symlink_metadata(file)?;
            bytes_on_disk += found.blocks() * 512;
            let content = content_of(file, &found)?;
            files.push(ListedFile { path: path.to_owned(), bytes: found.len(), content });
            Ok(())
        })
        .map_err(cannot_write("list", prefix))?;
        Ok(Manifest {
            fingerprint: fingerprint(source),
            shim: shim_fingerprint(shim),
            source: fetched.line,
            archives: fetched.archives,
            bytes_on_disk,
            files,
        })
    }

    /// Reads the one of an engine's directory; one that cannot be read is like none.
    pub(crate) fn read(engine: &Path) -> Option<Manifest> {
        serde_json::from_slice(&fs::read(engine.join(FILE)).ok()?).ok()
    }

    /// Puts it into an engine's directory, whole or not at all.
    pub(crate) fn write(&self, engine: &Path) -> Result<(), ProvisionError> {
        let partial = engine.join("manifest.json.partial");
        let text = serde_json::to_string(self)
            .map_err(|error| cannot_write("make", &partial)(error.into()))?;
        fs::write(&partial, text).map_err(cannot_write("write", &partial))?;
        let whole = engine.join(FILE);
        fs::rename(&partial, &whole).map_err(cannot_write("write", &whole))
    }

    /// Takes it away, and with it the claim that anything is installed.
    pub(crate) fn remove(engine: &Path) -> Result<(), ProvisionError> {
        remove(&engine.join(FILE))
    }

    /// Whether it is what the package would be now.
    pub(crate) fn is_of(&self, package: Package<'_>) -> bool {
        self.source_in(package).is_some() && self.shim == shim_fingerprint(package.shim)
    }

    /// The source of the package that was fetched, if it is still one of them.
    pub(crate) fn source_in<'a>(&self, package: Package<'a>) -> Option<&'a Source> {
        package.sources.iter().find(|source| fingerprint(source) == self.fingerprint)
    }

    /// What differs from what was installed, one sentence each.
    pub(crate) fn differences(&self, prefix: &Path) -> Vec<String> {
        let difference = |listed: &ListedFile| {
            let file = prefix.join(&listed.path);
            let found = match fs::symlink_metadata(&file) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Some(format!("{} is missing", listed.path));
                }
                Err(error) => return Some(format!("{}: {error}", listed.path)),
            };
            if found.len() != listed.bytes {
                let (now, then) = (found.len(), listed.bytes);
                return Some(format!("{} has {now} bytes, and {then} were installed", listed.path));
            }
            match content_of(&file, &found) {
                Ok(content) if content == listed.content => None,
                Ok(content) => Some(format!(
                    "{} is now {content}, and {} was installed",
                    listed.path, listed.content
                )),
                Err(error) => Some(format!("{}: {error}", listed.path)),
            }
        };
        self.files.iter().filter_map(difference).collect()
    }
}

fn content_of(file: &Path, found: &fs::Metadata) -> io::Result<String> {
    if found.is_symlink() {
        return Ok(format!("-> {}", fs::read_link(file)?.display()));
    }
    match found.is_file() {
        true => sha256_of_file(file),
        false => Ok("not a file".to_owned()),
    }
}

/// A hash of all that decides what is installed. The size is only an estimate and does not count.
fn fingerprint(source: &Source) -> String {
    let mut value = serde_json::to_value(source).unwrap_or_default();
    let kinds = value.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut);
    for kind in kinds.filter_map(serde_json::Value::as_object_mut) {
        kind.remove("bytes");
    }
    sha256_of_text(&format!("{INSTALL_FORMAT} {value}"))
}

fn shim_fingerprint(shim: Option<&Shim>) -> String {
    shim.map_or(String::new(), |shim| {
        sha256_of_text(&format!("{} {:?}\n{}", shim.include, shim.libraries, shim.text()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(suite: &str, bytes: u64) -> Source {
        Source::Debian { suite: suite.into(), packages: vec!["a".into()], bytes, build: vec![] }
    }

    #[test]
    fn another_source_is_another_installation_but_another_estimate_is_not() {
        assert_eq!(fingerprint(&source("sid", 1)), fingerprint(&source("sid", 2)));
        assert_ne!(fingerprint(&source("sid", 1)), fingerprint(&source("trixie", 1)));
    }

    #[test]
    fn every_change_of_a_file_is_named() {
        let place = tempfile::tempdir().unwrap();
        let prefix = place.path().join("prefix");
        fs::create_dir_all(prefix.join("bin")).unwrap();
        for name in ["bin/same", "bin/longer", "bin/edited", "bin/gone"] {
            fs::write(prefix.join(name), "text").unwrap();
        }
        std::os::unix::fs::symlink("same", prefix.join("bin/link")).unwrap();
        let fetched = Fetched { line: "what".into(), archives: vec![] };
        let manifest = Manifest::of(&prefix, &source("sid", 1), None, fetched).unwrap();
        manifest.write(place.path()).unwrap();
        assert_eq!(Manifest::read(place.path()), Some(manifest.clone()));
        assert_eq!(manifest.differences(&prefix), [""; 0]);
        fs::write(prefix.join("bin/longer"), "text and more").unwrap();
        fs::write(prefix.join("bin/edited"), "tex!").unwrap();
        remove(&prefix.join("bin/gone")).unwrap();
        let different = manifest.differences(&prefix).join("\n");
        assert_eq!(different.lines().count(), 3, "{different}");
        assert!(different.contains("bin/gone is missing"), "{different}");
        assert!(different.contains("bin/longer has 13 bytes"), "{different}");
        assert!(different.contains("bin/edited is now"), "{different}");
    }
}
