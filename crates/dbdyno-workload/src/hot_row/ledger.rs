//! How the requests of one client ended, as far as the check needs to know: counts, and the last assigned values.
//!
//! The request loop calls [`Ledger::acknowledged`] once per operation, so that path has a fixed size and never
//! allocates. Refused requests are not told to the ledger: the engine said that it did nothing.

use super::HotRow;
use crate::request::{Action, Request};

/// One client's account of a trial, warm-up and tail included.
#[derive(Debug, Clone)]
pub struct Ledger {
    tables: Box<[TableLedger]>,
    /// Assigned values of unknown fate with their tables, each later than the client's last acknowledged one there.
    unknown_values: Vec<(u16, u64)>,
}

/// The account of one table.
#[derive(Debug, Clone, Copy, Default)]
struct TableLedger {
    acknowledged: u64,
    unknown: u64,
    /// The last acknowledged assigned value; 0, which is never assigned, means none.
    last_value: u64,
}

impl HotRow {
    /// An empty ledger; each client has its own.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let tables = vec![TableLedger::default(); usize::from(self.tables)];
        Ledger { tables: tables.into_boxed_slice(), unknown_values: Vec::new() }
    }
}

impl Ledger {
    /// The engine said that it did this update, to exactly one row.
    #[inline]
    pub fn acknowledged(&mut self, request: &Request) {
        let table = &mut self.tables[usize::from(request.table)];
        match request.action {
            Action::Increment => table.acknowledged += 1,
            Action::Assign(value) => {
                table.acknowledged += 1;
                table.last_value = value;
                if !self.unknown_values.is_empty() {
                    self.unknown_values.retain(|&(table, _)| table != request.table);
                }
            }
            _ => {}
        }
    }

    /// Nobody knows whether the engine did this update: the answer never came. May allocate.
    #[cold]
    pub fn unknown(&mut self, request: &Request) {
        let table = &mut self.tables[usize::from(request.table)];
        match request.action {
            Action::Increment => table.unknown += 1,
            Action::Assign(value) => {
                table.unknown += 1;
                self.unknown_values.push((request.table, value));
            }
            _ => {}
        }
    }

    /// Updates acknowledged, over all tables.
    #[must_use]
    pub fn acknowledged_total(&self) -> u64 {
        self.tables.iter().map(|table| table.acknowledged).sum()
    }

    /// Updates of unknown fate, over all tables.
    #[must_use]
    pub fn unknown_total(&self) -> u64 {
        self.tables.iter().map(|table| table.unknown).sum()
    }

    /// Updates of this table acknowledged; none of tables that are not updated.
    pub(super) fn acknowledged_on(&self, table: u16) -> u64 {
        self.tables.get(usize::from(table)).map_or(0, |ledger| ledger.acknowledged)
    }

    /// Updates of this table of unknown fate.
    pub(super) fn unknown_on(&self, table: u16) -> u64 {
        self.tables.get(usize::from(table)).map_or(0, |ledger| ledger.unknown)
    }

    /// Whether this client can have written `value` as the last of its values in this table.
    pub(super) fn may_end_with(&self, table: u16, value: u64) -> bool {
        let last = self.tables.get(usize::from(table)).map_or(0, |ledger| ledger.last_value);
        (last != 0 && last == value) || self.unknown_values.contains(&(table, value))
    }
}

#[cfg(test)]
mod tests {
    //! Shows which values a client can have left behind, and that reads do not count.
    use super::*;
    use crate::parameter::Settings;

    #[test]
    fn an_acknowledged_value_supersedes_earlier_unknown_ones_of_its_table() {
        let mut ledger = HotRow::from_settings(&Settings::from([(
            "tables".to_owned(),
            crate::parameter::Setting::Integer(2),
        )]))
        .expect("valid")
        .ledger();
        let request =
            |table, value| Request { class: 0, table, row: 1, action: Action::Assign(value) };
        ledger.unknown(&request(0, 1));
        ledger.unknown(&request(1, 2));
        ledger.acknowledged(&request(0, 3));
        ledger.unknown(&request(0, 4));
        ledger.acknowledged(&Request { action: Action::Read, ..request(0, 0) });
        let possible = |table| -> Vec<u64> {
            (0..6).filter(|&value| ledger.may_end_with(table, value)).collect()
        };
        assert_eq!(possible(0), [3, 4]);
        assert_eq!(possible(1), [2]);
        assert_eq!((ledger.acknowledged_total(), ledger.unknown_total()), (1, 3));
    }
}
