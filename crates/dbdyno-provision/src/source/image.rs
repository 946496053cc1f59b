//! Container images, exported to a plain directory by a container engine of the host that answers.

use std::fs;

use super::{Fetch, Fetched};
use crate::cache::files::{make_directory, remove};
use crate::error::{ProvisionError, Trouble};
use crate::tools::{self, Tools};
use crate::unpack::unpack_root;

/// Container engines with the same commands.
const ENGINES: &[&str] = &["docker", "podman"];

/// What the host lacks.
pub(super) fn lacks(tools: &Tools) -> Option<String> {
    let lack = "needs a container engine that answers (docker or podman); install one and start it";
    engine(tools).is_none().then(|| lack.to_owned())
}

fn engine(tools: &Tools) -> Option<&'static str> {
    let answers = |name: &&&str| {
        tools.find(name).is_some() && tools::run(tools.command(name).arg("info")).is_ok()
    };
    ENGINES.iter().find(answers).copied()
}

/// Gets an image and unpacks its file system.
pub(super) fn fetch(
    fetch: &mut Fetch<'_>,
    reference: &str,
    bytes: u64,
) -> Result<Fetched, ProvisionError> {
    let engine = engine(fetch.tools).unwrap_or("docker");
    let downloads = fetch.downloads("image");
    make_directory(&downloads)?;
    fetch.step(format!("getting the image {reference}"));
    let mut create = fetch.tools.command(engine);
    create.args(["create", "--pull", "missing", reference, "none"]);
    let container = fetch.run_client(&mut create, &downloads, bytes, reference)?;
    let container = container.lines().last().unwrap_or("").trim().to_owned();
    let archive = downloads.join(format!("{container}.tar"));
    let mut export = fetch.tools.command(engine);
    export.args(["export", "--output"]).arg(&archive).arg(&container);
    let exported = fetch.run_client(&mut export, &downloads, bytes, reference);
    let _ = tools::run(fetch.tools.command(engine).args(["rm", &container]));
    let unpacked = exported.and_then(|_| {
        fetch.step(format!("unpacking {reference}"));
        unpack_root(&archive, fetch.prefix)
    });
    remove(&archive)?;
    unpacked?;
    let places = ["proc", "dev", "run", "tmp"].map(|place| fetch.prefix.join(place));
    for place in &places {
        fs::create_dir_all(place).map_err(|error| {
            ProvisionError::new(Trouble::CannotWrite, format!("{}: {error}", place.display()))
        })?;
    }
    Ok(Fetched { line: format!("image {reference}"), archives: vec![] })
}
