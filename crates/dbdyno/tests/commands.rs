//! What each command prints and records: plan, run, show, export, engines, doctor and the help texts, on the built-in
//! engines. Numbers are compared with each other, never with a clock.

mod common;

use common::{Ended, Place, TINY, bytes_below, cells, copy};
use dbdyno_record::{NewRun, Run, RunWriter};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The columns of the issue, with the factors of [`TINY`] before `metric`.
const COLUMNS: &str = "run,trial,engine,version,configuration,workload,workload_version,step,role,\
                       class,block,restart,dop,tables,metric,value,text,unit";

/// A run of one trial, as quick as it gets.
const ONE_TRIAL: &str = "run ./tiny.toml --quiet --set tables=1,dop=1,repeat=1 --engine lmdb";

/// Rows of an export as maps from column to field.
fn rows(export: &Ended) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(export.stdout.as_bytes());
    reader.deserialize().map(|row| row.expect("rows have all columns")).collect()
}

/// Fields of the rows with this metric, by trial.
fn of_metric(
    rows: &[BTreeMap<String, String>],
    metric: &str,
    field: &str,
) -> BTreeMap<u32, String> {
    let is_it = |row: &&BTreeMap<String, String>| row["metric"] == metric && row["class"] == "all";
    let found = rows.iter().filter(is_it);
    found.map(|row| (row["trial"].parse().expect("a number"), row[field].clone())).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// `plan` says what would be run and what is left out, in words and as JSON, and gives the same bytes each time.
#[test]
fn a_plan_is_the_same_each_time_and_names_what_is_not_run() {
    let place = Place::with(TINY);
    let text = place.run("plan ./tiny.toml").expect(0, "plan");
    for says in [
        "tiny: Does the command keep its promises?",
        "vary      tables = 1, 2",
        "20 in 4 blocks, each cell 2 times",
        "not run: dop 1 is below tables 2 (2 cells)",
        "expected: ",
        " to download",
    ] {
        assert!(text.stdout.contains(says), "{says}: {text:?}");
    }
    let json = place.run("plan ./tiny.toml --json").expect(0, "plan --json");
    assert_eq!(json.stdout, place.run("plan ./tiny.toml --json").stdout, "two plans differ");
    let other = place.run("plan ./tiny.toml --json --set seed=2");
    assert_ne!(json.stdout, other.stdout, "the seed is not in the plan");
    assert!(!place.results().exists(), "a plan does nothing");

    fn check(plan: &Value, run: usize, left_out: &[(u64, u64)]) {
        let trials = plan["trials"].as_array().expect("trials");
        let (runs, others): (Vec<_>, Vec<_>) =
            trials.iter().partition(|trial| trial["fate"] == "Run");
        assert_eq!(runs.len(), run);
        let factor = |trial: &Value, name: &str| trial["factors"][name].as_u64().expect(name);
        let found: BTreeSet<(u64, u64)> =
            others.iter().map(|trial| (factor(trial, "tables"), factor(trial, "dop"))).collect();
        assert_eq!(found, left_out.iter().copied().collect());
        assert!(others.iter().all(|trial| trial["fate"]["NotRun"].is_string()));
    }
    check(&json.json(), 20, &[(2, 1)]);
    let document = place.run("plan biebermarks --scale smoke --json").expect(0, "biebermarks");
    check(&document.json(), 44, &[(2, 1), (4, 1), (4, 2), (8, 1), (8, 2), (8, 4)]);
    let quick = place.run("plan biebermarks --quick --set tables=1,dop=64 --json").expect(0, "");
    check(&quick.json(), 2, &[]);
}

/// The README's first look at one cell measures one trial of the shipped experiment.
#[test]
fn a_first_look_at_one_cell_of_the_shipped_experiment() {
    let place = Place::with(TINY);
    let ended = place.run("run biebermarks --quick --set tables=1,dop=4 --engine lmdb");
    let ended = ended.expect(0, "quick");
    assert!(ended.stdout.contains("scale quick"), "{ended:?}");
    assert!(ended.stderr.contains(": 1 trials, about "), "{ended:?}");
    let shown = place.run(&format!("show {} --json", place.only_run())).expect(0, "show").json();
    assert_eq!(cells(&shown)["lmdb 1 4"], (1, vec!["Measured".to_owned()]));
}

/// A whole run: its tables, `show` in all its forms, the record, and both exports.
#[test]
fn a_run_prints_what_show_and_export_give_again() {
    let place = Place::with(TINY);
    let ran = place.run("run ./tiny.toml --quiet").expect(0, "run");
    assert_eq!(ran.stderr, "", "--quiet");
    let run = place.only_run();
    let (tables, record) = ran.stdout.rsplit_once("\nrecord: ").expect("where it is");
    assert_eq!(record.trim_end(), format!("results/{run}"));
    for name in [run.clone(), run[..run.len() - 2].to_owned(), format!("results/{run}")] {
        assert_eq!(place.run(&format!("show {name}")).expect(0, &name).stdout, tables, "{name}");
    }
    check_tables(tables);
    check_show(&place, &run);
    check_export(&place, &run);
    check_layout(&place, &run);
}

fn check_tables(tables: &str) {
    for says in [
        "Updates per second, by engine",
        "Updates per second, by tables",
        "engine  tables",
        "DOP=1",
        "DOP=4",
        "medians of n = 2 blocks",
        "engine sqlite: 3.",
        "(lock_scope = database)",
        "workload hot_row version 1, seed 1",
        "ns per request on the null driver",
        "±",
    ] {
        assert!(tables.contains(says), "{says}: {tables}");
    }
    let crosses = tables.lines().filter(|line| line.split_whitespace().nth(2) == Some("X"));
    assert_eq!(crosses.count(), 4, "one X for each engine in each view: {tables}");
}

fn check_show(place: &Place, run: &str) {
    let show = |rest: &str| place.run(&format!("show {run} {rest}")).expect(0, rest);
    let json = show("--json").json();
    assert_eq!(json["runs"][0]["sealed"], true);
    let found = cells(&json);
    assert_eq!(found.len(), 12);
    assert_eq!(found["lmdb 2 4"], (2, vec!["Measured".to_owned(); 2]));
    assert_eq!(found["sqlite 2 1"], (0, vec!["NotRun".to_owned()]));

    let costs = show("--costs").stdout;
    for metric in [
        "process_cpu_us_per_op (us/op)",
        "context_switches_per_op",
        "service_time_us_p50",
        "service_time_us_p99",
    ] {
        assert!(costs.contains(metric), "{metric}: {costs}");
    }
    let metrics = show("--metric service_time_us_p999,rss_mb").stdout;
    assert!(metrics.contains("service_time_us_p999 (us), by engine"), "{metrics}");
    assert!(metrics.contains("rss_mb (MB), by tables"), "{metrics}");
    assert!(!metrics.contains("Updates per second"), "{metrics}");

    let ratios = show("--relative-to lmdb").stdout;
    let (_, ratios) =
        ratios.split_once("Updates per second relative to lmdb, by engine").expect("");
    assert!(ratios.contains("n=2/2") && !ratios.contains("lmdb  1"), "no line of ones: {ratios}");
    assert!(!ratios.contains("faster") && !ratios.contains("better"), "a verdict: {ratios}");

    let twice = place.run(&format!("show {run} {run} --relative-to A:lmdb")).expect(0, "twice");
    assert!(twice.stdout.contains("A:sqlite") && twice.stdout.contains("B:lmdb"), "{twice:?}");
    assert!(twice.stdout.starts_with("A:\ntiny: ") && twice.stdout.contains("\nB:\ntiny: "));
    assert!(!twice.stdout.contains("different"), "{twice:?}");
    let to_itself = place.run(&format!("show {run} {run}")).expect(0, "to the first run");
    assert!(to_itself.stdout.contains("relative to the same engine in A"), "{to_itself:?}");
    assert!(to_itself.stdout.contains("B:lmdb    1       1.00 ["), "{to_itself:?}");
}

fn check_export(place: &Place, run: &str) {
    let csv = place.run(&format!("export {run}")).expect(0, "export");
    assert_eq!(csv.stdout.lines().next(), Some(COLUMNS));
    assert_eq!(csv.stdout, place.run(&format!("export {run} --format csv")).stdout);
    let rows = rows(&csv);
    let ends = of_metric(&rows, "trial_end", "text");
    let reasons = of_metric(&rows, "trial_end_reason", "text");
    let throughputs = of_metric(&rows, "throughput_per_s", "value");
    assert_eq!(ends.len(), 22);
    for (trial, end) in &ends {
        match end.as_str() {
            "Measured" => {
                assert!(number(&throughputs[trial]) > 0.0);
                assert!(!reasons.contains_key(trial));
            }
            "NotRun" => {
                assert!(!throughputs.contains_key(trial));
                assert_eq!(reasons[trial], "dop 1 is below tables 2");
            }
            other => panic!("trial {trial} is {other}"),
        }
    }
    assert_eq!(ends.values().filter(|end| *end == "NotRun").count(), 2);
    // Restarts differ, blocks have one engine each, and what needs no schedule has no response times.
    let restarts: BTreeSet<_> =
        of_metric(&rows, "throughput_per_s", "restart").into_values().collect();
    assert_eq!(restarts.len(), 20);
    let of_block: BTreeSet<_> = rows.iter().map(|row| (&row["block"], &row["engine"])).collect();
    assert_eq!(of_block.iter().filter(|(block, _)| *block != "0").count(), 4);
    assert!(!rows.iter().any(|row| row["metric"].starts_with("response_time")));
    for row in &rows {
        assert_eq!(row["value"].is_empty(), !row["text"].is_empty(), "{row:?}");
        let known = dbdyno_record::metric::find(&row["metric"]);
        assert_eq!(known.expect("metrics are in the list").unit, row["unit"], "{row:?}");
    }

    let json = place.run(&format!("export {run} --format json")).expect(0, "json").json();
    let json = json.as_array().expect("an array");
    assert_eq!(json.len(), rows.len());
    for (object, row) in json.iter().zip(&rows) {
        let object = object.as_object().expect("an object");
        assert_eq!(object.len(), row.len());
        for (column, field) in row {
            let value = match &object[column] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                // Both are shortest forms, but JSON writes a fraction where there is none.
                Value::Number(value) => value.as_f64().expect("finite").to_string(),
                other => panic!("{other}"),
            };
            assert_eq!(value, *field, "{column}");
        }
    }
}

/// A results directory holds runs and otherwise only names that are kept for something else.
fn check_layout(place: &Place, run: &str) {
    for entry in fs::read_dir(place.results()).expect("reads").flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        let is_kept = name.starts_with('.') || name == "index" || name == "cache";
        assert!(is_kept || name == run, "{name} in a results directory");
    }
    let directory = place.results().join(run);
    for name in ["plan.json", "host.json", "instrument.json", "trials.jsonl"] {
        assert!(directory.join(name).is_file(), "{name}");
    }
    for name in dbdyno_record::layout::DETAIL_FILES {
        assert!(directory.join("trials/00001").join(name).is_file(), "{name}");
    }
    let receipt = fs::read(directory.join("trials/00001/receipt.json")).expect("reads");
    let receipt: Value = serde_json::from_slice(&receipt).expect("JSON");
    assert!(receipt["version"].is_string() && receipt["effective"].is_object(), "{receipt}");
}

/// Export and show of a run that was stopped name what is missing, and missing trials are NotRun.
#[test]
fn a_stopped_run_is_exported_with_its_gaps() {
    let place = Place::with(TINY);
    place.run("run ./tiny.toml --quiet --set tables=1,repeat=1 --engine lmdb").expect(0, "run");
    let run = place.only_run();
    let list = place.results().join(&run).join("trials.jsonl");
    let text = fs::read_to_string(&list).expect("reads");
    // Header, host, instrument and the first trial: what a kill in the second trial leaves.
    let kept: Vec<&str> = text.split_inclusive('\n').take(4).collect();
    fs::write(&list, kept.concat()).expect("writes");
    let export = place.run(&format!("export {run}")).expect(0, "export");
    let gap =
        format!("2 of 3 planned trials are not measured; `dbdyno run --resume {run}` goes on");
    assert!(export.stderr.contains(&gap) && export.stderr.contains("not sealed"), "{export:?}");
    let rows = rows(&export);
    let ends: Vec<_> = of_metric(&rows, "trial_end", "text").into_values().collect();
    assert_eq!(ends, ["Measured", "NotRun", "NotRun"]);
    let reasons = of_metric(&rows, "trial_end_reason", "text");
    assert!(reasons[&2].contains("--resume"), "{reasons:?}");
    let shown = place.run(&format!("show {run}")).expect(0, "show");
    assert!(shown.stdout.contains(&format!("gap: {gap}")), "{shown:?}");
    assert!(shown.stdout.contains("..."), "{shown:?}");
    let json = place.run(&format!("show {run} --json")).expect(0, "show").json();
    assert_eq!(json["runs"][0]["sealed"], false);
    assert_eq!(json["runs"][0]["gaps"].as_array().map(Vec::len), Some(2));
}

/// Runs of another workload version or another host are called different where they are shown side by side.
#[test]
fn runs_that_cannot_be_compared_are_called_different() {
    let place = Place::with(TINY);
    place.run(ONE_TRIAL).expect(0, "run");
    let run = place.only_run();
    let original = Run::open(&place.results().join(&run)).expect("opens");
    // The same run as another host, or another version of the workload, would have recorded it.
    let record = |id: &str, version: u32, cores: &str| {
        let plan = String::from_utf8(original.plan.clone()).expect("UTF-8");
        let plan = plan.replace("\"version\": 1\n", &format!("\"version\": {version}\n"));
        let new =
            NewRun { run: id, plan: plan.as_bytes(), started_utc: "2026-01-01T00:00:00.000Z" };
        let mut writer = RunWriter::create(&place.results(), &new).expect("creates");
        let host = original.read_file("host.json").expect("reads");
        let mut host: Value = serde_json::from_slice(&host).expect("JSON");
        if !cores.is_empty() {
            host["cpu_model"] = cores.into();
        }
        writer.add_file("host.json", host.to_string().as_bytes()).expect("adds");
        for trial in &original.trials {
            let mut trial = trial.clone();
            trial.workload_version = version;
            trial.files.clear();
            writer.seal_trial(&trial).expect("seals");
        }
        writer.finish("2026-01-01T00:00:01.000Z").expect("finishes");
    };
    record("same", 1, "");
    record("workload", 2, "");
    record("host", 1, "Abacus 3");
    let show = |other: &str| place.run(&format!("show {run} {other}")).expect(0, other).stdout;
    assert!(!show("same").contains("different"));
    let workload = "A and B have different workloads: hot_row version 1 and hot_row version 2";
    assert!(show("workload").contains(workload), "{}", show("workload"));
    let host = "A and B ran on different hosts: cpu_model ";
    assert!(show("host").contains(host) && show("host").contains("Abacus 3"), "{}", show("host"));
}

/// With a schedule, what is due is what is acknowledged, and response times are there; service times always are.
#[test]
fn open_arrivals_do_what_is_due_and_have_response_times() {
    let place = Place::with(TINY);
    let check = |arrival: &str, exactly: Option<f64>| {
        let set = format!("tables=1,dop=8,repeat=1,measured_s=0.5,warmup_s=0.1,{arrival}");
        place.run(&format!("run ./tiny.toml --quiet --set {set}")).expect(0, arrival);
        let run = place.runs().pop().expect("a run");
        let export = place.run(&format!("export {run}")).expect(0, arrival);
        let rows = rows(&export);
        for metric in ["response_time_us_p99", "service_time_us_p99", "send_lateness_us_p99"] {
            let times = of_metric(&rows, metric, "value");
            assert_eq!(times.len(), 2, "{arrival}: {metric}");
            assert!(times.values().all(|time| number(time) > 0.0), "{arrival}: {times:?}");
        }
        let (due, acknowledged) =
            (of_metric(&rows, "due", "value"), of_metric(&rows, "acknowledged", "value"));
        assert_eq!(due.len(), 2, "{arrival}");
        assert_eq!(due, acknowledged, "{arrival}");
        for due in due.values() {
            assert!(exactly.is_none_or(|exactly| number(due) == exactly), "{arrival}: {due} due");
        }
        // The runs of one second are told apart by their process, so the last one is not always the newest.
        fs::remove_dir_all(place.results().join(run)).expect("removes");
    };
    check("arrival=uniform,rate=800", Some(400.0));
    check("arrival=poisson,rate=800", None);
}

/// A durability that an engine cannot give is Unsupported with its reason, and no error.
#[test]
fn a_durability_that_cannot_be_given_is_unsupported() {
    let place = Place::with(TINY);
    let ended = place.run("run ./tiny.toml --quiet --set durability=delayed").expect(0, "delayed");
    assert!(
        ended.stdout.contains("Unsupported: lmdb has no durability \"delayed\" ("),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("engine sqlite: not started"), "{ended:?}");
    let run = place.only_run();
    let rows = rows(&place.run(&format!("export {run}")).expect(0, "export"));
    let ends: BTreeSet<String> = of_metric(&rows, "trial_end", "text").into_values().collect();
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), ["NotRun", "Unsupported"]);
    assert!(of_metric(&rows, "throughput_per_s", "value").is_empty());
    place.run(&format!("show {run} --verify")).expect(0, "it is sealed");
}

/// The log is synced as the durability says: at least once for each group of concurrent commits, or never.
#[test]
fn log_syncs_are_what_the_durability_says() {
    let place = Place::with(TINY);
    let check = |durability: &str, is_right: &dyn Fn(f64, f64, f64) -> bool| {
        let set = format!("tables=1,dop=1,4,repeat=1,durability={durability}");
        place.run(&format!("run ./tiny.toml --quiet --set {set}")).expect(0, durability);
        let run = place.runs().pop().expect("a run");
        let rows = rows(&place.run(&format!("export {run}")).expect(0, durability));
        let syncs = of_metric(&rows, "log_syncs_per_commit", "value");
        let dops = of_metric(&rows, "log_syncs_per_commit", "dop");
        let commits = of_metric(&rows, "acknowledged", "value");
        assert_eq!(syncs.len(), 4, "{durability}");
        for (trial, syncs) in syncs {
            let (syncs, dop) = (number(&syncs), number(&dops[&trial]));
            let commits = number(&commits[&trial]);
            let about = format!("{durability}: {syncs} a commit, {commits} commits at DOP {dop}");
            assert!(is_right(syncs * commits, commits, dop), "{about}");
        }
        fs::remove_dir_all(place.results().join(run)).expect("removes");
    };
    // Syncs and commits of the interval are not counted at the same instant; a busy host may put a few milliseconds of
    // syncs on the other side of its ends. The check that makes a trial Invalid counts over the whole trial.
    check("commit-sync", &|syncs, commits, dop| syncs >= commits / dop / 2.0);
    check("none", &|syncs, _, _| syncs == 0.0);
}

/// A dataset that is there already is used as it is.
#[test]
fn a_loaded_dataset_is_used_again() {
    let place = Place::with(TINY);
    let arguments = ONE_TRIAL.replace("--quiet", "");
    place.run(&arguments).expect(0, "the first run");
    let datasets = place.results().join("cache/datasets");
    let before = bytes_below(&datasets);
    assert!(before.keys().any(|path| path.ends_with("complete.json")), "{:?}", before.keys());
    place.run(&arguments).expect(0, "the second run");
    assert!(bytes_below(&datasets) == before, "the template was changed");
    place.run(&arguments.replace("dop=1", "dop=1,rows=300")).expect(0, "another dataset");
    let after = bytes_below(&datasets);
    assert!(after.len() == 2 * before.len(), "{:?}", after.keys());
    assert!(before.iter().all(|(path, bytes)| after[path] == *bytes), "the template was changed");
}

/// With `loading = every-block` nothing is loaded once: each block loads for itself, and what that cost is in its trials.
#[test]
fn loading_is_measured_where_every_block_loads() {
    let place = Place::with(TINY);
    place.run(&ONE_TRIAL.replace("repeat=1", "repeat=3,loading=every-block")).expect(0, "a run");
    assert!(!place.results().join("cache/datasets").exists(), "something was loaded once");
    let run = place.only_run();
    let export = place.run(&format!("export {run} --format csv")).expect(0, "export");
    let rows = rows(&export);
    for metric in ["load_rows_per_s", "load_s", "load_cpu_us_per_row", "loaded_mb"] {
        let values = of_metric(&rows, metric, "value");
        assert_eq!(values.len(), 3, "{metric}: {values:?}");
        assert!(values.values().all(|value| number(value) > 0.0), "{metric}: {values:?}");
    }
    let rates = of_metric(&rows, "load_rows_per_s", "value");
    let different: BTreeSet<&String> = rates.values().collect();
    assert_eq!(different.len(), 3, "each block has a load of its own: {rates:?}");
    let shown = place.run(&format!("show {run} --metric load_rows_per_s")).expect(0, "show");
    assert!(shown.stdout.contains("stands in for MongoDB's mmapv1"), "{shown:?}");
}

/// Changes the last byte of every row of a table in an LMDB file: nodes of leaf pages that hold many of them.
fn spoil_rows(data: &mut [u8]) -> usize {
    const PAGE: usize = 4096;
    const HEADER: usize = 16;
    const LEAF: u16 = 2;
    let mut spoilt = 0;
    for page in data.chunks_exact_mut(PAGE) {
        let word = |page: &[u8], at: usize| u16::from_ne_bytes([page[at], page[at + 1]]);
        let nodes = usize::from(word(page, 12)).saturating_sub(HEADER) / 2;
        if word(page, 10) != LEAF || !(8..=PAGE / 8).contains(&nodes) {
            continue;
        }
        for node in 0..nodes {
            let at = usize::from(word(page, HEADER + 2 * node));
            let size = usize::from(word(page, at)) + usize::from(word(page, at + 6));
            page[at + 8 + size - 1] ^= 1;
            spoilt += 1;
        }
    }
    spoilt
}

/// A trial whose check fails is Invalid: exit code 9, the reason is printed, and its throughput is no result.
#[test]
fn a_failed_check_makes_a_trial_invalid() {
    let place = Place::with(TINY);
    place.run(ONE_TRIAL).expect(0, "a run on a good dataset");
    let datasets = bytes_below(&place.results().join("cache"));
    let (path, mut data) =
        datasets.into_iter().find(|(path, _)| path.ends_with("data.mdb")).expect("LMDB's file");
    assert!(spoil_rows(&mut data) >= 400, "two tables of 200 rows");
    fs::write(path, data).expect("writes");
    let ended = place.run(ONE_TRIAL).expect(9, "a run on a spoilt dataset");
    assert!(ended.stdout.contains("invalid") && ended.stdout.contains("Invalid: "), "{ended:?}");
    let run = place.runs().into_iter().find(|run| ended.stdout.contains(run)).expect("printed");
    let json = place.run(&format!("show {run} --json")).expect(0, "show").json();
    assert_eq!(cells(&json)["lmdb 1 1"], (0, vec!["Invalid".to_owned()]));
    assert_eq!(json["cells"][0]["metrics"]["throughput_per_s"], Value::Null);
    let again = place.run(&format!("run --resume {run}")).expect(0, "resume");
    assert!(again.stderr.contains("finished and sealed"), "{again:?}");
}

/// `engines list` has each built-in engine with what it locks and what each durability means.
#[test]
fn engines_are_listed_with_their_promises() {
    let place = Place::with(TINY);
    let engines = place.run("engines list --json").expect(0, "json").json();
    let text = place.run("engines list").expect(0, "text").stdout;
    let engines = engines.as_array().expect("an array");
    let names: Vec<_> = engines.iter().map(|engine| engine["name"].as_str().expect("")).collect();
    assert_eq!(names[..4], ["sqlite", "lmdb", "null", "memory"]);
    for engine in engines {
        let name = engine["name"].as_str().expect("a name");
        assert!(text.contains(&format!("\n{name}: ")), "{name}: {text}");
        assert!(["row", "table", "database"].contains(&engine["lock_scope"].as_str().expect("")));
        let durability = engine["durability"].as_object().expect("durability");
        let known: Vec<&str> = durability.keys().map(String::as_str).collect();
        assert_eq!(known, ["commit-sync", "commit-written", "delayed", "none"], "{name}");
        for (durability, says) in durability {
            let why = if says["supported"] == true { "about" } else { "reason" };
            assert!(says[why].as_str().is_some_and(|text| text.len() > 10), "{name} {durability}");
        }
    }
}

/// `doctor` says what the host is and what to do about it; its code says whether a run should start.
#[test]
fn the_doctor_reports_facts_and_advice() {
    let place = Place::with(TINY);
    let ended = place.run("doctor --json");
    let report = ended.json();
    let host = report["host"].as_object().expect("host facts");
    for fact in ["cpu_model", "cores_online", "kernel_release", "filesystem", "load_average_1_min"]
    {
        assert!(host.contains_key(fact), "{fact}: {host:?}");
    }
    let checks = report["checks"].as_array().expect("checks");
    assert!(checks.len() > 5, "{checks:?}");
    for check in checks {
        let status = check["status"].as_str().expect("a status");
        assert!(["ok", "advice", "stop"].contains(&status), "{check}");
        assert!(!check["found"].as_str().expect("what was found").is_empty(), "{check}");
        let has_advice = check["advice"].as_str().is_some_and(|advice| !advice.is_empty());
        assert_eq!(has_advice, status != "ok", "{check}");
    }
    let stops = checks.iter().any(|check| check["status"] == "stop");
    assert_eq!(ended.code, Some(if stops { 7 } else { 0 }));
    let instrument = place.run("doctor --instrument --json").json();
    for key in ["clock_read_ns", "null_driver_ns_per_request"] {
        assert!(instrument[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {instrument}");
    }
    assert!(place.run("doctor").stdout.contains(" checks: "));
    assert!(!place.results().exists(), "the doctor makes nothing");
}

/// The help of each command names all its flags, and the exit codes are those of `exit_code.rs`.
#[test]
fn help_texts_name_every_flag_and_every_exit_code() {
    let place = Place::with(TINY);
    let check = |command: &str, flags: &[&str]| {
        let help = place.run(&format!("{command} --help")).expect(0, command).stdout;
        for flag in flags {
            assert!(help.contains(flag), "{command}: {flag}: {help}");
        }
        help
    };
    let question = ["--engine", "--scale", "--quick", "--set", "[EXPERIMENT]"];
    check("plan", &[&question[..], &["--json"]].concat());
    check("run", &[&question[..], &["--results", "--resume", "--quiet"]].concat());
    let of_show = ["--results", "--metric", "--costs", "--relative-to", "--verify", "--json"];
    check("show", &of_show);
    check("export", &["<RUN>", "--results", "--format", "csv", "json"]);
    check("doctor", &["--results", "--instrument", "--json"]);
    check("engines list", &["--json"]);
    let help = check("", &["plan", "run", "show", "export", "doctor", "engines", "Exit codes:"]);
    let (_, listed) = help.split_once("Exit codes:").expect("a list of codes");
    let listed = listed.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let constants = include_str!("../src/exit_code.rs").lines();
    let constants = constants.filter_map(|line| {
        line.strip_prefix("pub const ")?.split_once("= ")?.1.trim_end_matches(';').parse().ok()
    });
    // 2 is clap's own and has no constant.
    let codes: BTreeSet<u8> = constants.chain([2]).collect();
    assert_eq!(listed.collect::<BTreeSet<u8>>(), codes);
}

/// A run can be moved: its directory alone is shown and exported anywhere.
#[test]
fn a_run_directory_stands_on_its_own() {
    let place = Place::with(TINY);
    let ran = place.run(ONE_TRIAL).expect(0, "run");
    let run = place.only_run();
    let elsewhere = Place::with(TINY);
    copy(&place.results().join(&run), &elsewhere.path().join("moved"));
    let shown = elsewhere.run("show ./moved --verify").expect(0, "show").stdout;
    assert!(ran.stdout.starts_with(&shown), "{shown}");
    let exported = elsewhere.run("export moved").expect(0, "export").stdout;
    assert_eq!(exported, place.run(&format!("export {run}")).stdout);
}
