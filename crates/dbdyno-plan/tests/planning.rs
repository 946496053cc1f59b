//! Plans from end to end, with a sample workload: what is run, what is left out, what is refused and how it is said.
//!
//! Messages are compared whole, because file, line, key and advice are the promise. Parts have tests of their own
//! beside them.

use std::collections::BTreeMap;

use dbdyno_plan::*;
use dbdyno_workload::{
    DatasetFacts, Kind, Parameter, Seed, Setting, SettingError, Settings, WorkloadEntry,
};

fn check_keys(text: &str) -> Result<(), String> {
    match text == "single" || text.starts_with("hotspot(") {
        true => Ok(()),
        false => Err("write single or hotspot(fraction, share)".to_string()),
    }
}

fn integer(settings: &Settings, key: &str) -> u64 {
    match settings[key] {
        Setting::Integer(value) => value,
        _ => panic!("{key}"),
    }
}

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    Parameter { name: "tables", kind: Kind::Integer { min: 1, max: 64 }, default: "1", about: "" },
    Parameter { name: "rows", kind: Kind::Integer { min: 1, max: 1_000_000_000_000 }, default: "100000", about: "" },
    Parameter { name: "age", kind: Kind::Number { min: 0.0, max: 1000.0 }, default: "0.2", about: "" },
    Parameter { name: "assignment", kind: Kind::Choice(&["pinned", "roaming", "divided"]), default: "pinned", about: "" },
    Parameter { name: "update", kind: Kind::Choice(&["increment", "assign"]), default: "increment", about: "" },
    Parameter { name: "keys", kind: Kind::Syntax(check_keys), default: "single", about: "" },
];

const WORKLOADS: &[WorkloadEntry] = &[WorkloadEntry {
    name: "hot_row",
    version: 1,
    about: "",
    parameters: PARAMETERS,
    roles: &[],
    tasks: &[],
    needs: &["update-by-key"],
    check_needs: &["read-by-key", "counter-check"],
    validate: |settings| match integer(settings, "rows") < 10 {
        true => Err(SettingError {
            key: "rows".to_string(),
            message: "at least 10 are needed here".to_string(),
        }),
        false => Ok(()),
    },
    not_run: |settings, dop| {
        (u64::from(dop) < integer(settings, "tables"))
            .then(|| "fewer clients than tables".to_string())
    },
    dataset: |settings, Seed(seed), _| {
        let rows = 8 * integer(settings, "rows");
        let age = match settings["age"] {
            Setting::Number(age) => age,
            _ => panic!("age"),
        };
        DatasetFacts {
            fingerprint: format!("rows={rows} age={age} seed={seed}"),
            rows,
            bytes: rows * 120,
            aging_updates: (rows as f64 * age) as u64,
        }
    },
}];

fn catalogue() -> Catalogue<'static> {
    Catalogue { workloads: WORKLOADS, experiments: EXPERIMENTS, engines: ENGINES }
}

/// A request for the shipped experiment with arguments as the command has them.
fn biebermarks(arguments: &[&str]) -> PlanRequest {
    let mut request = PlanRequest::shipped("biebermarks");
    for argument in arguments {
        match argument.split_once(' ') {
            Some(("--set", pairs)) => request.set.push(pairs.to_string()),
            Some(("--engine", name)) => request.engines.push(name.to_string()),
            Some(("--scale", name)) => request.scale = Some(name.to_string()),
            None if *argument == "--quick" => request.quick = true,
            _ => panic!("{argument}"),
        }
    }
    request
}

fn planned(arguments: &[&str]) -> Plan {
    plan(&catalogue(), &biebermarks(arguments)).unwrap_or_else(|error| panic!("{error}"))
}

/// An experiment of the user's own.
fn own(text: &str) -> Result<Plan, InputError> {
    let source = ExperimentSource::File { file: "x.toml".to_string(), text: text.to_string() };
    plan(&catalogue(), &PlanRequest { experiment: source, ..PlanRequest::shipped("") })
}

#[test]
fn the_shipped_experiment_plans_at_every_scale() {
    let check = |arguments: &[&str],
                 scale: &str,
                 run,
                 not_run,
                 unsupported,
                 blocks,
                 seconds: std::ops::Range<f64>| {
        let plan = planned(arguments);
        let count = |wanted: fn(&Fate) -> bool| {
            plan.trials.iter().filter(|trial| wanted(&trial.fate)).count()
        };
        let fates = (
            count(|fate| matches!(fate, Fate::Run)),
            count(|fate| matches!(fate, Fate::NotRun(_))),
            count(|fate| matches!(fate, Fate::Unsupported(_))),
        );
        assert_eq!(fates, (run, not_run, unsupported), "{arguments:?}");
        assert_eq!((plan.scale.as_str(), plan.blocks.len()), (scale, blocks), "{arguments:?}");
        assert!(seconds.contains(&plan.expected.seconds), "{arguments:?}: {:?}", plan.expected);
        for (index, trial) in plan.trials.iter().enumerate() {
            assert_eq!(trial.trial as usize, index + 1, "{arguments:?}");
            assert_eq!(trial.block == 0, trial.fate != Fate::Run, "{arguments:?}");
        }
        for block in &plan.blocks {
            let first = block.first_trial as usize - 1;
            for trial in &plan.trials[first..first + block.trials as usize] {
                assert_eq!(
                    (trial.block, trial.repeat, &trial.engine, &trial.dataset),
                    (block.block, block.repeat, &block.engine, &block.dataset)
                );
            }
        }
    };
    // 28 combinations, of which 6 have fewer clients than tables: the document's 22 cells.
    check(&[], "laptop", 132, 12, 0, 6, 300.0..600.0);
    check(&["--scale smoke"], "smoke", 44, 12, 0, 2, 20.0..40.0);
    check(&["--scale smoke", "--engine sq"], "smoke", 22, 6, 0, 1, 10.0..20.0);
    check(&["--scale paper"], "paper", 220, 12, 0, 10, 30_000.0..1e6);
    check(&["--quick", "--set tables=1,dop=64"], "quick", 2, 0, 0, 2, 1.0..10.0);
    check(&["--engine null"], "laptop", 0, 6, 22, 0, 1.0..2.0);
    check(&["--engine null", "--set durability=none"], "laptop", 66, 6, 0, 3, 1.0..300.0);
    check(&["--set durability=delayed"], "laptop", 0, 12, 44, 0, 1.0..2.0);
    check(&["--set engine_setting.cache_mb=8,repeat=1"], "laptop", 22, 12, 22, 1, 60.0..100.0);
    // Two durabilities need two starts of each engine in each repeat.
    check(&["--set durability=none,commit-sync"], "laptop", 264, 24, 0, 12, 600.0..900.0);
}

#[test]
fn a_trial_has_every_value_resolved() {
    let plan = planned(&["--scale paper", "--set tables=1,dop=64"]);
    let [sqlite, lmdb] = ["sqlite", "lmdb"]
        .map(|engine| plan.trials_to_run().find(|trial| trial.engine == engine).unwrap().clone());
    assert_eq!(sqlite.cell, "engine=sqlite dop=64 tables=1");
    let shown = |values: &BTreeMap<String, Value>| {
        values.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown(&sqlite.factors), "dop=64 tables=1");
    assert_eq!(
        shown(&sqlite.settings),
        "age=8 assignment=pinned keys=single rows=400000000 tables=1 update=increment"
    );
    assert_eq!(
        shown(&sqlite.engine_settings),
        "busy_handler=backoff busy_timeout_ms=10000 cache_mb=16 page_size=4096 synchronous=normal \
         wal_autocheckpoint_pages=1000"
    );
    assert_eq!(shown(&lmdb.engine_settings), "map_size_mb=4194304 no_sync=true write_map=false");
    assert_eq!(
        sqlite.load,
        Load {
            dop: 64,
            arrival: Arrival::Closed,
            rate_steps_per_s: vec![],
            durability: Durability::CommitWritten,
            warmup_s: 20.0,
            measured_s: 120.0,
            client: Default::default(),
        }
    );
    assert_eq!(sqlite.dataset, "sqlite-rows=3200000000 age=8 seed=1-page_size=4096");
    assert_eq!(plan.promise(&sqlite).unwrap().log_syncs, LogSyncs::CheckpointsOnly);
    assert_eq!(plan.engine("lmdb").unwrap().lock_scope, "database");
}

#[test]
fn cells_are_complete_and_repeats_share_streams() {
    let plan = planned(&[]);
    let mut seen: BTreeMap<(String, u32), u32> = BTreeMap::new();
    let mut seeds: BTreeMap<u32, u64> = BTreeMap::new();
    for trial in plan.trials_to_run() {
        *seen.entry((trial.cell.clone(), trial.repeat)).or_default() += 1;
        assert_eq!(*seeds.entry(trial.repeat).or_insert(trial.seed), trial.seed);
        assert!(trial.seed <= SEED_MAX);
    }
    assert_eq!(seen.len(), 132);
    assert!(seen.values().all(|count| *count == 1));
    assert_eq!(seeds.values().collect::<std::collections::BTreeSet<_>>().len(), 3);
}

#[test]
fn a_plan_is_a_function_of_its_inputs_and_survives_storage() {
    let text = planned(&[]).to_json();
    assert_eq!(text, planned(&[]).to_json());
    assert_ne!(text, planned(&["--set seed=2"]).to_json());
    assert!(text.starts_with("{\n  \"format\": 1,"), "{}", &text[..40]);
    let read = Plan::from_json(&text).unwrap();
    assert_eq!(read, planned(&[]));
    assert_eq!(read.to_json(), text);
    let newer =
        text.replacen("\"format\": 1", "\"format\": 2", 1).replace("\"trials\"", "\"trys\"");
    let check = |text: &str, expected: &str| {
        let error = Plan::from_json(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check(&newer, "the plan has format 2; this program reads up to format 1. Use the dbdyno that");
    check(&text[..text.len() / 2], "the plan is damaged: EOF");
    check("{}", "the plan is damaged: missing field `format`");
    check("", "the plan is damaged: EOF");
}

fn check_refused(arguments: &[&str], expected: &str) {
    let error = plan(&catalogue(), &biebermarks(arguments)).unwrap_err().to_string();
    assert_eq!(error, expected, "{arguments:?}");
}

#[test]
fn bad_settings_in_arguments_are_refused_by_name() {
    let check = check_refused;
    check(&["--set dopp=1"], r#"--set dopp=1: unknown key "dopp"; did you mean "dop"?"#);
    check(
        &["--set tables=1,dop=0"],
        r#"--set dop=0: "dop" wants a whole number from 1 to 65536; found "0""#,
    );
    check(
        &["--set dop=many"],
        r#"--set dop=many: "dop" wants a whole number from 1 to 65536; found "many""#,
    );
    check(&["--set dop=1,2,1"], r#"--set dop=1,2,1: "dop" lists 1 twice; keep one"#);
    check(
        &["--set dop="],
        r#"--set dop=: "dop" has an empty value; write a value after each = and comma"#,
    );
    check(
        &["--set arrival=uniform,rate=-5"],
        r#"--set rate=-5: "rate" wants requests per second above 0, at most 1000000000, or several as steps; found "-5""#,
    );
    check(
        &["--set rate=5"],
        r#"--set rate=5: "rate" means nothing when arrival is closed; leave it out or set arrival to uniform, poisson or burst-1s"#,
    );
    check(
        &["--set transaction=begin-commit,pipeline=4"],
        r#"--set pipeline=4: "pipeline" means nothing when transaction is begin-commit: a connection has one transaction at a time; leave it out or set transaction to autocommit"#,
    );
    check(
        &["--set arrival=poisson"],
        r#"--set arrival=poisson: "arrival" needs a rate above 0 unless it is closed; set rate"#,
    );
    check(
        &["--set durability=commit-synced"],
        r#"--set durability=commit-synced: "durability" wants one of none, delayed, commit-written, commit-sync; found "commit-synced"; did you mean "commit-sync"?"#,
    );
    check(
        &["--set keys=zipf"],
        r#"--set keys=zipf: "keys" does not take "zipf": write single or hotspot(fraction, share)"#,
    );
    check(&["--set rows=3"], r#"--set rows=3: "rows" does not fit: at least 10 are needed here"#);
    check(
        &["--set seed=1,2"],
        r#"--set seed=1,2: "seed" belongs to the whole plan and has one value; hold it"#,
    );
    check(
        &["--set repeat=0"],
        r#"--set repeat=0: "repeat" wants a whole number from 1 to 10000; found "0""#,
    );
    check(
        &["--set measured_s=nan"],
        r#"--set measured_s=nan: "measured_s" wants a number from 0.01 to 1000000; found "nan""#,
    );
}

#[test]
fn bad_engines_scales_and_sizes_in_arguments_are_refused_by_name() {
    let check = check_refused;
    check(
        &["--set engine_setting.cache=1"],
        r#"--set engine_setting.cache=1: unknown key "engine_setting.cache"; did you mean "engine_setting.cache_mb"?"#,
    );
    check(
        &["--set engine_setting.synchronous=off"],
        r#"--set engine_setting.synchronous=off: "engine_setting.synchronous" is set by durability on sqlite; set durability instead"#,
    );
    check(
        &["--set engine_setting.cache_mb=0"],
        r#"--set engine_setting.cache_mb=0: "engine_setting.cache_mb" wants a whole number from 1 to 1048576; found "0""#,
    );
    check(
        &["--set engine_setting.sqlite.cache_mb=1,2"],
        r#"--set engine_setting.sqlite.cache_mb=1,2: "engine_setting.sqlite.cache_mb" is for one engine and cannot be varied; hold it"#,
    );
    check(
        &["--engine sqlit3"],
        r#"--engine sqlit3: unknown engine "sqlit3"; did you mean "sqlite"?"#,
    );
    check(
        &["--engine lmdb", "--engine lm"],
        "--engine lm: engine lmdb is asked for twice; keep one",
    );
    check(
        &["--scale smok"],
        r#"--scale smok: experiments/biebermarks.toml has no scale "smok"; did you mean "smoke"?"#,
    );
    check(
        &["--scale smoke", "--quick"],
        "--quick: --quick and --scale smoke exclude each other; drop one",
    );
    check(
        &["--set repeat=10000"],
        "experiments/biebermarks.toml:1: the plan would have 560000 trials, more than 100000; vary fewer values or repeat less",
    );
    let unknown = plan(&catalogue(), &PlanRequest::shipped("biebermark")).unwrap_err().to_string();
    assert_eq!(
        unknown,
        r#"experiment biebermark: unknown experiment "biebermark"; did you mean "biebermarks"?"#
    );
}

fn check_own(rest: &str, expected: &str) {
    let text = format!("name = 'x'\nquestion = 'q?'\nworkload = 'hot_row'\n{rest}");
    let shown = match own(&text) {
        Ok(plan) => {
            let steps =
                plan.trials.iter().map(|trial| format!("{:?}", trial.load.rate_steps_per_s));
            let mut steps: Vec<String> = steps.collect();
            steps.sort();
            steps.dedup();
            format!("{} {} trials, rates {}", plan.scale, plan.trials.len(), steps.join(" "))
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(shown, expected, "{rest}");
}

#[test]
fn own_experiments_plan_with_every_form_of_value() {
    let check = check_own;
    check("", "as-written 2 trials, rates []");
    check(
        "engines = ['lmdb']\n[hold]\narrival = 'uniform'\nrate = 500",
        "as-written 1 trials, rates [500.0]",
    );
    check(
        "engines = ['lmdb']\n[hold]\narrival = 'uniform'\nrate = [500, 1000.5]",
        "as-written 1 trials, rates [500.0, 1000.5]",
    );
    check(
        "engines = ['lmdb']\n[vary]\nrate = [500, [1, 2]]\n[hold]\narrival = 'poisson'",
        "as-written 2 trials, rates [1.0, 2.0] [500.0]",
    );
    check(
        "engines = ['sqlite']\n[vary.engine_setting]\nbusy_handler = ['backoff', 'yield']",
        "as-written 2 trials, rates []",
    );
    check("engines = ['sqlit']", "as-written 1 trials, rates []");
}

#[test]
fn bad_experiments_are_refused_with_their_line() {
    let check = check_own;
    check(
        "engines = ['lmdb',\n'mysql']",
        r#"x.toml:5: engine "mysql" could be mysql-5.5 or mysql-5.6 or mysql-8.0 or mysql-9.7; write more of it"#,
    );
    check("[vary]\ndopp = [1]", r#"x.toml:5: unknown key "dopp" in [vary]; did you mean "dop"?"#);
    check(
        "[vary]\ndop = [1,\n0]",
        r#"x.toml:6: "dop" in [vary] wants a whole number from 1 to 65536; found 0"#,
    );
    check(
        "[vary]\ndop = ['1']",
        r#"x.toml:5: "dop" in [vary] wants a whole number from 1 to 65536; found the text "1""#,
    );
    check(
        "[vary]\ndop = []",
        r#"x.toml:5: "dop" in [vary] is an empty list; give at least one value"#,
    );
    check("[vary]\nage = [1, 1.0]", r#"x.toml:5: "age" in [vary] lists 1 twice; keep one"#);
    check(
        "[vary]\nseed = [1, 2]",
        r#"x.toml:5: "seed" in [vary] belongs to the whole plan and has one value; hold it"#,
    );
    check(
        "[hold]\ndop = [1, 2]",
        r#"x.toml:5: "dop" in [hold] wants a whole number from 1 to 65536; found a list"#,
    );
    check(
        "[hold]\nrate = -1",
        r#"x.toml:5: "rate" in [hold] wants requests per second above 0, at most 1000000000, or several as steps; found -1"#,
    );
    check(
        "[hold]\nrate = 5",
        r#"x.toml:5: "rate" in [hold] means nothing when arrival is closed; leave it out or set arrival to uniform, poisson or burst-1s"#,
    );
    check(
        "[vary]\narrival = ['closed', 'uniform']",
        r#"x.toml:5: "arrival" in [vary] needs a rate above 0 unless it is closed; set rate"#,
    );
    check(
        "[scale.paper]\nrow = 5",
        r#"x.toml:5: unknown key "row" in [scale.paper]; did you mean "rows"?"#,
    );
    check(
        "[hold]\nassignment = 'pined'",
        r#"x.toml:5: "assignment" in [hold] wants one of pinned, roaming, divided; found the text "pined"; did you mean "pinned"?"#,
    );
    check(
        "[vary]\nrows = [100, 3]",
        r#"x.toml:5: "rows" in [vary] does not fit: at least 10 are needed here"#,
    );
    check(
        "[hold.engine_setting]\ncache_md = 5",
        r#"x.toml:5: unknown key "engine_setting.cache_md" in [hold]; did you mean "engine_setting.cache_mb"?"#,
    );
    let workload = own("name = 'x'\nquestion = 'q?'\nworkload = 'hotrow'").unwrap_err().to_string();
    assert_eq!(workload, r#"x.toml:3: unknown workload "hotrow"; did you mean "hot_row"?"#);
}

#[test]
fn what_an_engine_lacks_is_listed() {
    let check = |arguments: &[&str], cell: &str, expected: &str| {
        let plan = planned(arguments);
        let trial = plan.trials.iter().find(|trial| trial.cell == cell).unwrap();
        let Fate::Unsupported(reason) = &trial.fate else { panic!("{:?}", trial.fate) };
        assert_eq!(reason, expected, "{arguments:?}");
    };
    let cell = "engine=lmdb dop=8 tables=1";
    check(
        &["--set durability=delayed,engine_setting.cache_mb=8"],
        cell,
        "lmdb has no durability \"delayed\" (LMDB hands its pages to the operating system before \
         commit returns; nothing is held back); no setting \"cache_mb\"",
    );
    check(
        &["--engine null"],
        "engine=null dop=8 tables=1",
        "null has no durability \"commit-written\" (the null engine keeps nothing; use --set durability=none)",
    );
}
