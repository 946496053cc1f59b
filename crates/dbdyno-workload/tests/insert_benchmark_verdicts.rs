//! Shows that the checks of `insert_benchmark` judge to the row, and say what they could not judge.
//!
//! Each test makes its evidence by hand; `insert_benchmark_check.rs` drives a model engine instead.

use dbdyno_workload::insert_benchmark::{
    KeySpan, Ledger, Role, SampledPurchase, StepClient, StepEvidence, TableAccount, TableReading,
    TableSpan, WholeEvidence, check_step, check_whole,
};
use dbdyno_workload::{InsertBenchmark, RequestStream, RowId, Seed, Settings};
use std::sync::Arc;

fn workload() -> InsertBenchmark {
    InsertBenchmark::from_settings(&Settings::new()).expect("defaults fit together")
}

#[test]
fn what_was_not_read_or_answered_wrongly_is_found() {
    let keys = Some(KeySpan { first: 1, last: 10 });
    let accounts = [TableAccount::of_loaded(10)];
    let evidence = StepEvidence {
        accounts: &accounts,
        before: &[keys],
        after: &[keys],
        gaps_max: 0,
        clients: 0,
        ledgers: &[],
        wrong_answers: 0,
    };
    let check = |evidence: StepEvidence, failures: &[&str]| {
        assert_eq!(check_step(&evidence).failures, failures)
    };
    check(evidence, &[]);
    check(
        StepEvidence { clients: 2, ..evidence },
        &["0 clients kept a ledger, but this step has 2"],
    );
    check(
        StepEvidence { after: &[], ..evidence },
        &["1 tables were read before the step and 0 after it; the dataset has 1"],
    );
    let answers = "3 answers to queries were wrong in order, bounds or number of entries";
    check(StepEvidence { wrong_answers: 3, ..evidence }, &[answers]);
    check(
        StepEvidence { after: &[None], ..evidence },
        &[
            "table 0: 10 of 10 rows that must be there are lost (0 rows inserted and 0 deleted, 0 refused or \
           unknown; keys 1 to 10 before and no keys after)",
        ],
    );
    check(
        StepEvidence { before: &[Some(KeySpan { first: 2, last: 10 })], ..evidence },
        &[
            "table 0: rows came in before the first (0 rows inserted and 0 deleted, 0 refused or unknown; \
           keys 2 to 10 before and keys 1 to 10 after)",
        ],
    );
    let schema = workload().schema();
    let reading = TableReading { keys, rows: 10, index_entries: &[10, 10] };
    let whole =
        WholeEvidence { accounts: &accounts, tables: &[reading], sampled: &[], wrong_answers: 3 };
    let failures = check_whole(&schema, &whole).failures;
    assert_eq!(failures, [answers, "table 0: 2 indexes were read; it has 3"]);
    let failures =
        check_whole(&schema, &WholeEvidence { tables: &[], wrong_answers: 0, ..whole }).failures;
    assert_eq!(failures, ["0 tables were read; the dataset has 1"]);
    let bare = TableReading { index_entries: &[], ..reading };
    assert!(
        check_whole(&schema, &WholeEvidence { tables: &[bare], wrong_answers: 0, ..whole })
            .passed()
    );
}

/// The ledgers of a step in which the first so many of ten rows went in and so many of the others, the rest being
/// refused, and in which rows were deleted likewise.
fn ledgers(inserted: [u32; 2], deleted: [u32; 2]) -> Vec<Ledger> {
    let workload = workload();
    let spans = [Arc::new(TableSpan::new(None, 1))];
    let client = |role| StepClient {
        role,
        number: 0,
        clients: 1,
        rows_per_commit: 1,
        rows_max: None,
        keeps_size: false,
    };
    let roles = [(Role::Insert, inserted), (Role::Delete, deleted)];
    let ledger = |(role, [acknowledged, unknown]): (Role, [u32; 2])| {
        let mut stream = workload.stream(Seed(1), &client(role), &spans);
        for number in 0..10 {
            let request = stream.next();
            if number < acknowledged {
                stream.acknowledged(&request);
            } else if number < acknowledged + unknown {
                stream.unknown(&request);
            }
        }
        stream.into_ledger()
    };
    roles.map(ledger).into()
}

#[test]
fn keys_are_judged_to_the_row() {
    let keys = |first, last| Some(KeySpan { first, last });
    let check = |ledgers: &[Ledger], before, after, gaps_max, failure: Option<&str>| {
        let report = check_step(&StepEvidence {
            accounts: &[TableAccount::of_loaded(20)],
            before: &[before],
            after: &[after],
            gaps_max,
            clients: 2,
            ledgers,
            wrong_answers: 0,
        });
        match failure {
            None => assert!(report.passed(), "{report:#?}"),
            Some(piece) => {
                let found = matches!(&report.failures[..], [only] if only.contains(piece));
                assert!(found, "{piece}: {report:#?}");
            }
        }
    };
    let all = ledgers([10, 0], [10, 0]);
    check(&all, keys(1, 20), keys(11, 30), 0, None);
    check(&all, keys(1, 20), keys(12, 30), 0, Some("1 of 20 rows that must be there are lost"));
    check(&all, keys(1, 20), keys(10, 30), 0, Some("1 deleted rows are still there"));
    check(&all, keys(1, 20), keys(11, 31), 0, Some("1 keys too many were given"));
    check(&all, keys(1, 20), keys(11, 31), 1, None);
    // With earlier gaps the rows would have room, but the last key says that one is not there.
    check(&all, keys(1, 22), keys(11, 32), 2, None);
    check(&all, keys(1, 22), keys(11, 31), 2, Some("the largest key grew by 9 only"));
    let refused = ledgers([6, 0], [10, 0]);
    check(&refused, keys(1, 20), keys(11, 30), 0, None);
    check(&refused, keys(1, 20), keys(11, 26), 0, None);
    check(&refused, keys(1, 20), keys(11, 31), 0, Some("1 keys too many were given"));
    let unknown = ledgers([6, 4], [9, 1]);
    check(&unknown, keys(1, 20), keys(11, 26), 0, None);
    check(&unknown, keys(1, 20), keys(10, 30), 0, None);
    // A delete that was thought lost may have come before the others, and one that was refused may have been overtaken.
    check(&unknown, keys(1, 20), keys(1, 30), 0, None);
    check(&unknown, keys(2, 20), keys(1, 30), 0, Some("rows came in before the first"));
}

#[test]
fn rows_that_went_in_without_order_are_not_compared() {
    let ordered = TableAccount::of_loaded(10);
    let keys = Some(KeySpan { first: 1, last: 10 });
    let reading = TableReading { keys, rows: 10, index_entries: &[] };
    let sampled = SampledPurchase { id: RowId { table: 0, row: 3 }, is_as_inserted: false };
    let passed = |account| {
        let evidence = WholeEvidence {
            accounts: &[account],
            tables: &[reading],
            sampled: &[sampled],
            wrong_answers: 0,
        };
        check_whole(&workload().schema(), &evidence).passed()
    };
    assert!(!passed(ordered));
    assert!(passed(TableAccount { is_in_order: false, ..ordered }));
}
