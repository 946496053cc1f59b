//! The insert benchmark as a user runs it, small, on SQLite: every step is in the record with its numbers and files, the
//! tables of document 004 are shown, and what cannot be meant is refused where it is written.

mod common;

use common::{Place, bytes_below};
use serde_json::Value;
use std::collections::BTreeSet;

/// All kinds of steps, on rows that are loaded before the first.
const STEPS: &str = "\
name = 'steps'
question = 'Do steps go on where the one before stopped?'
workload = 'insert_benchmark'
engines = ['sqlite']

[hold]
dialect = '2024'
dop = 2
rows = 500
indexed = true
load_rows = 230
query_s = 1.0
device_profile = false

[[step]]
name = 'l.i0'
rows = 'load_rows'
insert = { rows_per_request = 100 }

[[step]]
name = 'l.i2'
rows = 'load_rows'
share = 0.5
insert = { rows_per_request = 5 }
delete = { rows_per_request = 5 }

[[step]]
name = 'drain'
task = 'drain'

[[step]]
name = 'qr100'
seconds = 'query_s'
insert = { rate = 100, rows_per_request = 10 }
query = {}

[[step]]
name = 'qp100'
seconds = 'query_s'
insert = { rate = 100, rows_per_request = 10, arrival = 'burst-1s' }
points = {}
";

/// The fields of the export's rows for a metric: step, class and value.
fn exported(place: &Place, run: &str, metric: &str) -> Vec<(String, String, f64)> {
    let export = place.run(&format!("export {run}")).expect(0, "export");
    let mut reader = csv::Reader::from_reader(export.stdout.as_bytes());
    let head = reader.headers().expect("a head").clone();
    let at = |name: &str| head.iter().position(|column| column == name).expect("a column");
    let (step, class, of, value) = (at("step"), at("class"), at("metric"), at("value"));
    let rows = reader.records().map(|row| row.expect("a row"));
    rows.filter(|row| &row[of] == metric)
        .map(|row| {
            (row[step].to_owned(), row[class].to_owned(), row[value].parse().expect("a number"))
        })
        .collect()
}

#[test]
fn every_step_is_measured_checked_and_shown() {
    let place = Place::with(STEPS);
    let run = place.run("run ./tiny.toml --quiet").expect(0, "run");
    let id = place.only_run();
    for says in ["l.i0", "target", "qps", "cpupq", "rkbpq"] {
        assert!(run.stdout.contains(says), "{says}: {}", run.stdout);
    }
    let shown = place.run(&format!("show {id}")).expect(0, "show");
    assert!(
        run.stdout.contains(shown.stdout.lines().last().expect("lines")),
        "show shows the same"
    );

    let rates = exported(&place, &id, "rows_per_s");
    let with_rows: BTreeSet<(&str, &str)> =
        rates.iter().map(|(step, class, _)| (step.as_str(), class.as_str())).collect();
    let expected = [
        ("l.i0", "insert"),
        ("l.i2", "insert"),
        ("l.i2", "delete"),
        ("qr100", "insert"),
        ("qp100", "insert"),
    ];
    assert_eq!(with_rows, expected.into_iter().collect());
    for (step, _, rate) in rates.iter().filter(|(step, _, _)| step.starts_with('q')) {
        // Two clients, a hundred rows a second each; a commit of ten more or less at the end.
        assert!((rate - 200.0).abs() <= 20.0, "{step}: {rate}");
    }
    let asked: BTreeSet<String> = exported(&place, &id, "throughput_per_s")
        .into_iter()
        .filter(|(step, class, rate)| step == "qr100" && class != "all" && *rate > 0.0)
        .map(|(_, class, _)| class)
        .collect();
    let classes = ["insert", "query", "marketsegment", "registersegment", "pdc"];
    assert_eq!(asked, classes.map(str::to_owned).into_iter().collect());

    let files = bytes_below(&place.results().join(&id).join("trials"));
    let json = |name: &str| -> Value {
        let found = files.iter().find(|(path, _)| path.ends_with(name));
        let (_, bytes) = found.unwrap_or_else(|| panic!("{name}"));
        serde_json::from_slice(bytes).expect("JSON")
    };
    for step in ["l.i0", "l.i2", "qr100", "qp100"] {
        assert_eq!(json(&format!("{step}.check.json"))["passed"], true, "{step}");
        assert!(files.iter().any(|(path, _)| path.ends_with(format!("{step}.series.jsonl"))));
    }
    let whole = json("check.json");
    assert_eq!(whole["passed"], true, "{whole}");
    let statements = whole["statements"].to_string();
    for says in ["500 rows loaded", "entries in index pdc", "as they were inserted"] {
        assert!(statements.contains(says), "{says}: {statements}");
    }
    place.run(&format!("show {id} --verify")).expect(0, "verify");
}

/// Steps that cannot be meant are refused by file, line and key, engines without such tables are listed with the reason.
#[test]
fn what_cannot_be_run_is_said_before_anything_is() {
    let place = Place::with(&STEPS.replace("query = {}", "qery = {}"));
    let refused = place.run("run ./tiny.toml");
    assert!(refused.stderr.contains("tiny.toml:"), "{refused:?}");
    assert!(refused.stderr.contains("unknown key \"qery\""), "{refused:?}");
    assert!(!place.results().exists(), "nothing was begun");

    let plan = Place::with(STEPS).run("plan ./tiny.toml --engine lmdb").expect(0, "plan");
    assert!(
        plan.stdout.contains("step      l.i2: 115 rows each, insert by 2, 5 rows a commit"),
        "{plan:?}"
    );
    assert!(plan.stdout.contains("no capability \"tables\""), "{plan:?}");
}
