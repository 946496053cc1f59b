//! How the requests of one client of a step ended, and what becomes of the tables' accounts by it.
//!
//! A [`Ledger`] is in the request loop: it has a fixed size and never allocates. A [`TableAccount`] goes from step to
//! step: how many rows there must be, and which number the next one gets.

use super::stream::Role;
use crate::request::{Action, Request};

/// One client's account of a step: rows of inserters and deleters, requests of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    role: Role,
    table: u16,
    /// Whether other inserters of the step share the table.
    shares_table: bool,
    asked: u64,
    acknowledged: u64,
    unknown: u64,
    /// The number after the last row that it took, or 0.
    rows_end: u64,
}

impl Ledger {
    /// The empty ledger of a client.
    pub(super) fn new(role: Role, table: u16, shares_table: bool) -> Ledger {
        Ledger { role, table, shares_table, asked: 0, acknowledged: 0, unknown: 0, rows_end: 0 }
    }

    /// The stream made this request.
    #[inline]
    pub(super) fn asked(&mut self, request: &Request) {
        self.asked += amount(request);
        if let Action::Insert(rows) = request.action {
            self.rows_end = request.row + u64::from(rows);
        }
    }

    /// The engine said that it did this request.
    #[inline]
    pub(super) fn acknowledged(&mut self, request: &Request) {
        self.acknowledged += amount(request);
    }

    /// Nobody knows whether the engine did this request.
    #[cold]
    pub(super) fn unknown(&mut self, request: &Request) {
        self.unknown += amount(request);
    }

    /// What kind of client it is.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The table that the client was bound to.
    #[must_use]
    pub fn table(&self) -> u16 {
        self.table
    }

    /// Rows (of inserters and deleters) or requests that were acknowledged.
    #[must_use]
    pub fn acknowledged_total(&self) -> u64 {
        self.acknowledged
    }

    /// Rows or requests of unknown fate.
    #[must_use]
    pub fn unknown_total(&self) -> u64 {
        self.unknown
    }

    /// Rows or requests that were refused for good, or made and never sent.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.asked - self.acknowledged - self.unknown
    }
}

/// What a request counts for.
#[inline]
fn amount(request: &Request) -> u64 {
    match request.action {
        Action::Insert(rows) | Action::Delete(rows) => rows.into(),
        _ => 1,
    }
}

/// What the clients' ledgers of all steps so far say of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableAccount {
    /// Rows that were loaded.
    pub loaded: u64,
    /// Rows inserted for certain.
    pub inserted: u64,
    /// Rows that may have been inserted.
    pub inserted_unknown: u64,
    /// Rows that were not inserted, but may have cost keys.
    pub inserted_refused: u64,
    /// Rows deleted for certain.
    pub deleted: u64,
    /// Rows that may have been deleted.
    pub deleted_unknown: u64,
    /// The number of the next row.
    pub next_row: u64,
    /// Whether rows went in one after the other, by one inserter in each step, so that a key can be the row's number.
    pub is_in_order: bool,
}

impl TableAccount {
    /// A table into which so many rows were loaded, and nothing has been done to it.
    #[must_use]
    pub fn of_loaded(rows: u64) -> TableAccount {
        TableAccount {
            loaded: rows,
            inserted: 0,
            inserted_unknown: 0,
            inserted_refused: 0,
            deleted: 0,
            deleted_unknown: 0,
            next_row: rows + 1,
            is_in_order: true,
        }
    }

    /// The account of this table after a step in which clients kept these ledgers; those of other tables are passed
    /// over.
    #[must_use]
    pub fn after(mut self, table: u16, ledgers: &[Ledger]) -> TableAccount {
        for ledger in ledgers.iter().filter(|ledger| ledger.table == table) {
            match ledger.role {
                Role::Insert => {
                    self.inserted += ledger.acknowledged;
                    self.inserted_unknown += ledger.unknown;
                    self.inserted_refused += ledger.refused_total();
                    self.next_row = self.next_row.max(ledger.rows_end);
                    self.is_in_order &= !ledger.shares_table;
                }
                Role::Delete => {
                    self.deleted += ledger.acknowledged;
                    self.deleted_unknown += ledger.unknown;
                }
                Role::Query | Role::Points => {}
            }
        }
        self
    }

    /// The fewest rows that the table can have.
    #[must_use]
    pub fn rows_min(&self) -> u64 {
        (self.loaded + self.inserted).saturating_sub(self.deleted + self.deleted_unknown)
    }

    /// The most rows that the table can have.
    #[must_use]
    pub fn rows_max(&self) -> u64 {
        (self.loaded + self.inserted + self.inserted_unknown).saturating_sub(self.deleted)
    }

    /// The largest key that the engine can have given, if it passed over none without need.
    #[must_use]
    pub fn last_key_max(&self) -> u64 {
        self.loaded + self.inserted + self.inserted_unknown + self.inserted_refused
    }
}

#[cfg(test)]
mod tests {
    //! Shows what ledgers count and what they do to a table's account.
    use super::*;

    fn request(row: u64, action: Action) -> Request {
        Request { class: 0, table: 2, row, action }
    }

    #[test]
    fn inserters_and_deleters_count_rows_and_the_others_requests() {
        let mut inserter = Ledger::new(Role::Insert, 2, false);
        let inserts = [
            request(11, Action::Insert(5)),
            request(16, Action::Insert(5)),
            request(21, Action::Insert(3)),
        ];
        inserts.iter().for_each(|insert| inserter.asked(insert));
        inserter.acknowledged(&inserts[0]);
        inserter.unknown(&inserts[1]);
        let totals = |ledger: &Ledger| {
            (ledger.acknowledged_total(), ledger.unknown_total(), ledger.refused_total())
        };
        assert_eq!(totals(&inserter), (5, 5, 3));
        let mut reader = Ledger::new(Role::Points, 2, false);
        let points = request(1, Action::Points { count: 10, seed: 0, last: 9 });
        reader.asked(&points);
        reader.acknowledged(&points);
        assert_eq!(totals(&reader), (1, 0, 0));
        let mut deleter = Ledger::new(Role::Delete, 2, false);
        let deletes = [request(1, Action::Delete(4)), request(5, Action::Delete(2))];
        deletes.iter().for_each(|delete| deleter.asked(delete));
        deleter.acknowledged(&deletes[0]);
        deleter.unknown(&deletes[1]);
        assert_eq!((deleter.role(), deleter.table()), (Role::Delete, 2));

        let account = TableAccount::of_loaded(10).after(2, &[inserter.clone(), reader, deleter]);
        let expected = TableAccount {
            loaded: 10,
            inserted: 5,
            inserted_unknown: 5,
            inserted_refused: 3,
            deleted: 4,
            deleted_unknown: 2,
            next_row: 24,
            is_in_order: true,
        };
        assert_eq!(account, expected);
        assert_eq!((account.rows_min(), account.rows_max(), account.last_key_max()), (9, 16, 23));
        let untouched = TableAccount::of_loaded(10);
        assert_eq!(untouched.after(1, &[inserter]), untouched);
    }

    #[test]
    fn a_shared_table_has_no_order() {
        let shared = Ledger::new(Role::Insert, 0, true);
        let account = TableAccount::of_loaded(3).after(0, &[shared]);
        assert_eq!(account, TableAccount { is_in_order: false, ..TableAccount::of_loaded(3) });
        let alone = Ledger::new(Role::Insert, 0, false);
        assert!(!account.after(0, &[alone]).is_in_order, "order does not come back");
    }
}
