//! Servers that do not start, builds that are none, addresses where nobody answers, engines that cannot be had: each
//! gives one message that says what, where and what to do, ends with its documented code, and leaves nothing running
//! and nothing of the user's changed.

mod common;

use common::host::{Host, ONE_CELL, Turn, Up};
use common::{Ended, bytes_below};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

const WRONG_INPUT: u8 = 3;
const HOST_UNFIT: u8 = 7;
const NOT_FETCHED: u8 = 10;
const NO_SERVER: u8 = 11;

/// The command refuses with this code, and its message says all this.
fn assert_refused(ended: Ended, code: u8, says: &[&str], about: &str) {
    let ended = ended.expect(code, about);
    assert_eq!(ended.stdout, "", "{about}: it printed a result");
    let messages = ended.stderr.lines().filter(|line| line.starts_with("dbdyno: ")).count();
    assert_eq!(messages, 1, "{about}: not one message: {ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{about}: {ended:?}");
    for words in says {
        assert!(ended.stderr.contains(words), "{about}: it should say\n{words}\n{ended:?}");
    }
}

/// A directory with an engine file and a program that does this.
fn build(turn: &Turn, name: &str, script: &str) {
    let directory = turn.place.path().join(name);
    fs::create_dir_all(directory.join("bin")).expect("makes");
    let program = |name: &str, script: &str| {
        let path = directory.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("makes executable");
    };
    program("serve", script);
    program("make", "exit 0");
    let text = format!(
        "like = \"postgres-18\"\nname = \"{name}\"\nabout = \"No server.\"\n[server]\nseries = \"\"\n\
         program = \"bin/serve\"\nready_limit_s = 1\n[[server.init]]\nprogram = \"bin/make\"\narguments = [\"-\"]\n\
         [[source]]\npath = \"{}\"\n",
        directory.display()
    );
    fs::write(directory.join("engine.toml"), text).expect("writes");
}

/// A server that never answers, and one that ends at once, are refused with what they printed, and ended.
#[test]
fn programs_that_do_not_serve_are_quoted_and_ended() {
    let turn = Turn::with(ONE_CELL);
    build(&turn, "slow", "echo warming up for ever\nsleep 1000");
    build(&turn, "brief", "echo no luck today >&2\nexit 3");
    let before = Host::now(&turn.place.path());
    let refused = |name: &str, says: &[&str]| {
        let files = bytes_below(&turn.place.path().join(name));
        for command in ["run ./tiny.toml --quiet --engine", "engines up", "engines settings"] {
            let about = format!("{command} path:./{name}");
            assert_refused(turn.run(&about), NO_SERVER, says, &about);
        }
        assert!(bytes_below(&turn.place.path().join(name)) == files, "{name} was changed");
        before.assert_is_as_before(&turn);
    };
    refused("slow", &["slow", "did not answer within 1 s", "warming up for ever"]);
    refused("brief", &["brief", "it ended with exit code 3", "no luck today"]);
    let up = fs::read_dir(turn.place.path().join("cache/up")).expect("there").flatten();
    let left: Vec<_> = up.filter(|entry| entry.path().is_dir()).collect();
    assert!(left.is_empty(), "directories of servers are left: {left:?}");
}

/// A data directory of another version is refused in the server's own words and left as it is.
#[test]
fn a_data_directory_of_another_version_is_refused() {
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    let more = format!("--directory {}/kept", turn.place.path().display());
    Up::start(&turn, "postgres-18", &more).down(&turn);
    let data = turn.place.path().join("kept/data");
    fs::write(data.join("PG_VERSION"), "17\n").expect("writes");
    let files = bytes_below(&data);
    let ended = turn.run(&format!("engines up postgres-18 {more}"));
    let says = ["postgres-18", "17", "not compatible with this version", "last lines of its log"];
    assert_refused(ended, NO_SERVER, &says, "another version");
    assert!(bytes_below(&data) == files, "the data directory was changed");
    before.assert_is_as_before(&turn);
}

/// A directory of the user's that holds other things is not given to a server.
#[test]
fn a_directory_of_the_users_is_not_given_away() {
    let turn = Turn::with(ONE_CELL);
    let mine = turn.place.path().join("mine");
    fs::create_dir(&mine).expect("makes");
    fs::write(mine.join("letters"), "dear").expect("writes");
    let facts = |path: &Path| {
        let facts = fs::metadata(path).expect("there");
        (facts.uid(), facts.gid(), facts.mode())
    };
    let before = (facts(&mine), facts(&mine.join("letters")));
    let ended = turn.run("engines up postgres-18 --directory mine");
    let says = ["mine holds letters", "name a new directory"];
    assert_refused(ended, WRONG_INPUT, &says, "a directory of the user's");
    assert_eq!(fs::read_dir(&mine).expect("there").count(), 1, "something was made in it");
    assert_eq!((facts(&mine), facts(&mine.join("letters"))), before);
}

/// Builds that are none, URLs that are none and addresses where nobody answers are named.
#[test]
fn builds_and_addresses_that_are_none_are_named() {
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    let check = |engine: &str, code: u8, says: &[&str]| {
        let ended = turn.run(&format!("run ./tiny.toml --quiet --engine {engine}"));
        assert_refused(ended, code, says, engine);
    };
    check("path:home", WRONG_INPUT, &["none of bin/postgres", "and no engine.toml"]);
    check("path:/nowhere/at/all", WRONG_INPUT, &["none of bin/postgres"]);
    check("mine=url:nonsense", WRONG_INPUT, &["this is no URL", "write postgres://USER@HOST:PORT"]);
    check("mine=url:oracle://me@h", WRONG_INPUT, &["oracle: is no kind of server"]);
    check("mine=url:mysql://me@h/production", WRONG_INPUT, &["leave /production out of the URL"]);
    check("mine=url:postgres://127.0.0.1", WRONG_INPUT, &["the URL names no user"]);
    let nobody = "does the server run, and listen there?";
    check("mine=url:postgres://me@127.0.0.1:1/", NO_SERVER, &["mine", "127.0.0.1:1", nobody]);
    check("mine=url:mysql://me@127.0.0.1:1/", NO_SERVER, &["mine", "127.0.0.1:1", nobody]);
    check("mine=url:mysql://me@localhost/?socket=/no/socket", NO_SERVER, &["/no/socket"]);
    let of_mongodb = |rest: &str| format!("mine=url:mongodb://{rest} --set durability=delayed");
    check(&of_mongodb("127.0.0.1:1/"), NO_SERVER, &["mine", "127.0.0.1:1", nobody]);
    let says = ["authSource=shop is not possible", "in admin"];
    check(&of_mongodb("me@h/?authSource=shop"), WRONG_INPUT, &says);
    before.assert_is_as_before(&turn);
}

/// A build of MongoDB is planned and started as its family's file says; one that does not start is quoted.
#[test]
fn a_mongod_that_does_not_start_is_quoted() {
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    // A double: it tells its version as a mongod does, and is none.
    let says = "case $1 in --version) echo db version v7.0.5;; *) echo cannot serve \"$@\"; exit 48;; esac";
    build(&turn, "fake", says);
    let directory = turn.place.path().join("fake");
    fs::rename(directory.join("bin/serve"), directory.join("bin/mongod")).expect("renames");
    fs::remove_file(directory.join("engine.toml")).expect("removes");
    let engine = "--engine own=path:./fake --set durability=commit-sync";
    let plan = turn.run(&format!("plan ./tiny.toml --json {engine}")).expect(0, "plan").json();
    let settings = &plan["trials"][0]["engine_settings"];
    assert_eq!(settings["journal"], true, "{settings}");
    assert_eq!(settings["write_concern"], "1", "{settings}");
    let ended = turn.run(&format!("run ./tiny.toml --quiet {engine}"));
    let says = ["own", "it ended with exit code 48", "cannot serve --dbpath", "mongodb-5432.sock"];
    assert_refused(ended, NO_SERVER, &says, engine);
    let ended = turn.run("run ./tiny.toml --quiet --engine other=path:./fake").expect(0, "default");
    let reason = "other has no durability \"commit-written\" (MongoDB keeps its journal";
    assert!(ended.stdout.contains(reason), "{ended:?}");
    before.assert_is_as_before(&turn);
}

/// An engine that is not there and cannot be had is refused with the reason and what to do, by every command that needs
/// it, and `--cache` means the cache and nothing else.
#[test]
fn engines_that_cannot_be_had_say_why() {
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    let empty = turn.place.path().join("empty");
    let ended = turn.run("run ./tiny.toml --quiet --offline --cache ./empty");
    assert_refused(ended, NOT_FETCHED, &["postgres-18", "engines fetch postgres-18"], "offline");
    for run in turn.place.runs() {
        fs::remove_dir_all(turn.place.results().join(run)).expect("removes");
    }
    let without_path = |arguments: &str| {
        Ended::of(turn.command(arguments).env("PATH", "/nowhere").output().expect("starts"))
    };
    for command in
        ["run ./tiny.toml --quiet", "engines settings postgres-18", "engines up postgres-18"]
    {
        let ended = without_path(&format!("{command} --cache ./empty"));
        assert_refused(ended, HOST_UNFIT, &["postgres-18", "mvn"], command);
    }
    let lies_in_cache = bytes_below(&empty).into_keys().any(|path| path.ends_with("trials.jsonl"));
    assert!(!lies_in_cache, "a run was written into the cache");
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        let mut command = Command::new("unshare");
        command.args(["-n", env!("CARGO_BIN_EXE_dbdyno"), "engines", "fetch", "postgres-18"]);
        command.args(["--cache", "./empty"]).current_dir(turn.place.path()).stdin(Stdio::null());
        let ended = Ended::of(command.output().expect("there is unshare"));
        assert_refused(ended, NOT_FETCHED, &["postgres-18"], "no network");
    } else {
        println!("Unsupported: only root can take the network away");
    }
    before.assert_is_as_before(&turn);
}
