//! Shows that the check of `hot_row` passes honest engines and fails each kind of dishonest one.
//!
//! The engine here is a model with one fault at a time, driven by the real streams and ledgers in a random order of
//! clients. Each message names the seed of its trial.

use dbdyno_workload::hot_row::{
    CheckReport, CounterScope, Evidence, Ledger, SampledRow, TableState,
};
use dbdyno_workload::{
    Action, Dataset, HotRow, Random, Request, RequestStream, RowId, Seed, Setting, Settings,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What the model engine does wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Acknowledges every n-th update without doing it.
    Loses(u64),
    /// Does every n-th update twice.
    AppliesTwice(u64),
    /// Does every n-th update, but the answer is lost.
    LosesAnswer(u64),
    /// Neither does nor answers every n-th update.
    LosesRequest(u64),
    /// Writes every n-th update to the next row.
    WrongRow(u64),
    /// Writes every n-th update to the next table.
    WrongTable(u64),
    /// Forgets the last n acknowledged updates at the end.
    ForgetsLast(usize),
    /// Spoils the filler of every row.
    SpoilsFiller,
}

/// Counters by row, and the order of writes for forgetting.
struct ModelEngine {
    counters: BTreeMap<RowId, u64>,
    undo: Vec<(RowId, u64)>,
    fault: Fault,
    requests: u64,
    tables: u16,
}

impl ModelEngine {
    fn load(dataset: &Dataset, fault: Fault) -> ModelEngine {
        let mut counters = BTreeMap::new();
        for id in dataset.age_updates() {
            *counters.entry(id).or_insert(0) += 1;
        }
        ModelEngine { counters, undo: Vec::new(), fault, requests: 0, tables: dataset.tables }
    }

    fn counter(&self, id: RowId) -> u64 {
        self.counters.get(&id).copied().unwrap_or(0)
    }

    fn apply(&mut self, id: RowId, action: Action) {
        let old = self.counter(id);
        self.undo.push((id, old));
        let new = match action {
            Action::Increment => old + 1,
            Action::Assign(value) => value,
            _ => old,
        };
        self.counters.insert(id, new);
    }

    /// Whether an answer comes.
    fn submit(&mut self, request: &Request) -> bool {
        self.requests += 1;
        let mut id = RowId { table: request.table, row: request.row };
        let due = |every: u64| self.requests.is_multiple_of(every);
        let (mut times, mut answers) = (1, true);
        match self.fault {
            Fault::Loses(every) if due(every) => times = 0,
            Fault::AppliesTwice(every) if due(every) => times = 2,
            Fault::LosesAnswer(every) if due(every) => answers = false,
            Fault::LosesRequest(every) if due(every) => (times, answers) = (0, false),
            Fault::WrongRow(every) if due(every) => id.row += 1,
            Fault::WrongTable(every) if due(every) => id.table = (id.table + 1) % self.tables,
            _ => {}
        }
        for _ in 0..times {
            self.apply(id, request.action);
        }
        answers
    }

    fn states(&self, workload: &HotRow, dataset: &Dataset) -> Vec<TableState> {
        let counter = |table| match workload.counter_scope() {
            CounterScope::Row1 => self.counter(RowId { table, row: 1 }),
            CounterScope::WholeTable => {
                (1..=dataset.rows).map(|row| self.counter(RowId { table, row })).sum()
            }
        };
        (0..dataset.tables).map(|table| TableState { counter: counter(table) }).collect()
    }
}

fn workload(settings: &[(&str, &str)]) -> HotRow {
    let mut all = Settings::new();
    // Four small tables, of which three are updated.
    let small = [("dataset_tables", "4"), ("tables", "3"), ("rows", "50"), ("age", "3")];
    for (name, value) in small.iter().chain(settings) {
        let value = value.parse().map_or(Setting::Text((*value).to_owned()), Setting::Integer);
        all.insert((*name).to_owned(), value);
    }
    HotRow::from_settings(&all).expect("the test's settings are valid")
}

/// Runs a trial of `requests` requests by `dop` clients, after `earlier` (settings of a cell before it in its block).
fn trial(
    workload: &HotRow,
    earlier: Option<&HotRow>,
    fault: Fault,
    requests: u64,
    seed: u64,
) -> CheckReport {
    let dop = 8;
    let dataset = workload.dataset(Seed(seed).derive("dataset", 0));
    let mut engine = ModelEngine::load(&dataset, Fault::None);
    if let Some(earlier) = earlier {
        run(&mut engine, earlier, dop, 500, Seed(seed).derive("earlier", 0));
    }
    engine.fault = fault;
    engine.requests = 0;
    engine.undo.clear();
    // All 196 rows but the four hot ones.
    let ids = dataset.sample_rows(1000);
    let before = engine.states(workload, &dataset);
    let counters_before: Vec<_> = ids.iter().map(|&id| engine.counter(id)).collect();
    let ledgers = run(&mut engine, workload, dop, requests, Seed(seed));
    if let Fault::ForgetsLast(count) = fault {
        for (id, old) in engine.undo.clone().into_iter().rev().take(count) {
            engine.counters.insert(id, old);
        }
    }
    let aged = dataset.age_updates_for(&ids);
    let sampled: Vec<_> = ids
        .into_iter()
        .zip(aged)
        .zip(counters_before)
        .map(|((id, aged), before)| SampledRow {
            id,
            aged,
            before,
            after: engine.counter(id),
            filler_intact: fault != Fault::SpoilsFiller,
        })
        .collect();
    let after = engine.states(workload, &dataset);
    workload.check(&Evidence {
        dop,
        before: &before,
        after: &after,
        ledgers: &ledgers,
        sampled: &sampled,
    })
}

fn run(
    engine: &mut ModelEngine,
    workload: &HotRow,
    dop: u32,
    requests: u64,
    seed: Seed,
) -> Vec<Ledger> {
    let clients = workload.clients(dop);
    let mut streams: Vec<_> = (0..clients).map(|client| workload.stream(seed, client)).collect();
    let mut ledgers: Vec<_> = streams.iter().map(|_| workload.ledger()).collect();
    let mut order = Random::new(seed.derive("order", 0));
    for _ in 0..requests {
        let client = order.below(u64::from(clients)) as usize;
        let request = streams[client].next();
        if engine.submit(&request) {
            ledgers[client].acknowledged(&request);
        } else {
            ledgers[client].unknown(&request);
        }
    }
    ledgers
}

/// Runs 20,000 requests under the fault; `failure` is a piece of the expected sentence, or nothing for a pass.
fn check(settings: &[(&str, &str)], fault: Fault, failure: Option<&str>) {
    for seed in 1..=3 {
        let report = trial(&workload(settings), None, fault, 20_000, seed);
        let context = format!("{settings:?} {fault:?} seed {seed}: {report:#?}");
        match failure {
            None => assert!(report.passed(), "{context}"),
            Some(piece) => {
                assert!(report.failures.iter().any(|failure| failure.contains(piece)), "{context}");
            }
        }
        assert_eq!(report.acknowledged + report.unknown, 20_000, "{context}");
        let unknown = match fault {
            Fault::LosesAnswer(every) | Fault::LosesRequest(every) => 20_000 / every,
            _ => 0,
        };
        assert_eq!(report.unknown, unknown, "{context}");
    }
}

const ZIPFIAN: &[(&str, &str)] = &[("keys", "zipfian(0.99)")];
const ASSIGN: &[(&str, &str)] = &[("update", "assign"), ("assignment", "roaming")];

#[test]
fn increments_are_judged_by_growth() {
    for settings in [&[][..], &[("assignment", "roaming")], &[("assignment", "divided")], ZIPFIAN] {
        check(settings, Fault::None, None);
        check(settings, Fault::Loses(20_000), Some(": 1 acknowledged updates are lost"));
        check(settings, Fault::Loses(10_000), Some("acknowledged updates are lost"));
        check(settings, Fault::Loses(1), Some("acknowledged updates are lost"));
        check(settings, Fault::AppliesTwice(20_000), Some(": 1 updates too many were applied"));
        check(settings, Fault::LosesAnswer(1000), None);
        check(settings, Fault::LosesRequest(1000), None);
        check(settings, Fault::ForgetsLast(1), Some(": 1 acknowledged updates are lost"));
        check(settings, Fault::SpoilsFiller, Some("196 of 196 sampled rows lost their filler"));
    }
}

#[test]
fn a_write_to_the_wrong_place_is_found() {
    check(&[], Fault::WrongRow(20_000), Some("1 acknowledged updates are lost"));
    check(&[], Fault::WrongTable(1000), Some("though nobody updates it"));
    check(&[], Fault::WrongRow(10), Some("sampled rows changed, though nobody updates them"));
}

#[test]
fn assigned_values_are_judged_by_the_last_writer() {
    check(ASSIGN, Fault::None, None);
    check(ASSIGN, Fault::LosesAnswer(1000), None);
    check(ASSIGN, Fault::LosesRequest(1000), None);
    check(ASSIGN, Fault::AppliesTwice(10), None);
    check(ASSIGN, Fault::Loses(1), Some("no client's last acknowledged"));
    // After so many lost writes one of the eight clients has written to the table again.
    check(ASSIGN, Fault::ForgetsLast(200), Some("no client's last acknowledged"));
    check(&[("update", "assign")], Fault::ForgetsLast(200), Some("no client's last acknowledged"));
    let idle = trial(&workload(ASSIGN), None, Fault::None, 0, 1);
    assert!(idle.passed() && idle.active_clients == 0, "{idle:#?}");
}

#[test]
fn cells_of_one_block_do_not_disturb_each_other() {
    let (single, zipfian, assign) = (workload(&[]), workload(ZIPFIAN), workload(ASSIGN));
    for earlier in [&single, &zipfian, &assign] {
        for later in [&single, &zipfian, &assign] {
            let report = trial(later, Some(earlier), Fault::None, 1000, 1);
            assert!(report.passed(), "{earlier:?} then {later:?}: {report:#?}");
            let lossy = trial(later, Some(earlier), Fault::Loses(1), 1000, 1);
            assert!(!lossy.passed(), "{earlier:?} then {later:?}: {lossy:#?}");
        }
    }
}

#[test]
fn lost_ageing_and_a_missing_client_are_found() {
    let workload = workload(&[]);
    let states = [TableState { counter: 5 }; 4];
    let ledgers: Vec<_> = (0..8).map(|_| workload.ledger()).collect();
    let row = |aged, before| SampledRow {
        id: RowId { table: 3, row: 7 },
        aged,
        before,
        after: before,
        filler_intact: true,
    };
    let check = |dop, states: &[TableState], sampled: SampledRow, failures: &[&str]| {
        let sampled = [sampled];
        let evidence =
            Evidence { dop, before: states, after: states, ledgers: &ledgers, sampled: &sampled };
        assert_eq!(workload.check(&evidence).failures, failures);
    };
    check(8, &states, row(2, 2), &[]);
    check(
        8,
        &states,
        row(2, 1),
        &["1 of 1 sampled rows have a counter below their ageing; the first is row 7 of table 3 \
           (aged 2, counter 1 before and 1 after)"],
    );
    check(9, &states, row(2, 2), &["8 clients kept a ledger, but this cell has 9"]);
    check(
        8,
        &states[..3],
        row(2, 2),
        &["3 tables were read before the trial and 3 after it; the dataset has 4"],
    );
}

#[test]
fn the_report_reads_as_sentences() {
    let report =
        trial(&workload(&[("assignment", "divided")]), None, Fault::LosesAnswer(300), 900, 1);
    assert_eq!((report.acknowledged, report.unknown, report.difference), (897, 3, Some(900)));
    assert_eq!((report.dop, report.active_clients), (8, 2));
    let text = report.statements.join("\n");
    assert!(text.contains("active clients: 2 at DOP 8 (assignment divided, tables 3)"), "{text}");
    assert!(
        text.contains("196 other rows were sampled for their filler and an unchanged counter"),
        "{text}"
    );
    assert_eq!(text.matches("updates acknowledged").count(), 3, "{text}");
}

proptest! {
    #[test]
    fn an_honest_engine_always_passes(
        seed in any::<u64>(),
        assignment in prop_oneof![Just("pinned"), Just("roaming"), Just("divided")],
        mode in prop_oneof![
            Just(("increment", "single")), Just(("increment", "uniform")),
            Just(("increment", "latest")), Just(("assign", "single")),
        ],
        every in 1..50u64,
        answers_only in any::<bool>(),
        requests in 0..500u64,
    ) {
        let workload =
            workload(&[("assignment", assignment), ("update", mode.0), ("keys", mode.1)]);
        let fault = if answers_only { Fault::LosesAnswer(every) } else { Fault::LosesRequest(every) };
        let report = trial(&workload, None, fault, requests, seed);
        prop_assert!(report.passed(), "{:#?}", report);
    }
}
