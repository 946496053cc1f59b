//! The verdict: did the engine do every update it acknowledged, no other, and leave all other rows alone?
//!
//! A pure function of what was read before the warm-up, what was read after all connections were drained, and the
//! clients' ledgers. Reading is the caller's work. Start with [`HotRow::check`]; [`CheckReport`] is what it says.

use super::stream::describe_value;
use super::{Assignment, HotRow, Ledger, Update};
use crate::check_report::CheckReport;
use crate::dataset::RowId;
use crate::distribution::KeyDistribution;

/// What was read of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableState {
    /// The counter in the scope that [`HotRow::counter_scope`] names.
    pub counter: u64,
}

/// One row of [`crate::Dataset::sample_rows`] as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledRow {
    /// Which row.
    pub id: RowId,
    /// How many times ageing incremented it, from [`crate::Dataset::age_updates_for`].
    pub aged: u64,
    /// Its counter before the warm-up.
    pub before: u64,
    /// Its counter after the trial.
    pub after: u64,
    /// Whether its filler after the trial is the dataset's.
    pub filler_intact: bool,
}

/// Everything the verdict rests on.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The DOP of the cell.
    pub dop: u32,
    /// All tables of the dataset in order, read before the warm-up.
    pub before: &'a [TableState],
    /// The same tables, read after every connection was drained.
    pub after: &'a [TableState],
    /// One ledger per client, from the first request of the warm-up to the last of the tail.
    pub ledgers: &'a [Ledger],
    /// Rows that the workload should have left alone; may be empty when tables have one row.
    pub sampled: &'a [SampledRow],
}

impl HotRow {
    /// Judges a trial.
    ///
    /// Increments: in each table, acknowledged <= growth <= acknowledged + unknown. Assigned values: each table ends
    /// with some client's last acknowledged value, with a later one of unknown fate, or, if nothing was acknowledged,
    /// as it began. Tables that are loaded but not updated, and sampled rows, stay as they were.
    #[must_use]
    pub fn check(&self, evidence: &Evidence) -> CheckReport {
        let mut report = CheckReport {
            acknowledged: evidence.ledgers.iter().map(Ledger::acknowledged_total).sum(),
            unknown: evidence.ledgers.iter().map(Ledger::unknown_total).sum(),
            dop: evidence.dop,
            ..CheckReport::default()
        };
        self.check_clients(evidence, &mut report);
        let expected = usize::from(self.dataset_tables);
        let (before, after) = (evidence.before.len(), evidence.after.len());
        if before != expected || after != expected {
            report.failures.push(format!(
                "{before} tables were read before the trial and {after} after it; the dataset has {expected}"
            ));
            return report;
        }
        let mut growth = 0;
        for table in 0..self.dataset_tables {
            let before = evidence.before[usize::from(table)].counter;
            let after = evidence.after[usize::from(table)].counter;
            growth += i128::from(after) - i128::from(before);
            if table >= self.tables {
                if before != after {
                    report.failures.push(format!(
                        "table {table}: its counter went from {before} to {after}, though nobody updates it"
                    ));
                }
            } else if self.update == Update::Increment {
                check_growth(table, before, after, evidence.ledgers, &mut report);
            } else {
                check_last_value(table, before, after, evidence.ledgers, &mut report);
            }
        }
        if self.update == Update::Increment {
            let clamped = growth.clamp(i64::MIN.into(), i64::MAX.into());
            report.difference = Some(clamped as i64);
        }
        self.check_sampled(evidence.sampled, &mut report);
        report
    }

    /// The number of clients, the slip that makes document 000's engines hard to compare.
    fn check_clients(&self, evidence: &Evidence, report: &mut CheckReport) {
        let is_active = |ledger: &&Ledger| ledger.acknowledged_total() + ledger.unknown_total() > 0;
        report.active_clients = evidence.ledgers.iter().filter(is_active).count() as u32;
        let assignment = match self.assignment {
            Assignment::Pinned => "pinned",
            Assignment::Roaming => "roaming",
            Assignment::Divided => "divided",
        };
        report.statements.push(format!(
            "active clients: {} at DOP {} (assignment {assignment}, tables {})",
            report.active_clients, evidence.dop, self.tables
        ));
        let planned = self.clients(evidence.dop);
        if evidence.ledgers.len() != planned as usize {
            report.failures.push(format!(
                "{} clients kept a ledger, but this cell has {planned}",
                evidence.ledgers.len()
            ));
        }
    }

    /// Rows beside the hot one. With other keys than single they may grow, but never shrink.
    fn check_sampled(&self, sampled: &[SampledRow], report: &mut CheckReport) {
        let single = self.keys == KeyDistribution::Single;
        let mut say = |what: &str, is_wrong: fn(&SampledRow) -> bool| {
            let wrong: Vec<_> = sampled.iter().filter(|row| is_wrong(row)).collect();
            if let Some(&first) = wrong.first() {
                report.failures.push(format!(
                    "{} of {} sampled rows {what}; the first is row {} of table {} (aged {}, counter {} before and {} after)",
                    wrong.len(), sampled.len(), first.id.row, first.id.table, first.aged, first.before, first.after
                ));
            }
        };
        say("lost their filler", |row| !row.filler_intact);
        say("have a counter below their ageing", |row| row.before < row.aged);
        if single {
            say("changed, though nobody updates them", |row| row.before != row.after);
        } else {
            say("have a counter that shrank", |row| row.after < row.before);
        }
        let rows = sampled.len();
        report.statements.push(match (rows, single) {
            (0, _) => "no other rows were sampled".to_owned(),
            (_, true) => {
                format!("{rows} other rows were sampled for their filler and an unchanged counter")
            }
            (_, false) => format!("{rows} rows were sampled for their filler"),
        });
        let earlier = sampled.iter().filter(|row| row.before > row.aged).count();
        if earlier > 0 {
            report.statements.push(format!(
                "{earlier} of {rows} sampled rows had been updated by earlier cells of this block"
            ));
        }
    }
}

/// acknowledged <= growth <= acknowledged + unknown.
fn check_growth(table: u16, before: u64, after: u64, ledgers: &[Ledger], report: &mut CheckReport) {
    let acknowledged: u64 = ledgers.iter().map(|ledger| ledger.acknowledged_on(table)).sum();
    let unknown: u64 = ledgers.iter().map(|ledger| ledger.unknown_on(table)).sum();
    let growth = i128::from(after) - i128::from(before);
    let least = i128::from(acknowledged);
    let most = least + i128::from(unknown);
    let fact = format!(
        "table {table}: {acknowledged} updates acknowledged, {unknown} unknown, counter grew by {growth}"
    );
    let verdict = match growth {
        _ if growth < least => format!(": {} acknowledged updates are lost", least - growth),
        _ if growth > most => format!(": {} updates too many were applied", growth - most),
        _ => String::new(),
    };
    report.note(verdict.is_empty(), fact + &verdict);
}

/// The final value is one that some client can have written last.
fn check_last_value(
    table: u16,
    before: u64,
    after: u64,
    ledgers: &[Ledger],
    report: &mut CheckReport,
) {
    let acknowledged: u64 = ledgers.iter().map(|ledger| ledger.acknowledged_on(table)).sum();
    let unknown: u64 = ledgers.iter().map(|ledger| ledger.unknown_on(table)).sum();
    let untouched = acknowledged == 0 && after == before;
    let right = untouched || ledgers.iter().any(|ledger| ledger.may_end_with(table, after));
    let value = describe_value(after);
    let fact = format!("table {table}: {acknowledged} updates acknowledged, {unknown} unknown");
    let verdict = if right {
        format!("it ends with {value}, which is possible")
    } else {
        format!(
            "it ends with {value}, which is no client's last acknowledged or later unknown value"
        )
    };
    report.note(right, format!("{fact}, {verdict}"));
}
