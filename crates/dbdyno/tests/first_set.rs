//! Every engine of the first set in one run: fetched, started, loaded, measured at smoke scale, checked, stopped.
//!
//! Too long for every day (3.5 GB to fetch, then some minutes), so it is ignored by default; CONTRIBUTING.md says how it
//! is run.

mod common;

use common::bytes_below;
use common::host::{Host, ONE_CELL, Turn};
use serde_json::Value;

const FIRST_SET: &[&str] = &[
    "postgres-9.6",
    "postgres-13",
    "postgres-15",
    "postgres-17",
    "postgres-18",
    "postgres-18-debian",
    "mysql-5.5",
    "mysql-5.6",
    "mysql-8.0",
    "mysql-9.7",
    "mariadb-10.1",
    "mariadb-10.2",
    "mariadb-10.11",
    "mariadb-11.8",
    "mariadb-10.11:myrocks",
    "mariadb-11.8:myrocks",
];

/// Each trial that can be is Measured and its check passed, for each engine, and the host is as it was before.
#[test]
#[ignore = "fetches 3.5 GB and runs for minutes; see CONTRIBUTING.md"]
fn every_engine_of_the_first_set_is_measured_and_checked() {
    let turn = Turn::with(ONE_CELL);
    let bare = FIRST_SET.iter().filter(|name| !name.contains(':'));
    let bare: Vec<&str> = bare.copied().collect();
    turn.run(&format!("engines fetch {}", bare.join(" "))).expect(0, "fetch");
    let before = Host::now(&turn.place.path());
    let arguments =
        format!("run biebermarks --scale smoke --quiet --engine {}", FIRST_SET.join(","));
    turn.run(&arguments).expect(0, "run");
    before.assert_is_as_before(&turn);
    let run = turn.place.only_run();

    let ends = turn.ends();
    let wrong: Vec<_> =
        ends.iter().filter(|(end, _, _)| end != "Measured" && end != "NotRun").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let measured = ends.iter().filter(|(end, _, _)| end == "Measured").count();
    assert_eq!(measured % FIRST_SET.len(), 0, "not as many trials of each engine");
    let exported = turn.run(&format!("export {run} --format json")).expect(0, "export").json();
    let rows = exported.as_array().expect("rows");
    for name in FIRST_SET {
        let is_its = |row: &&Value| row["engine"] == *name && row["metric"] == "throughput_per_s";
        assert!(rows.iter().any(|row| is_its(&row)), "{name} has no throughput");
    }

    let files = bytes_below(&turn.place.results().join(&run).join("trials"));
    let checks = files.iter().filter(|(path, _)| path.ends_with("check.json"));
    let checks: Vec<Value> =
        checks.map(|(_, bytes)| serde_json::from_slice(bytes).expect("JSON")).collect();
    assert_eq!(checks.len(), measured);
    assert!(checks.iter().all(|check| check["passed"] == true), "{checks:?}");
}
