//! An engine library as data: where it comes from and which file of it is opened.
//!
//! The part of an engine file that only libraries opened at run time have; those built into the program have none. It is
//! stored in the plan, so that a run is resumed with the recipe that it began with.

use serde::{Deserialize, Serialize};

use crate::input_error::InputError;
use crate::package::{Package, Source, read_sources, text_or_empty};
use crate::shipped::SHIMS;
use crate::toml_reader::{Entry, Table};

/// How to get a library, and what to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryRecipe {
    /// Where it comes from: alternatives, the first that this host can use is taken.
    pub sources: Vec<Source>,
    /// What its version must begin with, for example `10.`; empty for a build of the user's own.
    pub series: String,
    /// The shared object that is opened, below the prefix: the library itself, or the shim that is made of it.
    pub file: String,
    /// What is compiled against the library, where its interface cannot be called without its header.
    #[serde(default)]
    pub shim: Option<Shim>,
}

/// A source text of ours that is compiled when the library is installed, and opened in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shim {
    /// Name among [`SHIMS`].
    pub name: String,
    /// Directory below the prefix that holds the library's header.
    pub include: String,
    /// Files below the prefix that are to be found in the shim's directory: the library, with which it is linked, and
    /// what that needs beside it. Only these: a prefix may also hold a C library, which must not be found.
    pub libraries: Vec<String>,
}

impl LibraryRecipe {
    /// What is to be installed before it can be opened.
    pub fn package(&self) -> Package<'_> {
        Package {
            sources: &self.sources,
            series: &self.series,
            file: &self.file,
            own_root: false,
            shim: self.shim.as_ref(),
        }
    }

    /// Reads `[[source]]` and `[library]`.
    pub(crate) fn read(sources: &Entry, mut library: Table) -> Result<LibraryRecipe, InputError> {
        let recipe = LibraryRecipe {
            sources: read_sources(sources)?,
            series: text_or_empty(&mut library, "series")?,
            file: library.required("file")?.text()?,
            shim: library.optional("shim").map(Shim::read).transpose()?,
        };
        library.finish()?;
        Ok(recipe)
    }
}

impl Shim {
    /// Its text, in C.
    pub fn text(&self) -> &'static str {
        SHIMS.iter().find(|shim| shim.name == self.name).map_or("", |shim| shim.text)
    }

    fn read(entry: Entry) -> Result<Shim, InputError> {
        let mut table = entry.into_table()?;
        let names: Vec<&str> = SHIMS.iter().map(|shim| shim.name).collect();
        let shim = Shim {
            name: table.required("name")?.word(&names)?,
            include: table.required("include")?.text()?,
            libraries: table
                .required("libraries")?
                .texts()?
                .into_iter()
                .map(|(text, _)| text)
                .collect(),
        };
        table.finish()?;
        Ok(shim)
    }
}
