//! Shows that the checks of `insert_benchmark` pass honest engines and fail each kind of dishonest one.
//!
//! The engine here is a model with one fault at a time, driven by the real streams in a random order of clients. Each
//! message names the seed of its trial. Verdicts on single numbers are in `insert_benchmark_verdicts.rs`.

use dbdyno_workload::insert_benchmark::{
    CheckReport, KeySpan, Role, SampledPurchase, StepClient, StepEvidence, TableAccount,
    TableReading, TableSpan, WholeEvidence, check_step, check_whole, sample_keys,
};
use dbdyno_workload::{
    Action, InsertBenchmark, Random, Request, RequestStream, Seed, Setting, Settings,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the model engine does wrong, every n-th time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Acknowledges an insert without doing it, and gives no keys for it.
    LosesInsert(u64),
    /// Does an insert twice.
    InsertsTwice(u64),
    /// Inserts other rows than those that were asked for.
    InsertsOther(u64),
    /// Acknowledges a delete without doing it.
    LosesDelete(u64),
    /// Deletes one row more than it should.
    DeletesMore(u64),
    /// Deletes the newest rows.
    DeletesNewest(u64),
    /// Does a request, but the answer is lost.
    LosesAnswer(u64),
    /// Neither does nor answers a request.
    LosesRequest(u64),
    /// Refuses an insert for good, which costs its keys.
    Refuses(u64),
    /// Refuses an insert at first, which costs its keys.
    RefusesOnce(u64),
    /// Forgets the newest rows of the first table at the end.
    ForgetsLast(u64),
    /// Loses an entry of the second index of the last table.
    LosesEntry,
    /// Begins with a key far from the last one, as a sequence with a cache does.
    SkipsKeys(u64),
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Acknowledged,
    Unknown,
    Refused,
}

/// One table: the number of the row behind each key, and the next key.
#[derive(Clone)]
struct ModelTable {
    rows: BTreeMap<u64, u64>,
    next_key: u64,
}

impl ModelTable {
    fn insert(&mut self, row: u64, rows: u16) {
        for row in row..row + u64::from(rows) {
            self.rows.insert(self.next_key, row);
            self.next_key += 1;
        }
    }

    fn delete(&mut self, keys: Vec<u64>) {
        for key in keys {
            self.rows.remove(&key);
        }
    }

    fn keys(&self) -> Option<KeySpan> {
        let first = *self.rows.first_key_value()?.0;
        Some(KeySpan { first, last: *self.rows.last_key_value()?.0 })
    }
}

struct Trial {
    workload: InsertBenchmark,
    tables: Vec<ModelTable>,
    accounts: Vec<TableAccount>,
    fault: Fault,
    requests: u64,
    /// Keys that retried inserts cost.
    gaps: u64,
}

impl Trial {
    fn new(tables: usize, loaded: u64, fault: Fault) -> Trial {
        let settings = [("dialect".to_owned(), Setting::Text("2024".to_owned()))];
        let workload = InsertBenchmark::from_settings(&Settings::from(settings)).expect("valid");
        let mut table = ModelTable { rows: BTreeMap::new(), next_key: 1 };
        table.insert(1, loaded as u16);
        Trial {
            workload,
            tables: vec![table; tables],
            accounts: vec![TableAccount::of_loaded(loaded); tables],
            fault,
            requests: 0,
            gaps: 0,
        }
    }

    fn keys(&self) -> Vec<Option<KeySpan>> {
        self.tables.iter().map(ModelTable::keys).collect()
    }

    fn insert(&mut self, table: usize, row: u64, rows: u16) -> End {
        self.requests += 1;
        let due = |every: u64| self.requests.is_multiple_of(every);
        let table = &mut self.tables[table];
        match self.fault {
            Fault::LosesInsert(every) if due(every) => return End::Acknowledged,
            Fault::LosesRequest(every) if due(every) => return End::Unknown,
            Fault::LosesAnswer(every) if due(every) => {
                table.insert(row, rows);
                return End::Unknown;
            }
            Fault::Refuses(every) if due(every) => {
                table.next_key += u64::from(rows);
                return End::Refused;
            }
            Fault::RefusesOnce(every) if due(every) => {
                table.next_key += u64::from(rows);
                self.gaps += u64::from(rows);
            }
            Fault::InsertsTwice(every) if due(every) => table.insert(row, rows),
            Fault::InsertsOther(every) if due(every) => {
                table.insert(row + 1, rows);
                return End::Acknowledged;
            }
            _ => {}
        }
        table.insert(row, rows);
        End::Acknowledged
    }

    fn delete(&mut self, table: usize, row: u64, rows: u16) -> End {
        self.requests += 1;
        let due = |every: u64| self.requests.is_multiple_of(every);
        let table = &mut self.tables[table];
        let mut count = usize::from(rows);
        let mut end = End::Acknowledged;
        match self.fault {
            Fault::LosesDelete(every) if due(every) => return end,
            Fault::LosesRequest(every) if due(every) => return End::Unknown,
            Fault::LosesAnswer(every) if due(every) => end = End::Unknown,
            Fault::DeletesMore(every) if due(every) => count += 1,
            Fault::DeletesNewest(every) if due(every) => {
                let keys = table.rows.keys().rev().take(count).copied().collect();
                table.delete(keys);
                return end;
            }
            _ => {}
        }
        let keys: Vec<_> = table.rows.range(row..).take(count).map(|(&key, _)| key).collect();
        assert!(keys.len() >= usize::from(rows), "nobody deletes more than there is");
        table.delete(keys);
        end
    }

    fn submit(&mut self, request: &Request) -> End {
        let table = usize::from(request.table);
        match request.action {
            Action::Insert(rows) => self.insert(table, request.row, rows),
            Action::Delete(rows) => self.delete(table, request.row, rows),
            _ => End::Acknowledged,
        }
    }

    /// Runs a step until everybody is over or waits, or so many requests were made, and checks it.
    fn step(&mut self, clients: &[StepClient], requests_max: u64, seed: u64) -> CheckReport {
        let before = self.keys();
        if let Fault::SkipsKeys(keys) = self.fault {
            self.tables.iter_mut().for_each(|table| table.next_key += keys);
        }
        let span = |(keys, account): (&Option<KeySpan>, &TableAccount)| {
            Arc::new(TableSpan::new(*keys, account.next_row))
        };
        let spans: Vec<_> = before.iter().zip(&self.accounts).map(span).collect();
        let stream = |client| self.workload.stream(Seed(seed), client, &spans);
        let mut streams: Vec<_> = clients.iter().map(stream).collect();
        let mut order = Random::new(Seed(seed).derive("order", 0));
        for _ in 0..requests_max {
            let can: Vec<_> = (0..streams.len())
                .filter(|&client| !streams[client].is_over() && !streams[client].is_waiting())
                .collect();
            if can.is_empty() {
                break;
            }
            let stream = &mut streams[can[order.below(can.len() as u64) as usize]];
            let request = stream.next();
            match self.submit(&request) {
                End::Acknowledged => stream.acknowledged(&request),
                End::Unknown => stream.unknown(&request),
                End::Refused => {}
            }
        }
        if let Fault::ForgetsLast(rows) = self.fault {
            let keys = self.tables[0].rows.keys().rev().take(rows as usize).copied().collect();
            self.tables[0].delete(keys);
        }
        let ledgers: Vec<_> = streams.into_iter().map(|stream| stream.into_ledger()).collect();
        let report = check_step(&StepEvidence {
            accounts: &self.accounts,
            before: &before,
            after: &self.keys(),
            gaps_max: self.gaps,
            clients: clients.len() as u32,
            ledgers: &ledgers,
            wrong_answers: 0,
        });
        for (table, account) in (0u16..).zip(&mut self.accounts) {
            *account = account.after(table, &ledgers);
        }
        report
    }

    fn whole(&self, seed: u64) -> CheckReport {
        let ids = sample_keys(Seed(seed), &self.keys(), 60);
        let sampled: Vec<_> = ids
            .into_iter()
            .map(|id| SampledPurchase {
                id,
                is_as_inserted: self.tables[usize::from(id.table)].rows.get(&id.row)
                    == Some(&id.row),
            })
            .collect();
        let mut entries: Vec<_> =
            self.tables.iter().map(|table| [table.rows.len() as u64; 3]).collect();
        if self.fault == Fault::LosesEntry {
            entries.last_mut().expect("there are tables")[1] -= 1;
        }
        let reading = |(table, entries): (&ModelTable, _)| TableReading {
            keys: table.keys(),
            rows: table.rows.len() as u64,
            index_entries: entries,
        };
        let tables: Vec<_> = self
            .tables
            .iter()
            .zip(entries.iter().map(|entries| &entries[..]))
            .map(reading)
            .collect();
        let evidence = WholeEvidence {
            accounts: &self.accounts,
            tables: &tables,
            sampled: &sampled,
            wrong_answers: 0,
        };
        check_whole(&self.workload.schema(), &evidence)
    }
}

/// So many clients of a role.
fn clients(role: Role, clients: u32, rows_max: u64, keeps_size: bool) -> Vec<StepClient> {
    let client = |number| StepClient {
        role,
        number,
        clients,
        rows_per_commit: 20,
        rows_max: Some(rows_max),
        keeps_size,
    };
    (0..clients).map(client).collect()
}

/// Loads and then keeps the size: the reports of both steps, and of the whole trial.
fn trial(tables: usize, inserters: u32, fault: Fault, seed: u64) -> [CheckReport; 3] {
    let mut trial = Trial::new(tables, 100, fault);
    let load = trial.step(&clients(Role::Insert, inserters, 1030, false), u64::MAX, seed);
    let mut all = clients(Role::Insert, inserters, 1000, true);
    all.extend(clients(Role::Delete, inserters, 0, true));
    all.extend(clients(Role::Query, inserters, 0, true));
    all.extend(clients(Role::Points, inserters, 0, true));
    let mixed = trial.step(&all, 2000, seed + 1);
    [load, mixed, trial.whole(seed)]
}

/// `failures` has a piece of the expected sentence for each of the three reports, or nothing for a pass.
fn check(fault: Fault, failures: [Option<&str>; 3]) {
    for (seed, inserters) in [(1, 3), (2, 3), (3, 5)] {
        let reports = trial(3, inserters, fault, seed);
        for (report, failure) in reports.iter().zip(failures) {
            let context = format!("{fault:?} {inserters} inserters, seed {seed}: {report:#?}");
            match failure {
                None => assert!(report.passed(), "{context}"),
                Some(piece) => {
                    let found = report.failures.iter().any(|failure| failure.contains(piece));
                    assert!(found, "{piece}: {context}");
                }
            }
        }
    }
}

#[test]
fn honest_engines_pass_whatever_becomes_of_answers() {
    for fault in [
        Fault::None,
        Fault::LosesAnswer(7),
        Fault::LosesRequest(7),
        Fault::Refuses(7),
        Fault::RefusesOnce(7),
    ] {
        check(fault, [None, None, None]);
    }
}

#[test]
fn lost_and_doubled_inserts_are_found_from_keys_alone() {
    let lost = Some("the largest key grew by");
    check(Fault::LosesInsert(7), [lost, lost, Some("rows are lost")]);
    let doubled = Some("keys too many were given");
    check(Fault::InsertsTwice(7), [doubled, doubled, Some("rows are too many")]);
    let forgotten = Some("rows that must be there are lost");
    check(Fault::ForgetsLast(1), [forgotten, forgotten, Some("rows are lost")]);
    check(Fault::SkipsKeys(1000), [doubled, doubled, None]);
}

#[test]
fn wrong_deletes_are_found_from_keys_alone() {
    let still = Some("deleted rows are still there");
    check(Fault::LosesDelete(7), [None, still, Some("rows are too many")]);
    check(
        Fault::DeletesMore(7),
        [None, Some("rows that must be there are lost"), Some("rows are lost")],
    );
    check(Fault::DeletesNewest(7), [None, still, None]);
}

#[test]
fn lost_index_entries_and_other_rows_are_found_at_the_end() {
    check(Fault::LosesEntry, [None, None, Some("entries in index registersegment for")]);
    let [load, mixed, whole] = trial(3, 3, Fault::InsertsOther(2), 1);
    assert!(load.passed() && mixed.passed(), "{load:#?} {mixed:#?}");
    let text = whole.failures.join("\n");
    assert!(
        text.contains("sampled rows are not as they were inserted; the first is row"),
        "{text}"
    );
}

#[test]
fn rows_are_compared_only_where_keys_are_their_numbers() {
    let statements = |inserters, fault| trial(3, inserters, fault, 1)[2].statements.join("\n");
    let compared = "sampled rows are as they were inserted";
    let left_out = "its keys are not the numbers of its rows";
    let honest = statements(3, Fault::None);
    assert_eq!(
        (honest.matches(compared).count(), honest.matches(left_out).count()),
        (3, 0),
        "{honest}"
    );
    // Clients 3 and 4 share the first two tables with others.
    let shared = statements(5, Fault::None);
    assert_eq!(
        (shared.matches(compared).count(), shared.matches(left_out).count()),
        (1, 2),
        "{shared}"
    );
    let gaps = statements(3, Fault::RefusesOnce(2));
    assert_eq!((gaps.matches(compared).count(), gaps.matches(left_out).count()), (0, 3), "{gaps}");
}

#[test]
fn the_reports_read_as_sentences() {
    let mut trial = Trial::new(1, 100, Fault::None);
    let load = trial.step(&clients(Role::Insert, 1, 1030, false), u64::MAX, 1);
    assert_eq!(
        load.statements,
        [
            "table 0: 1030 rows inserted and 0 deleted, 0 refused or unknown; keys 1 to 100 before and \
          keys 1 to 1130 after"
        ]
    );
    assert_eq!((load.acknowledged, load.unknown, load.dop, load.active_clients), (1030, 0, 1, 1));
    let mut all = clients(Role::Insert, 1, 100, true);
    all.extend(clients(Role::Delete, 1, 0, true));
    let kept = trial.step(&all, u64::MAX, 2);
    assert_eq!(
        kept.statements,
        [
            "table 0: 100 rows inserted and 100 deleted, 0 refused or unknown; keys 1 to 1130 before and \
          keys 101 to 1230 after"
        ]
    );
    let whole = trial.whole(1);
    assert_eq!(
        whole.statements[..2],
        [
            "table 0: 100 rows loaded, 1130 inserted and 100 deleted, 0 unknown; it has 1130",
            "table 0: 1130 entries in index marketsegment for 1130 rows",
        ]
    );
    assert_eq!((whole.acknowledged, whole.unknown, whole.difference), (1230, 0, Some(1030)));
}

proptest! {
    #[test]
    fn an_honest_engine_always_passes(
        seed in any::<u32>(),
        tables in 1..4usize,
        inserters in 1..6u32,
        every in 1..40u64,
        kind in 0..4u8,
    ) {
        let fault = match kind {
            0 => Fault::LosesAnswer(every),
            1 => Fault::LosesRequest(every),
            2 => Fault::Refuses(every),
            _ => Fault::RefusesOnce(every),
        };
        for report in trial(tables, inserters, fault, seed.into()) {
            prop_assert!(report.passed(), "{:#?}", report);
        }
    }
}
