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
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("sets");
        fs::create_dir(directory.path().join("state")).expect("makes");
        let program = std::env::current_exe().expect("a test program");
        // The test harness has arguments of its own, so that the launcher is a script in front of it.
        let script = format!(
            "#!/bin/sh\nexport DBDYNO_TEST_ROLE=launch\nexec {} --exact server::tests::role --nocapture --quiet --test-threads=1 3>&1 >/dev/null\n",
            program.display()
        );
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
        }
    }
}

/// Not a test: what the launcher of the tests runs. Does nothing when run with the others.
#[test]
fn role() {
    if std::env::var("DBDYNO_TEST_ROLE").is_ok_and(|role| role == "launch") {
        // The harness has written its greeting to nowhere; the launcher's report goes where standard output was.
        crate::system_calls::duplicate(3, 1, true).expect("a descriptor");
        crate::launch_main();
    }
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
    let report = server.stop().expect("stops");
    assert_eq!((report.way, report.end.as_str()), (StopWay::Clean, "ended with exit code 0"));
    assert_eq!(records(&stage.state()), 0);
    assert!(!site.socket().exists());
}
