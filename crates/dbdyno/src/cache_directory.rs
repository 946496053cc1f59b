//! Where fetched engines are kept: an option, an environment variable, or the user's cache directory.

use crate::failure::Failure;
use clap::Args;
use dbdyno_provision::Cache;
use std::env;
use std::path::PathBuf;

/// Where fetched engines are.
#[derive(Debug, Args)]
pub struct CacheArgs {
    /// Directory that fetched engines are kept in. Default: DBDYNO_CACHE, or else dbdyno in the user's cache directory.
    // With an id of its own: clap takes the field's name, which the other arguments for directories have too.
    #[arg(id = "cache", long = "cache", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

impl CacheArgs {
    /// The directory, which need not be there yet.
    ///
    /// # Errors
    /// If nothing says where it is.
    pub fn directory(&self) -> Result<PathBuf, Failure> {
        let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let chosen = self.directory.clone();
        chosen
            .or_else(|| named("DBDYNO_CACHE").map(PathBuf::from))
            .or_else(|| named("XDG_CACHE_HOME").map(|base| PathBuf::from(base).join("dbdyno")))
            .or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".cache/dbdyno")))
            .ok_or_else(|| {
                Failure::other("no cache directory: none of DBDYNO_CACHE, XDG_CACHE_HOME and HOME is set; use --cache DIR")
            })
    }

    /// The cache in it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(&self) -> Result<Cache, Failure> {
        Ok(Cache::open(self.directory()?)?)
    }
}
