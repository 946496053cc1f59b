//! Go modules, through the host's `go`, which checks them against its checksum database; built by the recipe.

use std::path::Path;

use dbdyno_plan::BuildCommand;
use serde::Deserialize;

use super::{Fetch, Fetched};
use crate::cache::files::{cannot_write, make_directory};
use crate::error::{ProvisionError, Trouble};
use crate::tools;
use crate::unpack::copy_tree;

/// What `go mod download -json` says of a module.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Module {
    dir: String,
    sum: String,
}

/// Gets a module, copies its source into the prefix and builds it there.
pub(super) fn fetch(
    fetch: &mut Fetch<'_>,
    module: &str,
    sum: &str,
    bytes: u64,
    build: &[BuildCommand],
) -> Result<Fetched, ProvisionError> {
    let (modules, objects) = (fetch.store("go/modules"), fetch.store("go/objects"));
    make_directory(&modules)?;
    make_directory(&objects)?;
    // Modules that go itself makes read-only could not be removed with the cache.
    let flags = Path::new("-modcacherw");
    let environment: [(&str, &Path); 3] =
        [("GOMODCACHE", &modules), ("GOCACHE", &objects), ("GOFLAGS", flags)];
    fetch.step(format!("downloading {module}"));
    let mut command = fetch.tools.command("go");
    command.args(["mod", "download", "-json", module]).envs(environment);
    command.current_dir(&modules);
    let said = fetch.run_client(&mut command, &modules, bytes, module)?;
    let found: Module = serde_json::from_str(&said).map_err(|error| {
        ProvisionError::new(Trouble::Download, format!("go said of {module}: {error}: {said}"))
    })?;
    if found.sum != sum {
        let why = format!(
            "{module}: expected the sum {sum}, found {}; `sum` in the engine file is wrong, or the proxy serves \
             something else; delete {} before another attempt",
            found.sum, found.dir
        );
        return Err(ProvisionError::new(Trouble::WrongContent, why));
    }
    copy_tree(Path::new(&found.dir), fetch.prefix)
        .map_err(cannot_write("copy a module to", fetch.prefix))?;
    fetch.build(build, &environment)?;
    let version = tools::run(fetch.tools.command("go").arg("version")).unwrap_or_default();
    Ok(Fetched {
        line: format!("go {module} sum {sum}, built with {}", version.trim()),
        archives: vec![],
    })
}
