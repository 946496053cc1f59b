//! Go modules, through the host's `go`, which checks them against its checksum database; built by the recipe.

use std::path::{Path, PathBuf};

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
    let (path, notes) = (fetch.store("go/path"), fetch.store("go/notes"));
    for directory in [&modules, &objects, &path, &notes] {
        make_directory(directory)?;
    }
    let settings = settings_of_user();
    // Modules that go itself makes read-only could not be removed with the cache.
    let flags = Path::new("-modcacherw");
    // Without GOPATH and XDG_CONFIG_HOME it writes into the user's home; by GOENV the user's settings still count.
    let environment: [(&str, &Path); 6] = [
        ("GOMODCACHE", &modules),
        ("GOCACHE", &objects),
        ("GOFLAGS", flags),
        ("GOPATH", &path),
        ("XDG_CONFIG_HOME", &notes),
        ("GOENV", &settings),
    ];
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
    let mut command = fetch.tools.command("go");
    let version = tools::run(command.arg("version").envs(environment)).unwrap_or_default();
    Ok(Fetched {
        line: format!("go {module} sum {sum}, built with {}", version.trim()),
        archives: vec![],
    })
}

/// The file in which the user's settings of go are, such as the proxy. Go looks for it where it also writes its notes, so it
/// must be named once those go elsewhere.
fn settings_of_user() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty());
    let own = named("GOENV").map(PathBuf::from);
    let of_user = named("XDG_CONFIG_HOME").map(PathBuf::from);
    let of_home = || named("HOME").map(|home| PathBuf::from(home).join(".config"));
    let below = |directory: PathBuf| directory.join("go/env");
    own.or_else(|| of_user.or_else(of_home).map(below)).unwrap_or_else(|| "off".into())
}
