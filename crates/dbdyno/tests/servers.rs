//! The command with real servers: measured, killed, interrupted, resumed, named by URL, brought by the user; and nothing
//! is left on the host afterwards.
//!
//! Engines come from the command's own cache; the ones of these tests are those that continuous integration has.

mod common;

use common::host::{
    Host, ONE_CELL, Turn, Up, arguments_of, child_named, job_of, signal, wait_for, wait_for_trial,
};
use common::{Ended, Place, bytes_below};
use dbdyno_load::driver::{Driver, mysql::Mysql, postgres::Postgres};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::Duration;

/// Two cells of three seconds each.
fn two_long_cells() -> String {
    ONE_CELL.replace("dop = [2]", "dop = [1, 2]").replace("measured_s = 0.3", "measured_s = 3")
}

fn ended(child: Child) -> Ended {
    Ended::of(child.wait_with_output().expect("it ends"))
}

/// The rows of an export with this metric: engine and value.
fn values(exported: &Value, metric: &str) -> Vec<(String, f64)> {
    let rows = exported.as_array().expect("rows").iter();
    let rows = rows.filter(|row| row["metric"] == metric && row["step"] == "measure");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rows.map(|row| (text(&row["engine"]), row["value"].as_f64().expect("a number"))).collect()
}

/// Every trial is Measured and its check made and passed.
fn assert_measured(turn: &Turn, trials: usize) {
    let ends = turn.ends();
    assert_eq!(ends.len(), trials, "{ends:?}");
    assert!(ends.iter().all(|(end, _, _)| end == "Measured"), "{ends:?}");
    let run = turn.place.results().join(turn.place.only_run());
    let files = bytes_below(&run.join("trials"));
    let checks = files.iter().filter(|(path, _)| path.ends_with("check.json"));
    let checks: Vec<Value> =
        checks.map(|(_, bytes)| serde_json::from_slice(bytes).expect("JSON")).collect();
    assert_eq!(checks.len(), trials);
    assert!(checks.iter().all(|check| check["passed"] == true), "{checks:?}");
}

/// Servers of three families and a configuration are measured with their costs, and the host is as it was before.
#[test]
fn servers_are_measured_and_leave_nothing_on_the_host() {
    let turn = Turn::with(ONE_CELL);
    let engines = ["postgres-18", "mariadb-10.11", "mariadb-10.11:myrocks", "mysql-5.6"];
    turn.run(&format!("engines fetch {} {} {}", engines[0], engines[1], engines[3]))
        .expect(0, "fetch");
    let before = Host::now(&turn.place.path());
    let arguments = format!("run ./tiny.toml --quiet --offline --engine {}", engines.join(","));
    turn.run(&arguments).expect(0, "run");
    assert_measured(&turn, engines.len());
    let run = turn.place.only_run();
    let exported = turn.run(&format!("export {run} --format json")).expect(0, "export").json();
    for metric in ["client_cpu_us_per_op", "server_cpu_us_per_op", "throughput_per_s"] {
        let found = values(&exported, metric);
        let names: Vec<&str> = found.iter().map(|(engine, _)| engine.as_str()).collect();
        for engine in engines {
            assert!(names.contains(&engine), "{metric} of {engine} is missing: {found:?}");
        }
        assert!(found.iter().all(|(_, value)| *value > 0.0), "{metric}: {found:?}");
    }
    for (path, bytes) in bytes_below(&turn.place.results().join(&run)) {
        if path.ends_with("receipt.json") {
            let receipt: Value = serde_json::from_slice(&bytes).expect("JSON");
            let version = receipt["version"].as_str().expect("a version");
            assert!(version.starts_with(|letter: char| letter.is_ascii_digit()), "{receipt}");
            assert!(receipt["effective"].as_object().expect("settings").len() > 50, "{receipt}");
            assert!(receipt["asked"].as_object().expect("settings").len() > 5, "{receipt}");
        }
    }
    before.assert_is_as_before(&turn);
}

/// A results directory in `/dev/shm` is one like any other, though servers get a `/dev/shm` of their own.
#[test]
fn results_in_memory_are_measured_too() {
    let turn = Turn::at(|| Place::with(ONE_CELL));
    let before = Host::now(&turn.place.path());
    turn.run("run ./tiny.toml --quiet").expect(0, "run");
    assert_measured(&turn, 1);
    before.assert_is_as_before(&turn);
}

/// A results directory may be a link to a place that only its owner may enter.
#[test]
fn results_behind_a_link_are_measured_too() {
    let turn = Turn::with(ONE_CELL);
    let closed = turn.place.path().join("closed");
    fs::create_dir_all(closed.join("results")).expect("makes");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("closes");
    std::os::unix::fs::symlink("closed/results", turn.place.results()).expect("links");
    turn.run("run ./tiny.toml --quiet").expect(0, "run");
    assert_measured(&turn, 1);
}

/// Each way to speak to a server is measured and counts what it changed; a library has no such ways, and says so.
#[test]
fn each_way_to_speak_to_a_server_holds_its_counters() {
    let ways = [
        "transport=unix",
        "transport=tcp",
        "statements=text",
        "transaction=begin-commit",
        "pipeline=4",
        "transport=tcp --set pipeline=4 --set statements=text",
    ];
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    for way in ways {
        let engines = "postgres-18,mariadb-10.11,sqlite";
        turn.run(&format!("run ./tiny.toml --quiet --engine {engines} --set {way}")).expect(0, way);
        let ends = turn.ends();
        let names: Vec<&str> = ends.iter().map(|(end, _, _)| end.as_str()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["Measured", "Measured", "Unsupported"], "{way}: {ends:?}");
        let unsupported = ends.iter().find(|(end, _, _)| end == "Unsupported").expect("sqlite");
        let factor = way.split('=').next().expect("a factor");
        assert!(unsupported.1.contains("sqlite has no server"), "{way}: {unsupported:?}");
        assert!(unsupported.1.contains(factor), "{way}: {unsupported:?}");
        let run = turn.place.results().join(turn.place.only_run());
        for (path, bytes) in bytes_below(&run.join("trials")) {
            let text = String::from_utf8_lossy(&bytes);
            if path.ends_with("check.json") {
                assert!(text.contains("\"passed\": true"), "{way}: {text}");
            }
            if path.ends_with("receipt.json") && way == "transport=tcp" {
                let receipt: Value = serde_json::from_str(&text).expect("JSON");
                let address = receipt["address"].as_str().expect("an address");
                assert!(address.starts_with("127.0.0.1:"), "{way}: measured at {address}");
            }
        }
        fs::remove_dir_all(run).expect("removes");
    }
    before.assert_is_as_before(&turn);
}

/// A server that dies fails its trial with its last words; the next trial has a new one, on a fresh copy.
#[test]
fn a_server_that_dies_fails_its_trial_and_not_the_next() {
    for (engine, program, words) in [
        ("postgres-18", "postgres", "database system is ready"),
        ("mariadb-10.11", "mariadbd", "ready for connections"),
    ] {
        let turn = Turn::with(&two_long_cells());
        let before = Host::now(&turn.place.path());
        let mut command = turn.command(&format!("run ./tiny.toml --keep-data --engine {engine}"));
        let child = command.spawn().expect("starts");
        let server = wait_for_trial(&turn, &child, program);
        std::thread::sleep(Duration::from_millis(500));
        signal(server, libc::SIGKILL);
        let ended = ended(child).expect(8, engine);
        let ends = turn.ends();
        assert_eq!(ends.len(), 2, "{ends:?}");
        let (failed, measured) = (&ends[0], &ends[1]);
        assert_eq!((failed.0.as_str(), measured.0.as_str()), ("Failed", "Measured"), "{ends:?}");
        assert!(failed.1.contains("was ended by signal 9"), "{failed:?}");
        assert!(failed.1.contains(words), "{engine}: its log is not quoted: {failed:?}");
        assert!(measured.2 > failed.2, "not another restart: {ends:?}");
        let kept = turn.place.results().join("kept").join(turn.place.only_run());
        let kept = kept.join("trial-1");
        assert!(kept.join("data").is_dir() && kept.join("log").is_file(), "nothing is kept");
        assert!(ended.stderr.contains(&kept.display().to_string()), "{ended:?}");
        before.assert_is_as_before(&turn);
    }
}

/// A server that stands still while it is loaded ends the load with how far it came; later it is loaded after all.
#[test]
fn a_load_that_stands_still_is_given_up() {
    let turn = Turn::with(&ONE_CELL.replace("rows = 200", "rows = 500_000"));
    let before = Host::now(&turn.place.path());
    let arguments = "run ./tiny.toml --quiet --engine mariadb-10.11";
    let impatient = format!("{arguments} --set load_patience_s=1");
    let child = turn.command(&impatient).spawn().expect("starts");
    let job = wait_for("a load", || job_of(&child));
    let server = child_named(child.id(), "mariadbd").expect("it is loaded");
    std::thread::sleep(Duration::from_millis(500));
    signal(server, libc::SIGSTOP);
    wait_for("the end of the load", || (job_of(&child) != Some(job)).then_some(()));
    // It is told to stop while it cannot hear, and does so now.
    signal(server, libc::SIGCONT);
    let ended = ended(child).expect(1, "the load hangs");
    let says = "mariadb-10.11: the dataset cannot be loaded: it stood still for ";
    assert!(ended.stderr.contains(says), "{ended:?}");
    let says =
        " rows and updates: see what the engine waits for, or give it more time with load_pat";
    assert!(ended.stderr.contains(says), "{ended:?}");
    before.assert_is_as_before(&turn);
    turn.run(arguments).expect(0, "with patience");
}

/// Ctrl-C in a trial stops the server with the command, and `--resume` does the rest.
#[test]
fn an_interrupted_run_stops_its_server_and_goes_on_later() {
    let turn = Turn::with(&two_long_cells());
    let before = Host::now(&turn.place.path());
    let child = turn.command("run ./tiny.toml --engine mariadb-10.11").spawn().expect("starts");
    wait_for_trial(&turn, &child, "mariadbd");
    signal(child.id(), libc::SIGINT);
    let interrupted = ended(child).expect(130, "interrupted");
    assert!(interrupted.stderr.contains("run --resume"), "{interrupted:?}");
    before.assert_is_as_before(&turn);
    let run = turn.place.only_run();
    turn.run(&format!("run --resume {run} --quiet")).expect(0, "resume");
    assert_measured(&turn, 2);
    before.assert_is_as_before(&turn);
}

/// A killed command takes its server with it; the next command clears up and says so; `--resume` does the rest.
#[test]
fn a_killed_run_is_swept_by_the_next_one() {
    for (engine, program) in [("postgres-18", "postgres"), ("mariadb-10.11", "mariadbd")] {
        let turn = Turn::with(&two_long_cells());
        let before = Host::now(&turn.place.path());
        let arguments = format!("run ./tiny.toml --engine {engine}");
        let mut child = turn.command(&arguments).spawn().expect("starts");
        wait_for_trial(&turn, &child, program);
        signal(child.id(), libc::SIGKILL);
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        let path = turn.place.path();
        wait_for("the server's end", || {
            let left = format!("{:?}", Host::now(&path));
            (!left.contains(&format!(" {program}\""))).then_some(())
        });
        let run = turn.place.only_run();
        let swept = turn.run(&format!("run --resume {run}")).expect(0, "resume");
        assert!(swept.stderr.contains("was left by a dbdyno that is dead"), "{swept:?}");
        assert_measured(&turn, 2);
        before.assert_is_as_before(&turn);
    }
}

/// The second Ctrl-C ends a command that cannot follow the first one yet.
#[test]
fn a_second_interrupt_ends_the_command_at_once() {
    let turn = Turn::with(ONE_CELL);
    turn.run("run ./tiny.toml --quiet").expect(0, "loads the dataset");
    let first = turn.place.only_run();
    fs::remove_dir_all(turn.place.results().join(first)).expect("removes");
    // Another run, here the test, has the template, and the command waits for it.
    let datasets = turn.place.results().join("cache/datasets");
    let template = fs::read_dir(datasets).expect("there").flatten().next().expect("a template");
    let lock = fs::File::create(template.path().join("lock")).expect("opens");
    lock.lock().expect("locks");
    let mut child = turn.command("run ./tiny.toml").spawn().expect("starts");
    wait_for("the command at the lock", || {
        let name = fs::read_to_string(format!("/proc/{}/wchan", child.id())).ok()?;
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).ok()?.flatten();
        let mut open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        (open.any(|path| path == template.path().join("lock")) || name.contains("lock"))
            .then_some(())
    });
    signal(child.id(), libc::SIGINT);
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().expect("asks").is_none(), "it does not wait for the template");
    signal(child.id(), libc::SIGINT);
    ended(child).expect(130, "the second interrupt");
}

/// On a server that the user names only the database dbdyno is used: made, used again, replaced, and no other touched.
#[test]
fn a_named_server_is_measured_in_a_database_of_its_own() {
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    let up = Up::start(&turn, "postgres-18", "");
    let url = format!("mine=url:postgres://dbdyno@127.0.0.1:{}/", up.port());
    let number = |database: &Postgres, sql: &str| database.statement(sql).expect("answers");
    let users = {
        let sql: Postgres = up.sql("postgres");
        sql.statement("CREATE TABLE precious AS SELECT 42 AS value").expect("makes");
        sql
    };
    let oid = || number(&users, "SELECT oid FROM pg_database WHERE datname = 'dbdyno'");
    let mut oids = Vec::new();
    for set in ["rows=200", "rows=200", "rows=100"] {
        turn.run(&format!("run ./tiny.toml --quiet --engine {url} --set {set}")).expect(0, set);
        assert_measured(&turn, 1);
        let run = turn.place.only_run();
        assert!(turn.trials(&run).contains("ServerElsewhere"), "no warning");
        fs::remove_dir_all(turn.place.results().join(run)).expect("removes");
        oids.push(oid());
    }
    assert_eq!(oids[0], oids[1], "the same dataset was loaded again");
    assert_ne!(oids[1], oids[2], "another dataset was not loaded");
    assert_eq!(number(&users, "SELECT value FROM precious"), Some(42));
    assert_eq!(number(&users, "SELECT count(*) FROM pg_database"), Some(4), "three and its own");

    // What cannot be, in one message each.
    let refused = |arguments: &str, code: u8, says: &str| {
        let ended = turn.run(&format!("run ./tiny.toml --quiet --engine {arguments}"));
        let ended = ended.expect(code, arguments);
        let words = format!("{}{}", ended.stdout, ended.stderr);
        assert!(words.contains(says), "{arguments}: it should say {says}\n{words}");
        for run in turn.place.runs() {
            fs::remove_dir_all(turn.place.results().join(run)).expect("removes");
        }
    };
    refused(&format!("{url}?sslmode=verify-full"), 11, "the server refuses TLS");
    refused(
        &format!("{url} --set dop=2199"),
        8,
        "takes 2200 connections and this trial needs 2204",
    );
    refused(&format!("{url} --set durability=commit-sync"), 8, "fsync is off and must be on");

    // A database of this name that somebody else made.
    number(&users, "DROP DATABASE dbdyno");
    number(&users, "CREATE DATABASE dbdyno");
    {
        let theirs: Postgres = up.sql("dbdyno");
        number(&theirs, "CREATE TABLE orders AS SELECT * FROM generate_series(1, 10) AS number");
    }
    let made = oid();
    refused(&url, 11, "that dbdyno did not make");
    let theirs: Postgres = up.sql("dbdyno");
    assert_eq!(oid(), made);
    assert_eq!(number(&theirs, "SELECT sum(number) FROM orders"), Some(55));
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    // The other one is of this test's own connection.
    assert_eq!(number(&theirs, tables), Some(2), "a table was made in it");
    drop((theirs, users));
    up.down(&turn);
    before.assert_is_as_before(&turn);
}

/// A password is used and told nobody: no file, no message, no list of processes has it.
#[test]
fn passwords_stay_where_they_are_needed() {
    const SECRET: &str = "s3cret-Word";
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    let up = Up::start(&turn, "mariadb-10.11", "");
    let sql: Mysql = up.sql("dbdyno");
    for statement in [
        &format!("CREATE USER me@'%' IDENTIFIED BY '{SECRET}'"),
        "GRANT ALL ON *.* TO me@'%'",
        "DROP DATABASE dbdyno",
    ] {
        sql.statement(statement).expect("the server agrees");
    }
    drop(sql);
    let port = up.port();
    let wrong = format!("mine=url:mysql://me:not-{SECRET}@127.0.0.1:{port}/");
    let refused = turn.run(&format!("run ./tiny.toml --engine {wrong}")).expect(11, "wrong");
    assert!(refused.stderr.contains("Access denied for user 'me'"), "{refused:?}");
    assert!(!format!("{refused:?}").contains(SECRET), "{refused:?}");
    fs::remove_dir_all(turn.place.results().join(turn.place.only_run())).expect("removes");

    let right = format!("mine=url:mysql://me:{SECRET}@127.0.0.1:{port}/");
    let arguments = format!("run ./tiny.toml --engine {right}");
    let child = turn.command(&arguments).spawn().expect("starts");
    let mut looks = 0;
    wait_for("the end of the command", || {
        let all = arguments_of(child.id());
        if all.len() > 1 {
            looks += 1;
            assert!(!all.join("\n").contains(SECRET), "{all:?}");
        }
        let is_done = fs::read_to_string(format!("/proc/{}/stat", child.id()));
        is_done.is_ok_and(|stat| stat.contains(") Z ")).then_some(())
    });
    assert!(looks > 3, "its jobs were not seen");
    let measured = ended(child).expect(0, "right");
    assert!(!format!("{measured:?}").contains(SECRET), "{measured:?}");
    assert_measured(&turn, 1);
    for (path, bytes) in bytes_below(&turn.place.results()) {
        let has_it = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!has_it, "{} has the password", path.display());
    }
    up.down(&turn);
    before.assert_is_as_before(&turn);
}

/// A server by hand is listed while it runs, is started once only, and says what it has in effect.
#[test]
fn a_server_by_hand_is_listed_and_started_once() {
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    let running = || {
        let listed = turn.run("engines list --json").expect(0, "list").json();
        let engines = listed.as_array().expect("engines").iter();
        let mut postgres = engines.filter(|engine| engine["name"] == "postgres-18");
        postgres.next().expect("postgres-18")["installed"]["running"].clone()
    };
    let row = |column: usize| {
        let text = turn.run("engines list").expect(0, "list").stdout;
        let mut rows = text.lines().filter(|line| line.starts_with("postgres-18 "));
        let row = rows.next().expect("a row").split_whitespace().nth(column);
        row.expect("a column").to_owned()
    };
    assert_eq!(running(), serde_json::json!([]));
    assert_eq!((row(2), row(3)), ("yes".to_owned(), "no".to_owned()));
    let up = Up::start(&turn, "postgres-18", "");
    assert_eq!(running()[0]["owner_pid"], up.child.id());
    assert_eq!(row(3), "yes");
    let twice = turn.run("engines up postgres-18").expect(11, "twice");
    assert!(twice.stderr.contains("is up already, by process"), "{twice:?}");
    let settings = turn.run("engines settings postgres-18 --set cache_mb=64").expect(0, "settings");
    let mut lines = settings.stdout.lines().filter(|line| line.starts_with("shared_buffers "));
    // Pages of 8 KiB.
    assert_eq!(lines.next().and_then(|line| line.split_whitespace().nth(1)), Some("8192"));
    up.down(&turn);
    assert_eq!(running(), serde_json::json!([]));
    let again = turn.run("engines down postgres-18").expect(3, "down twice");
    assert!(again.stderr.contains("postgres-18 is not up"), "{again:?}");
    before.assert_is_as_before(&turn);
}

/// What a killed `engines up` left is of no use to the next one: it may be half made, and for other settings.
#[test]
fn a_killed_server_by_hand_leaves_the_next_one_a_fresh_directory() {
    let turn = Turn::with(ONE_CELL);
    let before = Host::now(&turn.place.path());
    let mut up = Up::start(&turn, "postgres-18", "");
    let data = std::path::Path::new(&up.said["socket"]).ancestors().nth(2).expect("there");
    let data = data.join("data");
    up.child.kill().expect("kills");
    up.child.wait().expect("ends");
    fs::remove_file(data.join("PG_VERSION")).expect("the directory is half made");
    drop(up);
    let up = Up::start(&turn, "postgres-18", "");
    up.down(&turn);
    assert!(!data.exists(), "{} is left", data.display());
    before.assert_is_as_before(&turn);
}

/// A killed `engines settings` leaves a data directory in the cache, which the next one removes, whatever its engine.
#[test]
fn a_killed_settings_is_swept_by_the_next_one() {
    let turn = Turn::with(ONE_CELL);
    turn.run("engines fetch postgres-18 mariadb-10.11").expect(0, "fetch");
    let before = Host::now(&turn.place.path());
    let left = || {
        let entries = fs::read_dir(turn.place.path().join("cache/up")).into_iter().flatten();
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.join("data").is_dir())
    };
    let mut child = turn.command("engines settings mariadb-10.11").spawn().expect("starts");
    wait_for("its data directory", left);
    child.kill().expect("kills");
    child.wait().expect("ends");
    assert!(left().is_some(), "it left nothing, so this shows nothing");
    turn.run("engines settings postgres-18").expect(0, "settings");
    assert_eq!(left(), None);
    before.assert_is_as_before(&turn);
}

/// Two builds of the user's own are measured side by side.
#[test]
fn two_builds_are_measured_side_by_side() {
    let turn = Turn::with(ONE_CELL);
    turn.run("engines fetch postgres-18").expect(0, "fetch");
    let listed = turn.run("engines list --json").expect(0, "list").json();
    let engines = listed.as_array().expect("engines").iter();
    let mut postgres = engines.filter(|engine| engine["name"] == "postgres-18");
    let prefix = &postgres.next().expect("postgres-18")["installed"]["fetched"]["prefix"];
    let prefix = prefix.as_str().expect("a prefix");
    let before = Host::now(&turn.place.path());
    std::os::unix::fs::symlink(prefix, turn.place.path().join("linked")).expect("links");
    let engines = format!("a=path:{prefix},b=path:./linked");
    turn.run(&format!("run ./tiny.toml --quiet --engine {engines}")).expect(0, "two builds");
    assert_measured(&turn, 2);
    let exported = turn.run(&format!("export {} --format json", turn.place.only_run()));
    let found = values(&exported.expect(0, "export").json(), "server_cpu_us_per_op");
    let names: Vec<&str> = found.iter().map(|(engine, _)| engine.as_str()).collect();
    assert!(names.contains(&"a") && names.contains(&"b"), "{found:?}");
    assert_eq!(child_named(std::process::id(), "postgres"), None);
    before.assert_is_as_before(&turn);
}
