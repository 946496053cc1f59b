//! An engine library as data: where it comes from and which file of it is opened.
//!
//! The part of an engine file that only libraries opened at run time have; those built into the program have none. It is
//! stored in the plan, so that a run is resumed with the recipe that it began with.

use serde::{Deserialize, Serialize};

use crate::input_error::InputError;
use crate::package::{Package, Source, read_sources, text_or_empty};
use crate::toml_reader::{Entry, Table};

/// How to get a library, and what to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryRecipe {
    /// Where it comes from: alternatives, the first that this host can use is taken.
    pub sources: Vec<Source>,
    /// What its version must begin with, for example `10.`; empty for a build of the user's own.
    pub series: String,
    /// The shared object that is opened, below the prefix.
    pub file: String,
}

impl LibraryRecipe {
    /// What is to be installed before it can be opened.
    pub fn package(&self) -> Package<'_> {
        Package { sources: &self.sources, series: &self.series, file: &self.file, own_root: false }
    }

    /// Reads `[[source]]` and `[library]`.
    pub(crate) fn read(sources: &Entry, mut library: Table) -> Result<LibraryRecipe, InputError> {
        let recipe = LibraryRecipe {
            sources: read_sources(sources)?,
            series: text_or_empty(&mut library, "series")?,
            file: library.required("file")?.text()?,
        };
        library.finish()?;
        Ok(recipe)
    }
}
