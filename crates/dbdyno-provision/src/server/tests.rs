//! Servers are started for real: the PostgreSQL 15 that Debian installs, under the test program as launcher.

use super::*;
use crate::leftovers::record::Record;
use dbdyno_plan::EngineFile;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

const POSTGRES: &str = "/usr/lib/postgresql/15";

/// A directory that the server's user may pass, with a place for records of its own, and a program that launches.
struct Stage {
    directory: TempDir,
}

impl Stage {
    fn new() -> Stage {
        let directory = tempfile::Builder::new()
            .prefix("dbdyno-stage")
            .tempdir()
            .expect("a temporary directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("sets");
        fs::create_dir(directory.path().join("state")).expect("makes");
        let program = std::env::current_exe().expect("a test program");
        let script =
            format!("#!/bin/sh\nDBDYNO_TEST_ROLE=launch exec {} launch\n", program.display());
        let launcher = directory.path().join("launcher");
        fs::write(&launcher, script).expect("writes");
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).expect("sets");
        Stage { directory }
    }

    fn state(&self) -> std::path::PathBuf {
        self.directory.path().join("state")
    }

    fn site(&self, name: &str) -> Site {
        let text = format!(
            "family = \"postgres\"\nname = \"{name}\"\nabout = \"A test.\"\n[[source]]\npath = \"{POSTGRES}\"\n"
        );
        let engine = EngineFile::parse("test.toml", &text).expect("an engine file");
        Site {
            name: name.to_owned(),
            recipe: engine.server.expect("a server"),
            prefix: POSTGRES.into(),
            directory: self.directory.path().join(name),
            settings: [("fsync".to_owned(), "off".to_owned())].into(),
            with_port: false,
            launcher: self.directory.path().join("launcher"),
            open_files: 4096,
            backend: None,
        }
    }
}

/// Runs before the test harness, which has threads: a launcher must not, or it gets no user namespace.
#[used]
// SAFETY: the section holds functions that the C library calls before main; std works there on Linux with glibc.
#[unsafe(link_section = ".init_array")]
static BECOME_LAUNCHER: extern "C" fn() = become_launcher;

extern "C" fn become_launcher() {
    if std::env::var_os("DBDYNO_TEST_ROLE").is_some_and(|role| role == "launch") {
        crate::launch_main();
    }
}

/// Not a test: the dbdyno that a test kills. Does nothing when run with the others.
#[test]
fn role() {
    let Some(role) = std::env::var_os("DBDYNO_TEST_ROLE") else { return };
    // A dbdyno that starts a server, and is killed: the role is the directory of its stage.
    let stage = Stage { directory: TempDir::new().expect("unused") };
    let mut site = stage.site("orphaned");
    let place = std::path::PathBuf::from(role);
    (site.directory, site.launcher) = (place.join("orphaned"), place.join("launcher"));
    let mut server = starting::start_in(&site, &place.join("state")).expect("starts");
    wait_ready(&site, &mut server);
    server.note_shared_memory().expect("notes");
    fs::write(place.join("ready"), "").expect("writes");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let deadline = dbdyno_host::clock::monotonic_ns() + 30_000_000_000;
    while !is_true() {
        assert!(dbdyno_host::clock::monotonic_ns() < deadline, "waited too long: {what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn initialized(stage: &Stage, name: &str) -> Site {
    let site = stage.site(name);
    starting::init_in(&site, &stage.state()).expect("makes a data directory");
    site
}

fn records(state: &Path) -> usize {
    Record::all(state).expect("reads").len()
}

/// A server is made, answers on its socket, runs as nobody if we are root, and stops without leaving a record.
#[test]
fn a_server_comes_and_goes() {
    let stage = Stage::new();
    let site = initialized(&stage, "comes");
    let server = starting::start_in(&site, &stage.state()).expect("starts");
    wait_until("the socket", || site.socket().exists());
    assert_eq!(records(&stage.state()), 1);
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("runs");
    let uid = crate::identity::Identity::of_servers().uid;
    assert!(status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")), "{status}");
    assert!(
        status.contains("Name:\tpostgres\n") && status.contains("NoNewPrivs:\t1\n"),
        "{status}"
    );
    if crate::identity::Identity::of_servers().from_root {
        check_private_memory(&server);
    }
    let report = server.stop().expect("stops");
    assert_eq!((report.way, report.end.as_str()), (StopWay::Clean, "ended with exit code 0"));
    assert_eq!(records(&stage.state()), 0);
    assert!(!site.socket().exists());
}

fn pg(site: &Site, server: &RunningServer, statement: &str) -> std::process::Child {
    let run = site.run();
    let socket = server.socket().parent().unwrap_or(&run);
    std::process::Command::new(format!("{POSTGRES}/bin/psql"))
        .args(["-X", "-U", "dbdyno", "-d", "postgres", "-c", statement, "-h"])
        .arg(socket)
        .args(["-p", &server.port().unwrap_or(5432).to_string()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("psql starts")
}

fn wait_ready(site: &Site, server: &mut RunningServer) {
    wait_until("an answer", || {
        let status = pg(site, server, "SELECT 1").wait().expect("psql ends");
        status.success()
    });
}

/// Mounts of this namespace that a test made.
fn traces() -> Vec<String> {
    let text = fs::read_to_string("/proc/mounts").expect("reads");
    text.lines().filter(|line| line.contains("dbdyno-stage")).map(str::to_owned).collect()
}

/// A server of root's has shared memory of its own. Other tests and programs use the host's at the same time, so that
/// it cannot be compared before and after.
fn check_private_memory(server: &RunningServer) {
    let namespace = |pid: &str, kind: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}"));
    for kind in ["mnt", "ipc"] {
        let own = namespace("self", kind).expect("reads");
        assert_ne!(namespace(&server.pid().to_string(), kind).expect("reads"), own);
    }
    let mounts = fs::read_to_string(format!("/proc/{}/mounts", server.pid())).expect("reads");
    assert!(mounts.lines().rev().any(|line| line.contains(" /dev/shm tmpfs ")), "{mounts}");
}

/// A killed postmaster is reported with its log, and a backend that cannot notice its death is ended with it.
#[test]
fn a_dead_server_takes_its_backends_along() {
    let before = traces();
    adopt_orphans().expect("adopts");
    let stage = Stage::new();
    let site = initialized(&stage, "dies");
    let mut server = starting::start_in(&site, &stage.state()).expect("starts");
    wait_ready(&site, &mut server);
    let mut client = pg(&site, &server, "SELECT pg_sleep(600)");
    wait_until("a backend", || members(&server) > 6);
    let backends = crate::leftovers::family::members(server.record());
    for mark in backends.iter().filter(|mark| mark.pid != server.pid()) {
        crate::system_calls::send_signal(mark.pid as i32, libc::SIGSTOP).expect("stops");
    }
    crate::system_calls::send_signal(server.pid() as i32, libc::SIGKILL).expect("kills");
    let mut words = None;
    let deadline = dbdyno_host::clock::monotonic_ns() + 10_000_000_000;
    while words.is_none() && dbdyno_host::clock::monotonic_ns() < deadline {
        words = server.ended();
    }
    let words = words.expect("it has ended");
    assert!(words.contains("signal 9") && words.contains("ready to accept connections"), "{words}");
    for mark in &backends {
        assert!(!mark.is_there(), "{mark:?} is still there, or was not reaped");
    }
    let _ = client.wait();
    assert_eq!(server.stop().expect("stops").way, StopWay::EndedBefore);
    assert_eq!(records(&stage.state()), 0);
    assert_eq!(traces(), before);
}

fn members(server: &RunningServer) -> usize {
    crate::leftovers::family::members(server.record()).len()
}

/// A server that refuses a setting says so in its log, which comes back.
#[test]
fn a_refused_setting_is_quoted() {
    let stage = Stage::new();
    let mut site = initialized(&stage, "refuses");
    site.settings.insert("huge_pages".to_owned(), "perhaps".to_owned());
    let mut server = starting::start_in(&site, &stage.state()).expect("begins");
    wait_until("its end", || !alive(server.pid()));
    let words = server.ended().expect("it has ended");
    assert!(words.contains("exit code 1") && words.contains("perhaps"), "{words}");
    assert!(starting::init_in(&site, &stage.state()).is_err(), "data is there already");
    site.directory = stage.directory.path().join("x".repeat(100));
    let error = starting::start_in(&site, &stage.state()).expect_err("too long");
    assert!(error.message.contains("107"), "{error}");
}

fn alive(pid: u32) -> bool {
    dbdyno_host::process_tree::ProcessEntry::of(pid).is_some_and(|entry| entry.state != 'Z')
}

/// A program that brings its own root sees the prefix as `/`, read-only, and its own directory; here the prefix is the
/// host's root.
#[test]
fn a_root_of_its_own() {
    if let Err(reason) = crate::can_isolate() {
        panic!("this host cannot run the test: {reason}");
    }
    let before = traces();
    let stage = Stage::new();
    let mut site = stage.site("rooted");
    site.prefix = "/".into();
    site.recipe.own_root = true;
    site.recipe.program = format!("{}/bin/postgres", &POSTGRES[1..]);
    site.recipe.init[0].program = format!("{}/bin/initdb", &POSTGRES[1..]);
    site.with_port = true;
    starting::init_in(&site, &stage.state()).unwrap_or_else(|error| panic!("{error}"));
    let mut server = starting::start_in(&site, &stage.state()).expect("starts");
    wait_ready(&site, &mut server);
    let port = server.port().expect("a port");
    std::net::TcpStream::connect(("127.0.0.1", port)).expect("listens");
    check_private_memory(&server);
    let mounts = fs::read_to_string(format!("/proc/{}/mounts", server.pid())).expect("reads");
    let is_read_only = |line: &str| line.contains(" /usr ") && line.contains(" ro,");
    assert!(mounts.lines().any(is_read_only), "{mounts}");
    let program = fs::read_link(format!("/proc/{}/exe", server.pid())).expect("reads");
    assert!(program.ends_with("usr/lib/postgresql/15/bin/postgres"), "{program:?}");
    assert_eq!(server.stop().expect("stops").way, StopWay::Clean);
    assert_eq!(traces(), before);
}

/// A port that somebody else listens on is left to them for another one; where none is left, one message says so, and
/// nothing runs.
#[test]
fn a_port_in_use_is_left_to_who_has_it() {
    let stage = Stage::new();
    let mut site = initialized(&stage, "crowded");
    site.with_port = true;
    let theirs = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let taken = theirs.local_addr().expect("has an address").port();
    let mut choices = [taken, port::free().expect("a port")].into_iter();
    let choose = || Ok(choices.next().expect("no third port is needed"));
    let server = starting::start_on(&site, &stage.state(), choose).expect("starts");
    let own = server.port().expect("a port");
    assert_ne!(own, taken);
    std::net::TcpStream::connect(("127.0.0.1", own)).expect("listens");
    assert_eq!(server.stop().expect("stops").way, StopWay::Clean);

    let refused = starting::start_on(&site, &stage.state(), || Ok(taken)).expect_err("is taken");
    let text = refused.to_string();
    for words in ["crowded got no port of 127.0.0.1", &taken.to_string(), "Address already in use"]
    {
        assert!(text.contains(words), "it should say {words}: {text}");
    }
    assert_eq!(records(&stage.state()), 0, "something is left");
    theirs.set_nonblocking(true).expect("can be asked");
    assert!(theirs.accept().is_err(), "somebody knocked at a port that is not theirs");
}

/// The kernel ends the server of a killed dbdyno; sweeping does the rest, and leaves servers of the living alone.
#[test]
fn a_killed_parent_leaves_nothing_after_a_sweep() {
    let stage = Stage::new();
    let site = initialized(&stage, "orphaned");
    let mut parent = std::process::Command::new(std::env::current_exe().expect("a test program"))
        .args(["--exact", "server::tests::role", "--nocapture", "--test-threads=1"])
        .env("DBDYNO_TEST_ROLE", stage.directory.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    wait_until("the other dbdyno", || stage.directory.path().join("ready").exists());
    let (_, record) = Record::all(&stage.state()).expect("reads").remove(0);
    assert!(crate::sweep_leftovers(&stage.state()).expect("sweeps").is_empty());
    assert!(record.server.is_there());
    parent.kill().expect("kills");
    parent.wait().expect("waits");
    let said = crate::sweep_leftovers(&stage.state()).expect("sweeps");
    assert!(said.len() == 1 && said[0].contains("orphaned"), "{said:?}");
    wait_until("the end", || !alive(record.server.pid));
    assert!(!site.socket().exists() && records(&stage.state()) == 0);
    assert!(record.shared_files.iter().all(|path| !path.exists()), "{said:?}");
    // The data directory is whole: the next server recovers.
    let server = starting::start_in(&site, &stage.state()).expect("starts again");
    wait_until("the socket", || site.socket().exists());
    server.kill();
    assert_eq!(records(&stage.state()), 0);
}

/// A results directory that only its owner may enter does not keep the server's user out of its own part.
#[test]
fn a_closed_directory_above_is_covered() {
    let stage = Stage::new();
    fs::set_permissions(stage.directory.path(), fs::Permissions::from_mode(0o700)).expect("sets");
    let site = initialized(&stage, "closed");
    let mut server = starting::start_in(&site, &stage.state()).expect("starts");
    wait_ready(&site, &mut server);
    assert_eq!(server.stop().expect("stops").way, StopWay::Clean);
}

/// Words are replaced; in a root of its own the prefix is nothing before a slash, and else the slash.
#[test]
fn words_mean_paths() {
    let stage = Stage::new();
    let mut site = stage.site("words");
    let of = |site: &Site, text: &str| words::Words::of(site, 5432).replace(text);
    assert_eq!(of(&site, "--basedir={prefix}/usr"), format!("--basedir={POSTGRES}/usr"));
    assert_eq!(of(&site, "{socket}"), site.socket().display().to_string());
    assert!(site.socket().ends_with("words/run/.s.PGSQL.5432"));
    site.backend = Some("/a place/.s.PGSQL.5432".into());
    assert_eq!(of(&site, "?host={backend}"), "?host=%2Fa%20place");
    assert!(site.log().ends_with("words/front.log"), "it has a log of its own");
    site.recipe.own_root = true;
    assert_eq!(of(&site, "--basedir={prefix}/usr"), "--basedir=/usr");
    assert_eq!(of(&site, "--basedir={prefix}"), "--basedir=/");
}
