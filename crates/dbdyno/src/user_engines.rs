//! Engines that the command line brings: a server that runs already (`url:...`) and a build of the user's own
//! (`path:DIR`), each as an engine file made up here, so that planning knows no third kind of engine.
//!
//! `NAME=url:postgres://USER@HOST:PORT`, `NAME=path:DIR`, `NAME=path:DIR@LIKE` where LIKE is a shipped engine that is
//! started the same way. Without `NAME=` a name is made from the host or the directory.

use crate::credentials::{family_of, take_password};
use crate::exit_code;
use crate::failure::Failure;
use dbdyno_plan::{ENGINES, EngineFile, NamedText};
use std::path::Path;
use std::process::Command;

/// An engine file made from the command line.
pub struct UserEngine {
    name: String,
    file: String,
    text: String,
}

impl UserEngine {
    /// As the catalogue takes it.
    pub fn as_text(&self) -> NamedText<'_> {
        NamedText { name: &self.name, file: &self.file, text: &self.text }
    }
}

/// Where a server's program may lie in a build, with the family it is of.
const PROGRAMS: &[(&str, &str)] = &[
    ("bin/postgres", "postgres"),
    ("bin/mariadbd", "mariadb"),
    ("sbin/mariadbd", "mariadb"),
    ("bin/mysqld", "mysql"),
    ("sbin/mysqld", "mysql"),
    ("bin/mongod", "mongodb"),
];

/// Takes the user's own engines out of the arguments of `--engine`: what is left are names.
///
/// # Errors
/// If a URL or a directory is no engine.
pub fn take_out(arguments: &[String]) -> Result<(Vec<String>, Vec<UserEngine>), Failure> {
    let (mut names, mut engines) = (Vec::new(), Vec::new());
    for argument in arguments {
        let (name, rest) = match argument.split_once('=') {
            Some((name, rest)) if is_own(rest) => (Some(name), rest),
            _ => (None, argument.as_str()),
        };
        let engine = if let Some(url) = rest.strip_prefix("url:") {
            of_url(name, url)?
        } else if let Some(path) = rest.strip_prefix("path:") {
            of_path(name, path)?
        } else {
            names.push(argument.clone());
            continue;
        };
        let is_taken = |other: &NamedText<'_>| other.name == engine.name;
        if ENGINES.iter().any(is_taken)
            || engines.iter().any(|other: &UserEngine| other.name == engine.name)
        {
            let name = &engine.name;
            return Err(wrong(format!(
                "--engine: there is an engine named {name} already; give yours another name: NAME=url:... or NAME=path:..."
            )));
        }
        names.push(engine.name.clone());
        engines.push(engine);
    }
    Ok((names, engines))
}

fn is_own(text: &str) -> bool {
    text.starts_with("url:") || text.starts_with("path:")
}

fn wrong(message: String) -> Failure {
    Failure::new(exit_code::WRONG_INPUT, message)
}

/// Lower-case letters, digits and dashes, as engine names are.
fn name_from(text: &str) -> String {
    let letters = text.chars().map(|letter| {
        let letter = letter.to_ascii_lowercase();
        if letter.is_ascii_alphanumeric() { letter } else { '-' }
    });
    letters.collect::<String>().trim_matches('-').to_owned()
}

fn of_url(name: Option<&str>, text: &str) -> Result<UserEngine, Failure> {
    let made_up = || {
        let host = text.rsplit('@').next().unwrap_or_default();
        let host = host.split(['/', '?']).next().unwrap_or_default();
        name_from(&format!("server-{host}"))
    };
    let name = name.map_or_else(made_up, str::to_owned);
    let url = take_password(&name, text)?;
    let family = family_of(&name, &url)?;
    let text = format!(
        "family = \"{family}\"\nname = \"{name}\"\nabout = \"A server that runs already; its settings are its own.\"\n\
         [server]\nseries = \"\"\n[[source]]\nurl = {}\n",
        quoted(url.as_str())
    );
    Ok(UserEngine { file: format!("--engine {name}"), name, text })
}

fn of_path(name: Option<&str>, argument: &str) -> Result<UserEngine, Failure> {
    let (path, like) = match argument.rsplit_once('@') {
        Some((path, like)) => (path, Some(like)),
        None => (argument, None),
    };
    let directory = std::path::absolute(path)
        .map_err(|error| wrong(format!("--engine path:{path}: {error}")))?;
    let last = directory.file_name().unwrap_or_default().to_string_lossy();
    let name = name.map_or_else(|| name_from(&last), str::to_owned);
    let own_file = directory.join("engine.toml");
    if own_file.is_file() {
        let file = own_file.display().to_string();
        let text = std::fs::read_to_string(&own_file)
            .map_err(|error| wrong(format!("{file}: cannot read this engine file: {error}")))?;
        let engine = EngineFile::parse(&file, &text).map_err(|error| wrong(error.to_string()))?;
        return Ok(UserEngine { name: engine.name, file, text });
    }
    let found = PROGRAMS.iter().find(|(program, _)| directory.join(program).is_file());
    let Some((program, family)) = found else {
        let programs: Vec<&str> = PROGRAMS.iter().map(|(program, _)| *program).collect();
        return Err(wrong(format!(
            "--engine path:{path}: there is none of {} in this directory, and no engine.toml that says what to start",
            programs.join(", ")
        )));
    };
    let version = version_of(&directory.join(program));
    // Of some families no engine is shipped; theirs is all that there is to be like.
    let (key, base) = match like.map(str::to_owned).or_else(|| nearest_engine(family, &version)) {
        Some(like) => ("like", like),
        None => ("family", (*family).to_owned()),
    };
    let text = format!(
        "{key} = \"{base}\"\nname = \"{name}\"\nabout = {}\n[server]\nseries = \"\"\nown_root = false\nprogram = \"{program}\"\n\
         [[source]]\npath = {}\n",
        quoted(&format!("A build of the user's own, {program} {version}, started like {base}.")),
        quoted(&directory.display().to_string()),
    );
    Ok(UserEngine { file: format!("--engine {name}"), name, text })
}

/// A TOML string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The first number in what a program says of its version; MongoDB writes a `v` before it.
fn version_of(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let is_version = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
    let mut words = text.split_whitespace().map(|word| word.strip_prefix('v').unwrap_or(word));
    words.find(is_version).unwrap_or_default().to_owned()
}

/// The shipped engine of a family whose name's version begins the given one; for one that is newer than all, the newest.
fn nearest_engine(family: &str, version: &str) -> Option<String> {
    let of_family: Vec<&str> = ENGINES
        .iter()
        .map(|engine| engine.name)
        .filter(|name| {
            let number = name.strip_prefix(family).and_then(|rest| rest.strip_prefix('-'));
            number.is_some_and(|number| {
                number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            })
        })
        .collect();
    let series = |name: &str| name[family.len() + 1..].to_owned();
    let same = of_family.iter().find(|name| {
        let series = series(name);
        version == series || version.starts_with(&format!("{series}."))
    });
    same.or(of_family.last()).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dbdyno_plan::{Durability, DurabilityMapping};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// Names stay, URLs become engines without their passwords, and a name that is taken is refused.
    #[test]
    fn urls_become_engines() {
        let arguments = [
            "sqlite",
            "mine=url:postgres://me:s3cret@db.example/",
            "url:mysql://root@127.0.0.1:3307",
            "set=url:mongodb://me:s3cret@db.example/?tls=true",
        ];
        let arguments = arguments.map(str::to_owned);
        let (names, engines) = take_out(&arguments).expect("three engines");
        assert_eq!(names, ["sqlite", "mine", "server-127-0-0-1-3307", "set"]);
        for (engine, driver) in engines.iter().zip(["postgres", "mysql", "mongodb"]) {
            let file = EngineFile::parse(&engine.file, &engine.text).expect("a whole engine file");
            assert_eq!(file.driver, driver);
            assert!(file.server.expect("a server").running_url().is_some());
            assert!(!engine.text.contains("s3cret"));
        }
        assert!(take_out(&["sqlite=url:mysql://root@h".to_owned()]).is_err());
        assert!(take_out(&["x=path:/nowhere/at/all".to_owned()]).is_err());
    }

    /// A family of which no engine is shipped is started as its family's file says.
    #[test]
    fn a_mongod_is_started_as_its_family_is() {
        let build = tempfile::tempdir().expect("a temporary directory");
        let program = build.path().join("bin/mongod");
        std::fs::create_dir(build.path().join("bin")).expect("makes");
        std::fs::write(&program, "#!/bin/sh\necho db version v7.0.5\n").expect("writes");
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("sets");
        let engine = of_path(Some("own"), &build.path().display().to_string()).expect("an engine");
        let file = EngineFile::parse(&engine.file, &engine.text).expect("a whole engine file");
        assert!(file.about.contains("bin/mongod 7.0.5"), "{}", file.about);
        let recipe = file.server.expect("a server");
        let settings = [("wired_tiger_cache_mb".to_owned(), "512".to_owned())].into();
        assert_eq!(recipe.setting_arguments(&settings), ["--wiredTigerCacheSizeGB", "0.5"]);
        let promised = |durability: Durability| match &file.durability[&durability] {
            DurabilityMapping::Supported(promise) => format!("{:?}", promise.settings),
            DurabilityMapping::Unsupported(_) => "unsupported".to_owned(),
        };
        assert_eq!(
            Durability::ALL.map(promised),
            [
                "unsupported",
                r#"{"journal": Flag(false)}"#,
                "unsupported",
                r#"{"journal": Flag(true)}"#
            ]
        );
    }

    /// A version finds its series, and one from the future the newest.
    #[test]
    fn builds_are_like_the_engine_of_their_series() {
        assert_eq!(nearest_engine("postgres", "18.3").as_deref(), Some("postgres-18"));
        assert_eq!(nearest_engine("postgres", "99devel").as_deref(), Some("postgres-18"));
        assert_eq!(nearest_engine("oracle", "23"), None);
    }
}
