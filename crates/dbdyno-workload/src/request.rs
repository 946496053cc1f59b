//! The vocabulary between a workload, which says what to do, and a driver, which does it.
//!
//! A request is a small `Copy` value: the request loop makes one per operation and never allocates. A driver maps it
//! onto prepared statements or library calls. A new kind of operation is one variant of [`Action`].

/// One operation, due once, that an engine acknowledges, refuses, or leaves unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Index into the workload's list of request classes; statistics are kept per class.
    pub class: u8,
    /// Zero-based table number.
    pub table: u16,
    /// Primary key of the row, 1 to the number of rows.
    pub row: u64,
    /// What to do with the row.
    pub action: Action,
}

/// What a request does with its row. Every action is one auto-commit transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Read the row's counter and filler.
    Read,
    /// Add one to the row's counter.
    Increment,
    /// Set the row's counter to this value.
    Assign(u64),
}
