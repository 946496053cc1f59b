//! Ways to get a server, one module each: through the host's own package clients, which know its mirrors.

mod debian;
mod debian_prefix;
mod go;
mod image;
mod maven;
mod pypi;

use std::path::{Path, PathBuf};

use dbdyno_plan::{BuildCommand, Package, Source};

use crate::cache::FetchProgress;
use crate::error::{ProvisionError, Trouble};
use crate::tools::{self, Tools};

/// What a way needs to know and where it puts things.
pub(crate) struct Fetch<'a> {
    /// Programs of the host.
    pub(crate) tools: &'a Tools,
    /// The cache.
    pub(crate) cache: &'a Path,
    /// The empty directory that becomes the prefix.
    pub(crate) prefix: &'a Path,
    /// What is wanted.
    pub(crate) package: Package<'a>,
    /// Who wants to know how it goes on.
    pub(crate) progress: &'a mut dyn FnMut(FetchProgress),
}

/// What was fetched.
pub(crate) struct Fetched {
    /// One line: what exactly.
    pub(crate) line: String,
    /// Archives that stay: paths below the cache.
    pub(crate) archives: Vec<String>,
}

impl Fetch<'_> {
    /// Says what is being done.
    pub(crate) fn step(&mut self, text: impl Into<String>) {
        (self.progress)(FetchProgress::Step { text: text.into() });
    }

    /// The store of a package client.
    pub(crate) fn store(&self, client: &str) -> PathBuf {
        self.cache.join("stores").join(client)
    }

    /// The directory for downloads from one place.
    pub(crate) fn downloads(&self, place: &str) -> PathBuf {
        self.cache.join("downloads").join(place)
    }

    /// Runs a package client and shows how its directory grows towards a size.
    pub(crate) fn run_client(
        &mut self,
        command: &mut std::process::Command,
        directory: &Path,
        of: u64,
        what: &str,
    ) -> Result<String, ProvisionError> {
        let before = tools::bytes_below(directory);
        let progress = &mut self.progress;
        let mut watch = || {
            let bytes = tools::bytes_below(directory).saturating_sub(before);
            progress(FetchProgress::Downloaded { bytes, of });
        };
        tools::run_watched(command, &mut watch).map_err(|said| {
            let why = format!(
                "{what} could not be downloaded; is there a network, and do the host's settings of the package \
                 client name a mirror that has it? {said}"
            );
            ProvisionError::new(Trouble::Download, why)
        })
    }

    /// Builds what was unpacked. `{prefix}` stands for the prefix.
    pub(crate) fn build(
        &mut self,
        commands: &[BuildCommand],
        environment: &[(&str, &Path)],
    ) -> Result<(), ProvisionError> {
        for build in commands {
            self.step(format!("building: {} {}", build.program, build.arguments.join(" ")));
            let prefix = self.prefix.display().to_string();
            let mut command = self.tools.command(&build.program);
            command
                .args(build.arguments.iter().map(|argument| argument.replace("{prefix}", &prefix)));
            command.envs(environment.iter().copied()).current_dir(self.prefix.join(&build.within));
            tools::run(&mut command).map_err(|said| {
                let why = format!("the build failed; see what it lacks: {said}");
                ProvisionError::new(Trouble::HostLacks, why)
            })?;
        }
        Ok(())
    }
}

/// Gets a source into the prefix.
pub(crate) fn fetch(fetch: &mut Fetch<'_>, source: &Source) -> Result<Fetched, ProvisionError> {
    match source {
        Source::Maven { artifact, sha256, bytes, unpack } => {
            maven::fetch(fetch, artifact, sha256, *bytes, unpack)
        }
        Source::Debian { suite, packages, bytes, build } => {
            let fetched = debian::fetch(fetch, suite, packages, *bytes)?;
            fetch.build(build, &[])?;
            Ok(fetched)
        }
        Source::Pypi { requirement, sha256, bytes, unpack, build } => {
            let release = pypi::Release { requirement, sha256, bytes: *bytes, unpack, build };
            pypi::fetch(fetch, &release)
        }
        Source::Go { module, sum, bytes, build } => go::fetch(fetch, module, sum, *bytes, build),
        Source::Image { reference, bytes } => image::fetch(fetch, reference, *bytes),
        Source::Path { .. } | Source::Running { .. } => {
            let why = format!("{} is used where it is and cannot be fetched", describe(source));
            Err(ProvisionError::new(Trouble::WrongContent, why))
        }
    }
}

/// A source in a few words.
pub(crate) fn describe(source: &Source) -> String {
    match source {
        Source::Maven { artifact, .. } => format!("maven {artifact}"),
        Source::Debian { suite, packages, .. } => format!("debian {suite} {}", packages.join(" ")),
        Source::Pypi { requirement, .. } => format!("pypi {requirement}"),
        Source::Go { module, .. } => format!("go {module}"),
        Source::Image { reference, .. } => format!("image {reference}"),
        Source::Path { directory } => format!("directory {directory}"),
        Source::Running { url } => format!("running server {url}"),
    }
}

/// What the host lacks for a source, if it lacks anything.
pub(crate) fn lacks(tools: &Tools, source: &Source, package: Package<'_>) -> Option<String> {
    let built = |build: &[BuildCommand]| {
        build.iter().find_map(|command| lacks_program(tools, &command.program, &command.program))
    };
    match source {
        Source::Maven { .. } => maven::lacks(tools),
        Source::Debian { build, .. } => debian::lacks(tools).or_else(|| built(build)),
        Source::Pypi { build, .. } => pypi::lacks(tools).or_else(|| built(build)),
        Source::Go { build, .. } => lacks_program(tools, "go", "golang").or_else(|| built(build)),
        Source::Image { .. } => image::lacks(tools),
        Source::Path { directory } => {
            let program = Path::new(directory).join(package.file);
            let lack =
                || format!("there is no {}; correct `path` in the engine file", program.display());
            (!program.is_file()).then(lack)
        }
        Source::Running { .. } => None,
    }
}

fn lacks_program(tools: &Tools, program: &str, package: &str) -> Option<String> {
    let lack = || format!("needs {program}; install the package {package}");
    tools.find(program).is_none().then(lack)
}
