//! Both views on small tables: what stands in a cell, what stands below, and what ratios relate to.

use super::*;
use dbdyno_record::{FactorValue, Observation, TrialRecord, metric};

fn trial(throughput: f64, end: TrialEnd) -> TrialRecord {
    let found = metric::find("throughput_per_s").expect("is in the list");
    TrialRecord {
        trial: 1,
        cell: String::new(),
        engine: String::new(),
        engine_version: String::new(),
        configuration: String::new(),
        workload: String::new(),
        workload_version: 1,
        block: 1,
        restart: 1,
        factors: BTreeMap::new(),
        started_utc: String::new(),
        duration_s: 0.0,
        end,
        observations: vec![Observation::new(("measure", "all", "all"), found, throughput)],
        warnings: Vec::new(),
        steps: Vec::new(),
        files: BTreeMap::new(),
    }
}

fn cell(engine: &str, tables: f64, dop: f64, throughputs: &[f64]) -> Cell {
    let factor = |name: &str, value| (name.to_owned(), Ordered(FactorValue::Number(value)));
    Cell {
        engine: engine.to_owned(),
        factors: [factor("tables", tables), factor("dop", dop)].into(),
        trials: throughputs.iter().map(|&value| trial(value, TrialEnd::Measured)).collect(),
        planned: throughputs.len(),
    }
}

fn check(cells: &[Cell], content: Content<'_>, expected: &[&str]) {
    let text = two_views(cells, content, "T");
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expected, "{text}");
}

const THROUGHPUT: Content<'_> = Content::Metric("throughput_per_s");

/// Medians with spread, cells that were not run, and cells with fewer blocks than planned.
#[test]
fn cells_say_what_is_known() {
    let mut left_out = cell("e", 2.0, 1.0, &[]);
    left_out.trials = vec![trial(0.0, TrialEnd::NotRun { reason: "too few".into() })];
    let mut invalid = cell("e", 2.0, 2.0, &[]);
    invalid.trials = vec![trial(9.0, TrialEnd::Invalid { reason: "lost".into() })];
    let mut partly = cell("e", 1.0, 2.0, &[5.0, 7.0]);
    partly.planned = 3;
    let cells = [cell("e", 1.0, 1.0, &[100.0, 110.0, 90.0]), partly, left_out, invalid];
    check(
        &cells,
        THROUGHPUT,
        &[
            "T, by engine",
            "engine  tables     DOP=1          DOP=2",
            "e       1       100 ±10%  6.00 ±17% n=2",
            "e       2              X        invalid",
            "  Invalid: lost",
        ],
    );
}

/// The same warning has one letter and one line, whatever cells it concerns.
#[test]
fn warnings_stand_beside_their_numbers() {
    let mut cells = [cell("e", 1.0, 1.0, &[100.0, 100.0]), cell("e", 1.0, 2.0, &[100.0, 100.0])];
    cells[1].trials[0].warnings = vec![Warning::HostBusy { other_cpu_share: 0.5 }];
    let text = two_views(&cells, THROUGHPUT, "T");
    assert!(text.contains("100 ±0%  100 ±0% a\n"), "{text}");
    assert!(text.contains("\n  a HostBusy: Other processes used 50.0 %"), "{text}");
}

/// Ratios to an engine leave its own line out and carry n and range.
#[test]
fn ratios_to_an_engine() {
    let cells = [cell("a", 1.0, 1.0, &[100.0, 110.0]), cell("b", 1.0, 1.0, &[210.0, 210.0])];
    check(
        &cells,
        Content::RatioTo("throughput_per_s", Base::Engine("a")),
        &[
            "T, by engine",
            "engine  tables                    DOP=1",
            "b       1       2.00 [1.91..2.10] n=2/2",
        ],
    );
}

/// Ratios to the first run relate each engine to itself; within several runs an engine is found by its bare name.
#[test]
fn ratios_between_runs() {
    let cells = [
        cell("A:x", 1.0, 1.0, &[100.0]),
        cell("A:y", 1.0, 1.0, &[50.0]),
        cell("B:x", 1.0, 1.0, &[200.0]),
        cell("B:y", 1.0, 1.0, &[50.0]),
    ];
    let text = two_views(&cells, Content::RatioTo("throughput_per_s", Base::FirstRun), "T");
    assert!(text.contains("B:x     1       2.00 [2.00..2.00] n=1/1"), "{text}");
    assert!(text.contains("B:y     1       1.00 [1.00..1.00] n=1/1"), "{text}");
    assert!(!text.contains("A:x"), "{text}");
    let text = two_views(&cells, Content::RatioTo("throughput_per_s", Base::Engine("y")), "T");
    assert!(text.contains("A:x     1       2.00"), "{text}");
    assert!(text.contains("B:x     1       4.00"), "{text}");
}

/// A metric that needs a schedule says why it is not there.
#[test]
fn closed_loops_have_no_response_time() {
    let text =
        two_views(&[cell("e", 1.0, 1.0, &[1.0])], Content::Metric("response_time_us_p99"), "T");
    assert!(text.contains("no schedule"), "{text}");
}
