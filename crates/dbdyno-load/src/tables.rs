//! Tables of a schema: what a driver that has them must be able to do besides requests, and what its clients will ask.
//!
//! A workload over such tables (the insert benchmark) describes columns, indexes and queries as data; a driver turns them
//! into statements or key encodings once. Drivers without them leave [`crate::driver::Driver::tables`] as it is.

use crate::driver::DriverError;
use crate::outcome::{Failure, FailureClass, Outcome};
use dbdyno_workload::insert_benchmark::{KeySpan, PurchaseRows};
use dbdyno_workload::{Action, ColumnKind, ColumnValue, Request, Schema};
use std::sync::Arc;

/// The tables and what is asked of them: the same for all clients of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TableUse {
    /// What each table looks like.
    pub schema: Schema,
    /// What is in their rows.
    pub rows: PurchaseRows,
    /// Number of tables.
    pub tables: u16,
    /// Every number of rows that a request may insert.
    pub batches: Vec<u16>,
    /// Entries that a range query reads at most.
    pub range_limit: u16,
}

impl TableUse {
    /// The name of a table.
    pub fn table_name(table: u16) -> String {
        format!("pi{}", u32::from(table) + 1)
    }

    /// The name of an index of a table.
    pub fn index_name(&self, table: u16, index: usize) -> String {
        format!("{}_{}", TableUse::table_name(table), self.schema.indexes[index].name)
    }

    /// The name of the primary key's column.
    pub fn key_name(&self) -> &'static str {
        self.schema.columns[0].name
    }
}

/// The control plane over tables of a schema.
pub trait Tables {
    /// Makes the tables, with their primary keys only, where they do not exist.
    ///
    /// # Errors
    /// The engine's.
    fn create(&self, using: &TableUse) -> Result<(), DriverError>;

    /// Removes the tables, where they exist.
    ///
    /// # Errors
    /// The engine's.
    fn drop(&self, using: &TableUse) -> Result<(), DriverError>;

    /// Makes the secondary indexes of all tables.
    ///
    /// # Errors
    /// The engine's.
    fn create_indexes(&self, using: &TableUse) -> Result<(), DriverError>;

    /// Smallest and largest key of a table, from its two ends: this reads no more than a few pages.
    ///
    /// # Errors
    /// The engine's.
    fn bounds(&self, using: &TableUse, table: u16) -> Result<Option<KeySpan>, DriverError>;

    /// Entries of a secondary index, or rows of the table. Reads all of it.
    ///
    /// # Errors
    /// The engine's.
    fn count(&self, using: &TableUse, table: u16, index: Option<usize>)
    -> Result<u64, DriverError>;

    /// A row's columns but for the key, if there is a row with this key.
    ///
    /// # Errors
    /// The engine's.
    fn row(
        &self,
        using: &TableUse,
        table: u16,
        key: u64,
    ) -> Result<Option<Vec<OwnedValue>>, DriverError>;
}

/// A column's value that was read back.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnedValue {
    /// Of whole numbers and keys.
    Integer(i64),
    /// Of real numbers.
    Real(f64),
    /// Of points in time: Unix seconds.
    Seconds(i64),
    /// Of texts.
    Text(Vec<u8>),
}

impl OwnedValue {
    /// As the workload has it.
    pub fn as_column(&self) -> ColumnValue<'_> {
        match self {
            OwnedValue::Integer(value) => ColumnValue::Integer(*value),
            OwnedValue::Real(value) => ColumnValue::Real(*value),
            OwnedValue::Seconds(value) => ColumnValue::Seconds(*value),
            OwnedValue::Text(value) => ColumnValue::Text(value),
        }
    }
}

/// What the answer of one range query must look like, held against it entry by entry while it is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RangeAnswer {
    /// Place in the answer's rows of the index's first column, if it is read at all, and what it holds.
    pub column: Option<(usize, ColumnKind)>,
    is_strict: bool,
    limit: u16,
    /// Single precision is what engines keep of real numbers, and all of what whole numbers here have.
    last: f64,
    is_right: bool,
    entries: u16,
}

impl RangeAnswer {
    /// For range query number `query`, started at `row`.
    fn to(schema: &Schema, query: u8, row: u64, limit: u16) -> Self {
        let range = &schema.ranges[usize::from(query)];
        let first = schema.indexes[range.index].columns[0];
        RangeAnswer {
            column: range
                .columns
                .iter()
                .position(|&column| column == first)
                .map(|place| (place, schema.columns[first].kind)),
            // With more columns bound, an entry may equal the start in the first one.
            is_strict: range.is_strict && range.start_bits.len() == 1,
            limit,
            last: comparable(schema.start_value(query, row)),
            is_right: true,
            entries: 0,
        }
    }

    /// Takes an entry with its value of the index's first column; `None` if that is not read.
    #[inline]
    fn take(&mut self, value: Option<ColumnValue<'_>>) {
        self.entries += 1;
        if let Some(value) = value.map(comparable) {
            let is_first = self.entries == 1;
            self.is_right &=
                value >= self.last && !(is_first && self.is_strict && value == self.last);
            self.last = value;
        }
    }

    /// Whether the answer was right: in order, within bounds, and not too long.
    #[inline]
    fn is_right(&self) -> bool {
        self.is_right && self.entries <= self.limit
    }
}

/// What the answer to a request over tables of a schema must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    /// So many rows were changed.
    Rows(u64),
    /// So many rows were found, at most: keys may be the same, and rows may have been deleted since.
    AtMost(u64),
    /// Entries of an index in order.
    Entries(RangeAnswer),
}

impl TableUse {
    /// What the answer to a request must be.
    ///
    /// # Panics
    /// If it is none over tables of a schema.
    #[inline]
    pub fn answer_to(&self, request: &Request) -> Expected {
        match request.action {
            Action::Insert(rows) | Action::Delete(rows) => Expected::Rows(rows.into()),
            Action::Range { query, limit } => {
                Expected::Entries(RangeAnswer::to(&self.schema, query, request.row, limit))
            }
            Action::Points { count, .. } => Expected::AtMost(count.into()),
            Action::Read | Action::Increment | Action::Assign(_) => {
                unreachable!("counters are in other tables")
            }
        }
    }
}

impl Expected {
    /// Takes a row of the answer; `value` gives the number in one of its columns.
    #[inline]
    pub fn take(&mut self, value: impl FnOnce(usize, ColumnKind) -> Option<f64>) {
        let Expected::Entries(answer) = self else { return };
        let value = answer.column.map(|(column, kind)| {
            // What cannot be read is not right either: it is below everything, which breaks the order.
            number_of(kind, value(column, kind).unwrap_or(f64::NEG_INFINITY))
        });
        answer.take(value);
    }

    /// How the request ended, given how many rows the engine says that it changed or found.
    #[inline]
    pub fn outcome(&self, rows: u64) -> Outcome {
        let is_right = match self {
            Expected::Rows(expected) if rows != *expected => {
                // Some rows were changed, or none, and it is not what was asked.
                let failure = Failure { class: FailureClass::NoSuchRow, code: 0 };
                return Outcome::Unknown(failure);
            }
            Expected::Rows(_) => true,
            Expected::AtMost(most) => rows <= *most,
            Expected::Entries(answer) => answer.is_right(),
        };
        match is_right {
            true => Outcome::Acknowledged,
            false => Outcome::Refused(Failure { class: FailureClass::WrongAnswer, code: 0 }),
        }
    }
}

/// A number in the order of the value.
#[inline]
fn comparable(value: ColumnValue<'_>) -> f64 {
    match value {
        ColumnValue::Integer(value) | ColumnValue::Seconds(value) => value as f64,
        ColumnValue::Real(value) => f64::from(value as f32),
        ColumnValue::Text(_) => 0.0,
    }
}

/// What the value of a column is when it is read as a number.
#[inline]
fn number_of(kind: ColumnKind, number: f64) -> ColumnValue<'static> {
    match kind {
        ColumnKind::Real => ColumnValue::Real(number),
        ColumnKind::Seconds => ColumnValue::Seconds(number as i64),
        _ => ColumnValue::Integer(number as i64),
    }
}

/// The error of a driver that has no tables of this kind.
pub fn no_tables() -> DriverError {
    DriverError::new("this driver has no tables with secondary indexes")
}

/// What clients are connected with: shared by all of them.
pub type SharedUse = Arc<TableUse>;
