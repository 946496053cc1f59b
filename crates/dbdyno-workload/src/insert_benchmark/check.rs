//! The verdict: are the rows there that the engine acknowledged, no others, and does each index have all of them?
//!
//! After each step, [`check_step`] asks for the smallest and the largest key of each table only, which touches few
//! pages, so that the next step measures what it would have measured without a check. After a trial's last step,
//! [`check_whole`] looks at everything. Both are pure functions of what was read; reading is the caller's work.

use super::{KeySpan, Ledger, Role, TableAccount};
use crate::check_report::CheckReport;
use crate::dataset::RowId;
use crate::rng::{Random, Seed};
use crate::schema::Schema;
use std::collections::BTreeSet;

/// Everything that the verdict on a step rests on. The first three have an element for each table.
#[derive(Debug, Clone, Copy)]
pub struct StepEvidence<'a> {
    /// The accounts before the step.
    pub accounts: &'a [TableAccount],
    /// The keys before the step, `None` for an empty table.
    pub before: &'a [Option<KeySpan>],
    /// The keys after the step, when every connection was drained.
    pub after: &'a [Option<KeySpan>],
    /// Keys that the engine may have passed over in each table since it was made, though the ledgers know of no reason:
    /// rows of attempts that were refused and then succeeded, and keys that a connection was handed and did not use.
    pub gaps_max: u64,
    /// Clients of the step.
    pub clients: u32,
    /// One ledger per client.
    pub ledgers: &'a [Ledger],
    /// Answers to queries that were wrong in order, bounds or number of entries, as counted by the drivers.
    pub wrong_answers: u64,
}

/// One table as it was read after a trial's last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableReading<'a> {
    /// Its keys, `None` if it is empty.
    pub keys: Option<KeySpan>,
    /// Its rows, counted by primary key.
    pub rows: u64,
    /// The entries of each index in the order of the schema, counted in the index itself; empty if the table has none.
    pub index_entries: &'a [u64],
}

/// One row of [`sample_keys`] as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledPurchase {
    /// Which row, if keys are row numbers.
    pub id: RowId,
    /// Whether it is there and [`super::PurchaseRows::is_row`] knows it.
    pub is_as_inserted: bool,
}

/// Everything that the verdict on a trial rests on. The first two have an element for each table.
#[derive(Debug, Clone, Copy)]
pub struct WholeEvidence<'a> {
    /// The accounts after the last step.
    pub accounts: &'a [TableAccount],
    /// What was read.
    pub tables: &'a [TableReading<'a>],
    /// Rows that were looked at; may be empty.
    pub sampled: &'a [SampledPurchase],
    /// Answers to queries in all steps that were wrong in order, bounds or number of entries.
    pub wrong_answers: u64,
}

/// Judges a step.
///
/// Engines give keys in ascending order and never twice, and rows leave with the smallest keys first. So, in each table:
/// the rows that must be there fit between its two keys; the largest key grew by the rows inserted at least, and is not
/// above what all rows loaded, inserted, refused and unknown so far and the gaps allowed add up to; the smallest key grew
/// by the rows deleted at least, unless a delete was refused or unknown, which another may have overtaken.
#[must_use]
pub fn check_step(evidence: &StepEvidence) -> CheckReport {
    let changes = |total: fn(&Ledger) -> u64| {
        let changing = evidence.ledgers.iter();
        let changing =
            changing.filter(|ledger| matches!(ledger.role(), Role::Insert | Role::Delete));
        changing.map(total).sum()
    };
    let is_active = |ledger: &&Ledger| ledger.acknowledged_total() + ledger.unknown_total() > 0;
    let mut report = CheckReport {
        acknowledged: changes(Ledger::acknowledged_total),
        unknown: changes(Ledger::unknown_total),
        dop: evidence.clients,
        active_clients: evidence.ledgers.iter().filter(is_active).count() as u32,
        ..CheckReport::default()
    };
    if evidence.ledgers.len() != evidence.clients as usize {
        report.failures.push(format!(
            "{} clients kept a ledger, but this step has {}",
            evidence.ledgers.len(),
            evidence.clients
        ));
    }
    note_answers(evidence.wrong_answers, &mut report);
    let (before, after) = (evidence.before.len(), evidence.after.len());
    let expected = evidence.accounts.len();
    if before != expected || after != expected {
        report.failures.push(format!(
            "{before} tables were read before the step and {after} after it; the dataset has {expected}"
        ));
        return report;
    }
    for table in 0..expected {
        check_keys(table, evidence, &mut report);
    }
    report
}

/// One table of a step.
fn check_keys(table: usize, evidence: &StepEvidence, report: &mut CheckReport) {
    let (before, after) = (evidence.before[table], evidence.after[table]);
    let account = evidence.accounts[table];
    let now = account.after(table as u16, evidence.ledgers);
    let inserted = now.inserted - account.inserted;
    let deleted = now.deleted - account.deleted;
    let failed = |role: Role| -> u64 {
        let of_table =
            |ledger: &&Ledger| usize::from(ledger.table()) == table && ledger.role() == role;
        let ledgers = evidence.ledgers.iter().filter(of_table);
        ledgers.map(|ledger| ledger.unknown_total() + ledger.refused_total()).sum()
    };
    let (inserts_failed, deletes_failed) = (failed(Role::Insert), failed(Role::Delete));
    let fact = format!(
        "{inserted} rows inserted and {deleted} deleted, {} refused or unknown; {} before and {} after",
        inserts_failed + deletes_failed,
        describe_keys(before),
        describe_keys(after)
    );
    let mut wrong = Vec::new();
    let room = after.map_or(0, |keys| keys.rows_max());
    if room < now.rows_min() {
        let missing = now.rows_min() - room;
        wrong.push(format!("{missing} of {} rows that must be there are lost", now.rows_min()));
    }
    if let Some(after) = after {
        let growth = i128::from(after.last) - before.map_or(0, |keys| i128::from(keys.last));
        let most = now.last_key_max() + evidence.gaps_max;
        if growth < i128::from(inserted) {
            wrong.push(format!("the largest key grew by {growth} only"));
        } else if after.last > most {
            wrong.push(format!("{} keys too many were given", after.last - most));
        }
    }
    if let (Some(before), Some(after)) = (before, after) {
        let growth = i128::from(after.first) - i128::from(before.first);
        if growth < 0 {
            wrong.push("rows came in before the first".to_owned());
        } else if growth < i128::from(deleted) && deletes_failed == 0 {
            let left = i128::from(deleted) - growth;
            wrong.push(format!(
                "{left} deleted rows are still there, or others went in their place"
            ));
        }
    }
    if wrong.is_empty() {
        report.statements.push(format!("table {table}: {fact}"));
    }
    report.failures.extend(wrong.iter().map(|wrong| format!("table {table}: {wrong} ({fact})")));
}

/// Judges a trial after its last step.
///
/// In each table: loaded + inserted - deleted rows, within what is unknown; as many entries in each index; and, where
/// keys have no gaps and are so the numbers of rows, sampled rows as they were inserted. Clients are counted by
/// [`check_step`].
#[must_use]
pub fn check_whole(schema: &Schema, evidence: &WholeEvidence) -> CheckReport {
    let mut report = CheckReport::default();
    note_answers(evidence.wrong_answers, &mut report);
    let (expected, read) = (evidence.accounts.len(), evidence.tables.len());
    if read != expected {
        report.failures.push(format!("{read} tables were read; the dataset has {expected}"));
        return report;
    }
    let mut growth = 0;
    for (table, (account, reading)) in evidence.accounts.iter().zip(evidence.tables).enumerate() {
        report.acknowledged += account.inserted + account.deleted;
        report.unknown += account.inserted_unknown + account.deleted_unknown;
        growth += i128::from(reading.rows) - i128::from(account.loaded);
        check_rows(table, account, reading, &mut report);
        check_indexes(table, schema, reading, &mut report);
        let of_table = |row: &&SampledPurchase| usize::from(row.id.table) == table;
        let sampled: Vec<_> = evidence.sampled.iter().filter(of_table).collect();
        if has_row_keys(account, reading) {
            check_sampled(table, &sampled, &mut report);
        } else if !sampled.is_empty() {
            report.statements.push(format!(
                "table {table}: its keys are not the numbers of its rows, so that {} sampled rows were not compared",
                sampled.len()
            ));
        }
    }
    report.difference = Some(growth.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
    report
}

/// loaded + inserted - deleted, within what is unknown.
fn check_rows(
    table: usize,
    account: &TableAccount,
    reading: &TableReading,
    report: &mut CheckReport,
) {
    let TableAccount { loaded, inserted, deleted, .. } = account;
    let rows = reading.rows;
    let fact = format!(
        "table {table}: {loaded} rows loaded, {inserted} inserted and {deleted} deleted, {} unknown; it has {rows}",
        account.inserted_unknown + account.deleted_unknown
    );
    let verdict = match rows {
        _ if rows < account.rows_min() => format!(": {} rows are lost", account.rows_min() - rows),
        _ if rows > account.rows_max() => {
            format!(": {} rows are too many", rows - account.rows_max())
        }
        _ => String::new(),
    };
    report.note(verdict.is_empty(), fact + &verdict);
}

/// As many entries in each index as rows.
fn check_indexes(table: usize, schema: &Schema, reading: &TableReading, report: &mut CheckReport) {
    let (read, expected) = (reading.index_entries.len(), schema.indexes.len());
    if read != 0 && read != expected {
        report.failures.push(format!("table {table}: {read} indexes were read; it has {expected}"));
        return;
    }
    for (index, &entries) in schema.indexes.iter().zip(reading.index_entries) {
        let fact = format!("table {table}: {entries} entries in index {}", index.name);
        report.note(entries == reading.rows, format!("{fact} for {} rows", reading.rows));
    }
}

/// Whether the keys of a table are the numbers of its rows: rows went in one after the other, the last has the number
/// that it should have, and none is missing since the first.
fn has_row_keys(account: &TableAccount, reading: &TableReading) -> bool {
    let is_whole =
        |keys: KeySpan| keys.last + 1 == account.next_row && keys.rows_max() == reading.rows;
    account.is_in_order && reading.keys.is_some_and(is_whole)
}

/// Rows of one table as they were inserted.
fn check_sampled(table: usize, sampled: &[&SampledPurchase], report: &mut CheckReport) {
    let wrong: Vec<_> = sampled.iter().filter(|row| !row.is_as_inserted).collect();
    match wrong.first() {
        Some(first) => report.failures.push(format!(
            "table {table}: {} of {} sampled rows are not as they were inserted; the first is row {}",
            wrong.len(),
            sampled.len(),
            first.id.row
        )),
        None if sampled.is_empty() => {}
        None => report.statements.push(format!(
            "table {table}: {} sampled rows are as they were inserted",
            sampled.len()
        )),
    }
}

fn note_answers(wrong: u64, report: &mut CheckReport) {
    if wrong > 0 {
        report.failures.push(format!(
            "{wrong} answers to queries were wrong in order, bounds or number of entries"
        ));
    }
}

fn describe_keys(keys: Option<KeySpan>) -> String {
    keys.map_or_else(
        || "no keys".to_owned(),
        |keys| format!("keys {} to {}", keys.first, keys.last),
    )
}

/// At most `count` different rows to look at, as many from each table that has any, always the same ones, in order of
/// table and row.
#[must_use]
pub fn sample_keys(seed: Seed, tables: &[Option<KeySpan>], count: usize) -> Vec<RowId> {
    let mut random = Random::new(seed.derive("insert_benchmark sample", 0));
    let filled: Vec<_> =
        (0u16..).zip(tables).filter_map(|(table, keys)| Some((table, (*keys)?))).collect();
    let mut sampled = BTreeSet::new();
    for (table, keys) in filled.iter().cycle().take(count) {
        sampled.insert(RowId { table: *table, row: keys.first + random.below(keys.rows_max()) });
    }
    sampled.into_iter().collect()
}

#[cfg(test)]
mod tests {
    //! Shows which rows are sampled; `tests/insert_benchmark_check.rs` shows the verdicts.
    use super::*;

    #[test]
    fn samples_are_spread_over_tables_that_have_rows() {
        let keys = |first, last| Some(KeySpan { first, last });
        let tables = [keys(1, 1_000_000), None, keys(501, 1500)];
        let sampled = sample_keys(Seed(42), &tables, 100);
        let of_table = |table| sampled.iter().filter(move |id| id.table == table).map(|id| id.row);
        assert_eq!(of_table(0).count(), 50);
        assert!((45..=50).contains(&of_table(2).count()), "few of a thousand come twice");
        assert!(of_table(0).all(|row| row <= 1_000_000));
        assert!(of_table(2).all(|row| (501..=1500).contains(&row)));
        assert!(sampled.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(sample_keys(Seed(42), &tables, 100), sampled);
        assert_eq!(sample_keys(Seed(42), &[keys(7, 7)], 100), [RowId { table: 0, row: 7 }]);
        assert!(sample_keys(Seed(42), &[None], 100).is_empty());
    }
}
