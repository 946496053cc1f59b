//! Where a table begins and ends as its clients know it: two numbers that inserters and deleters move and all others
//! read, so that nobody has to ask the engine while something is measured.
//!
//! A table of this workload is a queue: rows come in at the end, with the largest keys, and leave at the beginning.
//! Start with [`TableSpan::new`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The smallest and the largest primary key of a table that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpan {
    /// Smallest key.
    pub first: u64,
    /// Largest key.
    pub last: u64,
}

impl KeySpan {
    /// The most rows that there can be between the two.
    #[must_use]
    pub fn rows_max(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// What the clients of a step know together of a table. It is exact while keys have no gaps; with gaps the first key is
/// too small and the last too small as well, so that deletes still take the oldest rows, and some keys of point queries
/// find nothing.
#[derive(Debug)]
pub struct TableSpan {
    first: AtomicU64,
    last: AtomicU64,
    /// Inserters that may insert more.
    inserters: AtomicU32,
    next_row: u64,
}

impl TableSpan {
    /// The table as it was read before the step, `None` for an empty one, and the number of the next row to insert.
    #[must_use]
    pub fn new(keys: Option<KeySpan>, next_row: u64) -> TableSpan {
        // The best guess for an empty table is that keys are row numbers.
        let KeySpan { first, last } =
            keys.unwrap_or(KeySpan { first: next_row, last: next_row.saturating_sub(1) });
        let (first, last) = (AtomicU64::new(first), AtomicU64::new(last));
        TableSpan { first, last, inserters: AtomicU32::new(0), next_row }
    }

    /// The number of the first row that is inserted in this step.
    #[must_use]
    pub fn next_row(&self) -> u64 {
        self.next_row
    }

    /// The keys at this moment; `None` if all rows have been deleted. The two numbers are read one after the other.
    #[inline]
    #[must_use]
    pub fn keys(&self) -> Option<KeySpan> {
        let (first, last) = (self.first.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        (first <= last).then_some(KeySpan { first, last })
    }

    /// The smallest key at this moment, or the next one of an empty table.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first.load(Ordering::Relaxed)
    }

    /// Rows at this moment, and as many more as keys had gaps before the step.
    #[inline]
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.keys().map_or(0, |keys| keys.rows_max())
    }

    /// There is one inserter more.
    pub(super) fn inserter_begins(&self) {
        self.inserters.fetch_add(1, Ordering::Relaxed);
    }

    /// An inserter's last request has ended.
    pub(super) fn inserter_ends(&self) {
        // Whoever sees this sees what was inserted.
        self.inserters.fetch_sub(1, Ordering::Release);
    }

    /// Whether nobody inserts any more.
    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        self.inserters.load(Ordering::Acquire) == 0
    }

    /// So many rows were inserted for certain.
    #[inline]
    pub(super) fn inserted(&self, rows: u16) {
        self.last.fetch_add(rows.into(), Ordering::Relaxed);
    }

    /// So many rows were deleted for certain.
    #[inline]
    pub(super) fn deleted(&self, rows: u16) {
        self.first.fetch_add(rows.into(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! Shows that a table is a queue.
    use super::*;

    #[test]
    fn rows_come_in_at_the_end_and_leave_at_the_beginning() {
        let span = TableSpan::new(None, 101);
        assert_eq!((span.keys(), span.rows(), span.first(), span.next_row()), (None, 0, 101, 101));
        span.inserted(50);
        span.deleted(20);
        assert_eq!(span.keys(), Some(KeySpan { first: 121, last: 150 }));
        assert_eq!((span.rows(), span.first()), (30, 121));
        span.deleted(30);
        assert_eq!((span.keys(), span.rows(), span.first()), (None, 0, 151));
        let loaded = TableSpan::new(Some(KeySpan { first: 7, last: 7 }), 8);
        assert_eq!(loaded.rows(), 1);
    }
}
