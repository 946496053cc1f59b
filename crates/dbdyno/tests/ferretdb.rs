//! FerretDB in front of PostgreSQL: measured with the costs of both, held to what every driver must do, refused where it is
//! named as a MongoDB, and nothing of either server left on the host, also if one of them is killed.
//!
//! The engines are fetched and built into the command's own cache, which takes minutes the first time.

mod common;

use common::host::{Host, ONE_CELL, Turn, Up, child_named, signal, wait_for_trial};
use common::{Ended, bytes_below};
use dbdyno_load::conformance::{conforms, counts};
use dbdyno_load::driver::{Driver, OpenOptions, mongodb::Mongodb};
use dbdyno_load::server::{Address, ClientOptions, Server, Tls};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Every JSON file of this name in the only run's details.
fn details(turn: &Turn, name: &str) -> Vec<Value> {
    let run = turn.place.results().join(turn.place.only_run());
    let files = bytes_below(&run.join("trials")).into_iter();
    let files = files.filter(|(path, _)| path.ends_with(name));
    files.map(|(_, bytes)| serde_json::from_slice(&bytes).expect("JSON")).collect()
}

/// Runs biebermarks, small: every cell is measured, every counter right, and the host as it was before.
fn is_measured(engine: &str, more: &str, backend: &str, version: &str) {
    let turn = Turn::with(ONE_CELL);
    turn.run(&format!("engines fetch {engine}")).expect(0, "fetch");
    let before = Host::now(&turn.place.path());
    let arguments =
        format!("run biebermarks --scale smoke --offline --quiet --engine {engine} {more}");
    turn.run(&arguments).expect(0, engine);
    let ends = turn.ends();
    let run: Vec<_> = ends.iter().filter(|(end, _, _)| end != "NotRun").collect();
    assert!(!run.is_empty() && run.iter().all(|(end, _, _)| end == "Measured"), "{ends:?}");
    let checks = details(&turn, "check.json");
    assert_eq!(checks.len(), run.len());
    assert!(checks.iter().all(|check| check["passed"] == true), "{checks:?}");
    for receipt in details(&turn, "receipt.json") {
        assert_eq!(receipt["version"], version, "{receipt}");
        assert_eq!(receipt["backend"]["engine"], backend, "{receipt}");
        assert_eq!(receipt["backend"]["effective"]["synchronous_commit"], "on", "{receipt}");
        assert_eq!(receipt["processes"].as_array().map(Vec::len), Some(2), "{receipt}");
    }
    for samples in details(&turn, "host_samples.json") {
        let of = |boundary: &str| {
            let trees = &samples[boundary]["server"]["cpu_ns_by_first_process"];
            let trees = trees.as_object().expect("trees");
            trees.values().map(|tree| tree.as_u64().expect("a number")).collect::<Vec<_>>()
        };
        let (start, end) = (of("measure_start"), of("measure_end"));
        assert_eq!((start.len(), end.len()), (2, 2), "{samples}");
        assert!(start.iter().zip(&end).all(|(start, end)| end > start), "{samples}");
    }
    before.assert_is_as_before(&turn);
}

#[test]
fn ferretdb_1_is_measured_with_its_backend() {
    // One client: FerretDB 1 loses updates of a row that two clients change at once, and such trials are Invalid.
    is_measured("ferretdb-1", "--set dop=1", "postgres-17", "v1.24.2");
}

#[test]
fn ferretdb_2_is_measured_with_its_backend() {
    is_measured("ferretdb-2", "", "postgres-18-documentdb", "v2.7.0");
}

/// How a driver opens a database on a FerretDB by hand, by its port.
fn options(up: &Up, database: &str, pipeline: u32) -> OpenOptions {
    let server = Server {
        address: Address::Tcp { host: "127.0.0.1".to_owned(), port: up.port() },
        user: String::new(),
        password: None,
        database: database.to_owned(),
        tls: Tls::Off,
        version_query: r#"{"buildInfo": 1} | version"#.to_owned(),
        settings_query: r#"{"getParameter": "*", "$db": "admin"}"#.to_owned(),
    };
    let client = ClientOptions { threads: 1, pipeline, ..ClientOptions::default() };
    let options = OpenOptions::of_directory(PathBuf::new(), Default::default(), 8);
    OpenOptions { server: Some(server), client, ..options }
}

/// FerretDB 2 keeps the promises of every driver, one request at a time and several. Unlike FerretDB 1 it loses no update
/// of a row that several clients change at once.
#[test]
fn ferretdb_2_conforms() {
    let turn = Turn::with(ONE_CELL);
    turn.run("engines fetch ferretdb-2").expect(0, "fetch");
    let before = Host::now(&turn.place.path());
    let up = Up::start(&turn, "ferretdb-2", "");
    for pipeline in [1, 4] {
        let options = options(&up, &format!("conforms{pipeline}"), pipeline);
        conforms::<Mongodb>(&options, true);
        counts::<Mongodb>(&options);
    }
    up.down(&turn);
    before.assert_is_as_before(&turn);
}

/// A FerretDB that the user names as a MongoDB is called what it is, and nothing is written into it.
#[test]
fn a_ferretdb_is_not_measured_as_a_mongodb() {
    for (engine, version) in [("ferretdb-1", "FerretDB v1."), ("ferretdb-2", "FerretDB v2.")] {
        let turn = Turn::with(ONE_CELL);
        turn.run(&format!("engines fetch {engine}")).expect(0, "fetch");
        let up = Up::start(&turn, engine, "");
        // Without a promise of durability, as the engines themselves are opened, it is let in.
        let options = options(&up, "dbdyno", 1);
        let collections = || {
            let driver = Mongodb::open(&options).expect("opens");
            driver.statement(r#"{"dbStats": 1} | collections"#)
        };
        assert_eq!(collections(), Ok(Some(1)), "`engines up` makes one");
        Mongodb::drop_database(&options).expect("drops it");
        for durability in ["delayed", "commit-sync"] {
            let engine = format!("mine=url:mongodb://127.0.0.1:{}/", up.port());
            let arguments =
                format!("run ./tiny.toml --quiet --engine {engine} --set durability={durability}");
            let ended = turn.run(&arguments).expect(11, engine.as_str());
            for words in ["mine: ", version, "no MongoDB", "the engines ferretdb-1 and ferretdb-2"]
            {
                assert!(ended.stderr.contains(words), "it should say {words}: {ended:?}");
            }
            let run = turn.place.results().join(turn.place.only_run());
            std::fs::remove_dir_all(run).expect("removes");
        }
        assert_eq!(collections(), Ok(Some(0)), "something was written into it");
        up.down(&turn);
    }
}

/// Whichever of the two dies, its trial has failed and names it, and the next trial has both again.
#[test]
fn a_death_on_either_side_costs_one_trial() {
    for (victim, named) in [("ferretdb", "ferretdb-1: "), ("postgres", "postgres-17: ")] {
        let experiment = ONE_CELL
            .replace("dop = [2]", "dop = [1]")
            .replace("measured_s = 0.3", "measured_s = 3");
        let turn = Turn::with(&experiment);
        turn.run("engines fetch ferretdb-1").expect(0, "fetch");
        let before = Host::now(&turn.place.path());
        let arguments = "run ./tiny.toml --engine ferretdb-1 --set repeat=2";
        let child = turn.command(arguments).spawn().expect("starts");
        wait_for_trial(&turn, &child, "ferretdb");
        std::thread::sleep(Duration::from_millis(500));
        signal(child_named(child.id(), victim).expect("runs"), libc::SIGKILL);
        Ended::of(child.wait_with_output().expect("it ends")).expect(8, victim);
        let ends = turn.ends();
        assert_eq!(ends.len(), 2, "{ends:?}");
        let (failed, measured) = (&ends[0], &ends[1]);
        assert_eq!((failed.0.as_str(), measured.0.as_str()), ("Failed", "Measured"), "{ends:?}");
        assert!(failed.1.contains(named) && failed.1.contains("signal 9"), "{victim}: {failed:?}");
        assert!(measured.2 > failed.2, "not another restart: {ends:?}");
        before.assert_is_as_before(&turn);
    }
}
