//! The cache: what was fetched and installed for engines, kept between runs and shared between processes.
//!
//! `engines/NAME/` holds `prefix/` (the programs), `manifest.json` (what they are) and `lock`; `downloads/` holds
//! archives that may not be had again; `stores/` belongs to the package clients. An engine is installed into
//! `prefix.partial`, renamed when it is complete, and its manifest is written last: what is half done is never taken
//! for done.

pub(crate) mod files;
mod install;
pub(crate) mod lock;
mod manifest;

use std::fs;
use std::path::{Path, PathBuf};

use dbdyno_plan::{Package, Source};

use crate::error::{ProvisionError, Trouble};
use crate::tools::Tools;
use files::{make_directory, remove};
use manifest::Manifest;

/// The directory of all that was fetched.
#[derive(Debug, Clone)]
pub struct Cache {
    directory: PathBuf,
    tools: Tools,
}

/// A server's programs, ready to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Where they are; empty for a server that runs already.
    pub prefix: PathBuf,
    /// One line: what exactly was installed.
    pub source: String,
    /// Whether they must see the prefix as `/`.
    pub own_root: bool,
    /// Room that they take, bytes.
    pub bytes_on_disk: u64,
}

/// What is being done, for people who wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchProgress {
    /// A step begins.
    Step {
        /// In words.
        text: String,
    },
    /// The download moves on.
    Downloaded {
        /// Bytes so far.
        bytes: u64,
        /// Bytes expected, roughly.
        of: u64,
    },
}

impl Cache {
    /// The cache in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Cache, ProvisionError> {
        Cache::with_tools(directory.into(), Tools::of_host())
    }

    /// As [`Cache::open`], and looks for programs of the host in these directories only (as PATH has them).
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn with_search_path(
        directory: impl Into<PathBuf>,
        search_path: &str,
    ) -> Result<Cache, ProvisionError> {
        Cache::with_tools(directory.into(), Tools::below(search_path))
    }

    fn with_tools(directory: PathBuf, tools: Tools) -> Result<Cache, ProvisionError> {
        let directory =
            std::path::absolute(&directory).map_err(files::cannot_write("find", &directory))?;
        make_directory(&directory)?;
        Ok(Cache { directory, tools })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is installed for an engine, if it is complete and is what the package asks for.
    pub fn installed(&self, name: &str, package: Package<'_>) -> Option<Installed> {
        let engine = self.engine_directory(name);
        let prefix = engine.join("prefix");
        let manifest = Manifest::read(&engine).filter(|manifest| manifest.is_of(package));
        if let Some(manifest) = manifest.filter(|_| prefix.join(package.file).exists()) {
            return Some(Installed {
                prefix,
                source: manifest.source,
                own_root: package.own_root,
                bytes_on_disk: manifest.bytes_on_disk,
            });
        }
        package.sources.iter().find_map(|source| not_in_the_cache(source, package))
    }

    /// Gets an engine's programs: from the cache, or else by the first of its sources that this host can use.
    ///
    /// # Errors
    /// If the host lacks what every source needs, if something cannot be downloaded, is not what the recipe promises,
    /// or cannot be written. Nothing half done is left where it would be taken for done.
    pub fn install(
        &self,
        name: &str,
        package: Package<'_>,
        offline: bool,
        progress: &mut dyn FnMut(FetchProgress),
    ) -> Result<Installed, ProvisionError> {
        if let Some(installed) = self.installed(name, package) {
            return Ok(installed);
        }
        install::install(self, name, package, offline, progress)
    }

    /// Every file of an installed engine that is not what was installed, one sentence each.
    ///
    /// # Errors
    /// If the engine is not installed, or not in the way that the package asks for now.
    pub fn verify(&self, name: &str, package: Package<'_>) -> Result<Vec<String>, ProvisionError> {
        let engine = self.engine_directory(name);
        if let Some(manifest) = Manifest::read(&engine).filter(|one| one.is_of(package)) {
            return Ok(manifest.differences(&engine.join("prefix")));
        }
        if self.installed(name, package).is_some() {
            // Programs of the user's own are used as they are: there is nothing to hold them against.
            return Ok(vec![]);
        }
        let where_to = self.directory.display();
        Err(ProvisionError::new(
            Trouble::Download,
            format!("{name} is not in the cache {where_to}; `dbdyno engines fetch {name}` gets it"),
        ))
    }

    /// Removes an engine's programs and the archives that only it needs. Returns how many bytes that were.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove(&self, name: &str) -> Result<u64, ProvisionError> {
        let engine = self.engine_directory(name);
        if !engine.is_dir() {
            return Ok(0);
        }
        let _lock = lock::take(&engine.join("lock"), &mut || {})?;
        let mut bytes = crate::tools::bytes_below(&engine);
        let archives = Manifest::read(&engine).map_or(vec![], |manifest| manifest.archives);
        Manifest::remove(&engine)?;
        remove(&engine.join("prefix"))?;
        remove(&engine.join("prefix.partial"))?;
        let kept: Vec<String> =
            self.names().iter().flat_map(|name| self.archives_of(name)).collect();
        for archive in archives.iter().filter(|archive| !kept.contains(archive)) {
            let path = self.directory.join(archive);
            bytes += fs::metadata(&path).map_or(0, |found| found.len());
            remove(&path)?;
        }
        // The lock stays: another process may be waiting for it.
        Ok(bytes)
    }

    /// Bytes that the whole cache takes: engines, downloads and the package clients' stores.
    pub fn bytes_on_disk(&self) -> u64 {
        crate::tools::bytes_below(&self.directory)
    }

    /// What this host lacks for a source, or nothing if it can use it.
    pub fn lacks(&self, source: &Source, package: Package<'_>) -> Option<String> {
        let shim = package.shim.and_then(|_| crate::shim::lacks(&self.tools));
        shim.or_else(|| crate::source::lacks(&self.tools, source, package))
    }

    pub(crate) fn tools(&self) -> &Tools {
        &self.tools
    }

    fn engine_directory(&self, name: &str) -> PathBuf {
        self.directory.join("engines").join(name)
    }

    /// Names of all engines that something is kept for.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.join("engines")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn archives_of(&self, name: &str) -> Vec<String> {
        Manifest::read(&self.engine_directory(name)).map_or(vec![], |manifest| manifest.archives)
    }
}

/// Sources that are used where they are.
fn not_in_the_cache(source: &Source, package: Package<'_>) -> Option<Installed> {
    let (prefix, source) = match source {
        Source::Path { directory } if Path::new(directory).join(package.file).is_file() => {
            (PathBuf::from(directory), format!("directory {directory}"))
        }
        Source::Running { url } => (PathBuf::new(), format!("running server {url}")),
        _ => return None,
    };
    Some(Installed { prefix, source, own_root: package.own_root, bytes_on_disk: 0 })
}

#[cfg(test)]
mod tests;
