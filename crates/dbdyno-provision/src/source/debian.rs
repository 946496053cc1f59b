//! Packages of a Debian suite with all they depend on, through the host's own `apt-get` and its mirror and keys.
//!
//! apt is pointed at directories of its own, with an empty list of installed packages: it finds the whole closure,
//! checks signatures and hashes, and the host's package state stays as it is. Archives are kept, because suites move.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian_prefix;
use super::{Fetch, Fetched, lacks_program};
use crate::cache::files::{cannot_write, make_directory, sha256_of_text};
use crate::cache::lock;
use crate::error::{ProvisionError, Trouble};
use crate::tools::{self, Tools};

/// Debian's keys, where its package of keys puts them; used if the host's own sources name no keys.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What the host lacks.
pub(super) fn lacks(tools: &Tools) -> Option<String> {
    lacks_program(tools, "apt-get", "apt (a Debian host, or a `path` to a server of your own)")
        .or_else(|| lacks_program(tools, "dpkg-deb", "dpkg"))
        .or_else(|| {
            let lack = "needs a mirror of Debian in this host's apt sources; add one, \
                        for example a deb822 file in /etc/apt/sources.list.d";
            Mirrors::of_host(tools).is_none().then(|| lack.to_owned())
        })
}

/// Gets packages and makes a root of them.
pub(super) fn fetch(
    fetch: &mut Fetch<'_>,
    suite: &str,
    packages: &[String],
    bytes: u64,
) -> Result<Fetched, ProvisionError> {
    let place = format!("debian-{suite}");
    let apt = Apt {
        state: fetch.store("apt").join(suite),
        archives: fetch.downloads(&place),
        suite,
        packages,
    };
    // apt does not wait for its own locks but fails.
    let _lock = lock::take(&apt.state.join("dbdyno-lock"), &mut || {})?;
    apt.prepare(fetch.tools)?;
    fetch.step(format!("reading the index of debian {suite}"));
    fetch.run_client(&mut apt.get(fetch.tools, &["update"]), &apt.state, 0, &place)?;
    let archives = apt.closure(fetch)?;
    check_series(suite, packages, &archives, fetch.package.series)?;
    fetch.step(format!("downloading {} packages of debian {suite}", archives.len()));
    let directory = apt.archives.clone();
    let total = archives.iter().map(|archive| archive.bytes).sum::<u64>();
    let left = total.saturating_sub(present(&directory, &archives));
    let mut get = apt.get(fetch.tools, &["--download-only", "install"]);
    fetch.run_client(get.args(packages), &directory, left.min(bytes.max(total)), &place)?;
    fetch.step(format!("unpacking {} packages", archives.len()));
    for archive in &archives {
        let file = directory.join(&archive.file);
        let mut unpack = fetch.tools.command("dpkg-deb");
        unpack.arg("--extract").arg(&file).arg(fetch.prefix);
        tools::run(&mut unpack).map_err(|said| {
            let why = format!("cannot unpack {}: {said}", file.display());
            ProvisionError::new(Trouble::CannotWrite, why)
        })?;
    }
    debian_prefix::finish(fetch.prefix).map_err(cannot_write("make a root of", fetch.prefix))?;
    Ok(Fetched {
        line: line(suite, packages, &archives),
        archives: archives.iter().map(|one| format!("downloads/{place}/{}", one.file)).collect(),
    })
}

/// The host's mirrors of Debian, as its apt knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mirrors {
    main: String,
    security: Option<String>,
    signed_by: Option<String>,
}

impl Mirrors {
    /// Asks apt, which reads every form of its sources. If the host's index was never fetched, apt knows no origins;
    /// then the last word of the mirror's address decides.
    fn of_host(tools: &Tools) -> Option<Mirrors> {
        let format = "$(ORIGIN)\t$(LABEL)\t$(REPO_URI)\t$(SIGNED_BY)";
        let mut targets = tools.command("apt-get");
        targets.args(["indextargets", "--format", format]);
        let listed = tools::run(&mut targets).ok()?;
        Mirrors::in_targets(&listed).or_else(|| {
            let mut update = tools.command("apt-get");
            Mirrors::in_addresses(&tools::run(update.args(["update", "--print-uris"])).ok()?)
        })
    }

    fn in_targets(listed: &str) -> Option<Mirrors> {
        let rows = listed.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let debian: Vec<Vec<&str>> =
            rows.filter(|row| row.len() == 4 && row[0] == "Debian").collect();
        let main = debian.iter().find(|row| row[1] == "Debian")?;
        let security = debian.iter().find(|row| row[1] == "Debian-Security");
        Some(Mirrors {
            main: address(main[2]),
            security: security.map(|row| address(row[2])),
            signed_by: Some(main[3].to_owned()).filter(|keys| keys.starts_with('/')),
        })
    }

    fn in_addresses(listed: &str) -> Option<Mirrors> {
        let bases: Vec<&str> = listed
            .lines()
            .filter_map(|line| Some(line.strip_prefix('\'')?.split_once("/dists/")?.0))
            .collect();
        let ending = |word: &str| bases.iter().find(|base| base.ends_with(word)).copied();
        Some(Mirrors {
            main: address(ending("/debian")?),
            security: ending("/debian-security").map(address),
            signed_by: None,
        })
    }

    /// The lines of a source list. Unstable has neither updates nor security updates of its own.
    fn source_list(&self, suite: &str) -> String {
        let keys = self
            .signed_by
            .clone()
            .or_else(|| Path::new(KEYRING).is_file().then(|| KEYRING.to_owned()));
        let option = keys.map_or(String::new(), |keys| format!("[signed-by={keys}] "));
        let mut list = format!("deb {option}{} {suite} main\n", self.main);
        if !["sid", "unstable"].contains(&suite) {
            list += &format!("deb {option}{} {suite}-updates main\n", self.main);
            if let Some(security) = &self.security {
                list += &format!("deb {option}{security} {suite}-security main\n");
            }
        }
        list
    }
}

fn address(text: &str) -> String {
    text.trim_end_matches('/').to_owned()
}

/// apt with directories of its own.
struct Apt<'a> {
    state: PathBuf,
    archives: PathBuf,
    suite: &'a str,
    packages: &'a [String],
}

impl Apt<'_> {
    /// Makes the directories and the configuration.
    fn prepare(&self, tools: &Tools) -> Result<(), ProvisionError> {
        for directory in ["lists/partial", "cache", "nothing/partial"] {
            make_directory(&self.state.join(directory))?;
        }
        make_directory(&self.archives.join("partial"))?;
        let mirrors = Mirrors::of_host(tools).ok_or_else(|| {
            ProvisionError::new(Trouble::HostLacks, "apt names no mirror of Debian any more")
        })?;
        self.write("status", "")?;
        self.write("sources.list", &mirrors.source_list(self.suite))?;
        self.write("apt.conf", &self.configuration())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), ProvisionError> {
        let path = self.state.join(name);
        fs::write(&path, text).map_err(cannot_write("write", &path))
    }

    /// Read after the host's own configuration, whose proxies and credentials stay in force. Its hooks do not: they
    /// would clean or refresh what is the host's.
    fn configuration(&self) -> String {
        let (state, archives) = (self.state.display(), self.archives.display());
        format!(
            "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Pre-Install-Pkgs;\n\
             #clear APT::Default-Release;\n\
             Dir::State \"{state}\";\nDir::State::Lists \"{state}/lists\";\n\
             Dir::State::status \"{state}/status\";\nDir::State::extended_states \"{state}/extended_states\";\n\
             Dir::Cache \"{state}/cache\";\nDir::Cache::archives \"{archives}\";\n\
             Dir::Cache::pkgcache \"pkgcache.bin\";\nDir::Cache::srcpkgcache \"srcpkgcache.bin\";\n\
             Dir::Etc::sourcelist \"{state}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\n\
             Dir::Log \"{state}\";\nAPT::Install-Recommends \"false\";\nAPT::Install-Suggests \"false\";\n\
             APT::Sandbox::User \"root\";\nAPT::Keep-Downloaded-Packages \"true\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"3\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
             Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\n\
             APT::Update::Error-Mode \"any\";\nBinary::apt-get::APT::Keep-Downloaded-Packages \"true\";\n"
        )
    }

    fn get(&self, tools: &Tools, arguments: &[&str]) -> Command {
        let mut command = tools.command("apt-get");
        command.arg("-c").arg(self.state.join("apt.conf")).args(["-y", "-q"]).args(arguments);
        command
    }

    /// All archives that the packages need.
    fn closure(&self, fetch: &Fetch<'_>) -> Result<Vec<Archive>, ProvisionError> {
        // apt does not print what it has already, so for this question it is shown an empty directory.
        let nothing = format!("Dir::Cache::archives={}/nothing", self.state.display());
        let mut command = self.get(fetch.tools, &["-o", &nothing, "--print-uris", "install"]);
        let printed = tools::run(command.args(self.packages)).map_err(|said| {
            let why = format!(
                "debian {} does not have {} as the engine file asks for them; the suite may have moved on, so choose \
                 another suite or other packages there: {said}",
                self.suite,
                self.packages.join(" "),
            );
            ProvisionError::new(Trouble::Download, why)
        })?;
        let archives: Vec<Archive> = printed.lines().filter_map(Archive::parse).collect();
        Ok(archives)
    }
}

/// One package file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Archive {
    file: String,
    bytes: u64,
}

impl Archive {
    /// From apt's `'address' file size hash`.
    fn parse(line: &str) -> Option<Archive> {
        let mut words = line.strip_prefix('\'')?.split_whitespace().skip(1);
        let (file, bytes) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let is_name = file.ends_with(".deb") && !file.contains('/');
        is_name.then_some(Archive { file, bytes })
    }

    fn package(&self) -> &str {
        self.file.split('_').next().unwrap_or("")
    }

    /// `1:10.11.19-0+deb12u1` of `mariadb-server_1%3a10.11.19-0+deb12u1_amd64.deb`.
    fn version(&self) -> String {
        self.file.split('_').nth(1).unwrap_or("").replace("%3a", ":")
    }
}

/// Bytes that an earlier attempt has fetched already.
fn present(directory: &Path, archives: &[Archive]) -> u64 {
    let size =
        |one: &Archive| fs::metadata(directory.join(&one.file)).map_or(0, |found| found.len());
    archives.iter().map(size).sum()
}

/// The first package asked for is the server: its version must be of the series that the engine stands for.
fn check_series(
    suite: &str,
    packages: &[String],
    archives: &[Archive],
    series: &str,
) -> Result<(), ProvisionError> {
    let Some(server) = packages.first() else { return Ok(()) };
    let found = archives.iter().find(|archive| archive.package() == server);
    let version = found.map(Archive::version).unwrap_or_default();
    let upstream = version.split_once(':').map_or(version.as_str(), |(_, upstream)| upstream);
    if upstream.starts_with(series) {
        return Ok(());
    }
    let why = format!(
        "debian {suite} has {server} {version} now, and the engine file is for versions that begin with {series}; \
         choose another suite in the engine file, or an engine of that series"
    );
    Err(ProvisionError::new(Trouble::WrongContent, why))
}

/// The versions asked for, and a hash over the names of all archives, versions included.
fn line(suite: &str, packages: &[String], archives: &[Archive]) -> String {
    let versions = packages.iter().filter_map(|package| {
        let found = archives.iter().find(|archive| archive.package() == package)?;
        Some(format!("{package} {}", found.version()))
    });
    let mut names: Vec<&str> = archives.iter().map(|archive| archive.file.as_str()).collect();
    names.sort_unstable();
    let hash = &sha256_of_text(&names.join("\n"))[..12];
    let versions = versions.collect::<Vec<_>>().join(", ");
    format!("debian {suite} {versions}; {} packages, list {hash}", archives.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_found_by_origin_or_by_address() {
        let listed = "Debian\tDebian\thttp://mirror.test/debian/\t/keys/debian.gpg\n\
                      Debian\tDebian-Security\thttp://mirror.test/debian-security/\t$(SIGNED_BY)\n\
                      Other\tOther\thttp://other.test/\t\n";
        let found = Mirrors::in_targets(listed).unwrap();
        let list = found.source_list("trixie");
        let key = "[signed-by=/keys/debian.gpg]";
        assert!(list.contains(&format!("deb {key} http://mirror.test/debian trixie main\n")));
        assert!(list.contains(&format!(
            "deb {key} http://mirror.test/debian-security trixie-security main\n"
        )));
        assert_eq!(found.source_list("sid").lines().count(), 1);
        let listed = "'http://mirror.test/debian/dists/bookworm/InRelease' mirror.test_debian 0 \n\
                      'http://mirror.test/debian-security/dists/bookworm-security/InRelease' x 0 \n";
        let found = Mirrors::in_addresses(listed).unwrap();
        assert_eq!(found.main, "http://mirror.test/debian");
        assert_eq!(found.security.unwrap(), "http://mirror.test/debian-security");
        assert_eq!(
            Mirrors::in_addresses("'http://mirror.test/ubuntu/dists/a/InRelease' x 0"),
            None
        );
    }

    #[test]
    fn archives_are_read_and_held_against_the_series() {
        let printed = "'http://m/pool/mariadb-server_10.11.19-0+deb12u1_all.deb' \
                       mariadb-server_1%3a10.11.19-0+deb12u1_all.deb 20480 MD5Sum:00";
        let archive = Archive::parse(printed).unwrap();
        assert_eq!((archive.package(), archive.bytes), ("mariadb-server", 20480));
        assert_eq!(archive.version(), "1:10.11.19-0+deb12u1");
        assert_eq!(Archive::parse("'http://m/a' ../a.deb 1 x"), None);
        let packages = ["mariadb-server".to_owned()];
        let archives = [archive];
        assert_eq!(check_series("bookworm", &packages, &archives, "10.11."), Ok(()));
        let error = check_series("bookworm", &packages, &archives, "11.8.").unwrap_err();
        assert!(error.message.contains("has mariadb-server 1:10.11.19-0+deb12u1 now"), "{error}");
        let said = line("bookworm", &packages, &archives);
        assert!(said.contains("mariadb-server 1:10.11.19-0+deb12u1; 1 packages, list "), "{said}");
    }
}
