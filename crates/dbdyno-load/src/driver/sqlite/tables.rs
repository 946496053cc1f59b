//! SQLite's tables of a schema: the control plane, and a client's prepared statements over them.

use super::{Sqlite, SqliteClient, Statement, ended_badly};
use crate::driver::DriverError;
use crate::outcome::{NOT_MADE_FOR, Outcome};
use crate::sql::{Spelling, TableSql};
use crate::tables::{OwnedValue, SharedUse, TableUse, Tables};
use dbdyno_workload::insert_benchmark::{KeySpan, Purchase};
use dbdyno_workload::{Action, ColumnKind, ColumnValue, Request, RowId};
use rusqlite::{OptionalExtension, ffi};
use std::ffi::c_int;

fn sql(using: &TableUse, table: u16) -> TableSql<'_> {
    TableSql { spelling: Spelling::Sqlite, using, table }
}

impl Tables for Sqlite {
    fn create(&self, using: &TableUse) -> Result<(), DriverError> {
        let connection = self.control();
        for table in 0..using.tables {
            connection.execute_batch(&sql(using, table).create())?;
        }
        Ok(())
    }

    fn drop(&self, using: &TableUse) -> Result<(), DriverError> {
        let connection = self.control();
        for table in 0..using.tables {
            connection.execute_batch(&sql(using, table).drop())?;
        }
        Ok(())
    }

    fn create_indexes(&self, using: &TableUse) -> Result<(), DriverError> {
        let connection = self.control();
        for table in 0..using.tables {
            for index in 0..using.schema.indexes.len() {
                connection.execute_batch(&sql(using, table).create_index(index))?;
            }
        }
        Ok(())
    }

    fn bounds(&self, using: &TableUse, table: u16) -> Result<Option<KeySpan>, DriverError> {
        let bounds = self.control().query_row(&sql(using, table).bounds(), [], |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?))
        })?;
        let (first, last) = bounds;
        Ok(first.zip(last).map(|(first, last)| KeySpan { first: first as u64, last: last as u64 }))
    }

    fn count(
        &self,
        using: &TableUse,
        table: u16,
        index: Option<usize>,
    ) -> Result<u64, DriverError> {
        let name = TableUse::table_name(table);
        let which = match index {
            Some(index) => format!("INDEXED BY {}", using.index_name(table, index)),
            None => "NOT INDEXED".to_owned(),
        };
        let count: i64 = self.control().query_row(
            &format!("SELECT count(*) FROM {name} {which}"),
            [],
            |row| row.get(0),
        )?;
        Ok(count as u64)
    }

    fn row(
        &self,
        using: &TableUse,
        table: u16,
        key: u64,
    ) -> Result<Option<Vec<OwnedValue>>, DriverError> {
        let columns = &using.schema.columns[1..];
        let found = self.control().query_row(
            &sql(using, table).row(key, |column| column.name.to_owned()),
            [],
            |row| {
                let value = |(place, kind)| {
                    Ok(match kind {
                        ColumnKind::Key | ColumnKind::Integer => {
                            OwnedValue::Integer(row.get(place)?)
                        }
                        ColumnKind::Seconds => OwnedValue::Seconds(row.get(place)?),
                        ColumnKind::Real => OwnedValue::Real(row.get(place)?),
                        ColumnKind::Text => {
                            OwnedValue::Text(row.get::<_, String>(place)?.into_bytes())
                        }
                    })
                };
                columns.iter().map(|column| column.kind).enumerate().map(value).collect()
            },
        );
        Ok(found.optional()?)
    }
}

/// A client's statements over tables of a schema.
pub(super) struct TableClient {
    using: SharedUse,
    tables: Vec<TableStatements>,
    purchase: Purchase,
}

struct TableStatements {
    /// One for each of [`TableUse::batches`].
    inserts: Vec<Statement>,
    delete: Statement,
    /// None before there are indexes.
    ranges: Vec<Statement>,
    points: Option<Statement>,
}

impl TableClient {
    /// Prepares every statement on the client's connection.
    pub fn prepare(client: &mut SqliteClient, using: &SharedUse) -> Result<Self, DriverError> {
        let mut tables = Vec::new();
        for table in 0..using.tables {
            let sql = sql(using, table);
            // A query names its index, which is there only later.
            let is_indexed = client.has_index(&using.index_name(table, 0))?;
            let queries = if is_indexed { using.schema.ranges.len() } else { 0 };
            let delete = client.prepare(&sql.delete())?;
            let mut all = |texts: Vec<String>| -> Result<Vec<Statement>, DriverError> {
                texts.iter().map(|text| client.prepare(text)).collect()
            };
            tables.push(TableStatements {
                delete,
                inserts: all(using.batches.iter().map(|&rows| sql.insert(rows)).collect())?,
                ranges: all((0..queries).map(|query| sql.range(query)).collect())?,
                points: all(sql.points().into_iter().collect())?.pop(),
            });
        }
        Ok(TableClient { using: using.clone(), tables, purchase: Purchase::default() })
    }

    /// The statement for so many rows.
    fn of_batch(&self, statements: &[Statement], rows: u16) -> Option<Statement> {
        let place = self.using.batches.iter().position(|&batch| batch == rows)?;
        statements.get(place).copied()
    }

    /// Does a request over the tables; `changes` says how many rows the last statement changed.
    pub fn execute(&mut self, request: &Request, changes: impl Fn() -> u64) -> Outcome {
        let Some(statement) = self.bound(request) else { return NOT_MADE_FOR };
        let mut expected = self.using.answer_to(request);
        let mut rows = 0;
        let code = each_row(statement, |statement| {
            rows += 1;
            fetch(statement);
            // SAFETY: the statement stands on a row, which has the columns of its query.
            expected.take(|column, _| unsafe {
                Some(ffi::sqlite3_column_double(statement, column as c_int))
            });
        });
        if matches!(request.action, Action::Insert(_) | Action::Delete(_)) {
            rows = changes();
        }
        match code {
            ffi::SQLITE_DONE => expected.outcome(rows),
            code => ended_badly(code),
        }
    }

    /// The statement of a request, with its values bound.
    fn bound(&mut self, request: &Request) -> Option<Statement> {
        let table = &self.tables[usize::from(request.table)];
        match request.action {
            Action::Insert(rows) => {
                let statement = self.of_batch(&table.inserts, rows)?;
                let mut place = 0;
                for row in request.row..request.row + u64::from(rows) {
                    self.using.rows.write(RowId { table: request.table, row }, &mut self.purchase);
                    for value in self.purchase.values() {
                        place += 1;
                        bind(statement, place, value);
                    }
                }
                Some(statement)
            }
            Action::Delete(rows) => {
                bind(table.delete, 1, ColumnValue::Integer(request.row as i64));
                bind(table.delete, 2, ColumnValue::Integer(rows.into()));
                Some(table.delete)
            }
            Action::Range { query, .. } => {
                let &statement = table.ranges.get(usize::from(query))?;
                let start = self.using.schema.start_values(query, request.row);
                (1..).zip(start).for_each(|(place, value)| bind(statement, place, value));
                Some(statement)
            }
            Action::Points { .. } => {
                let statement = table.points?;
                let keys = (1..).zip(request.point_keys());
                keys.for_each(|(place, key)| {
                    bind(statement, place, ColumnValue::Integer(key as i64));
                });
                Some(statement)
            }
            Action::Read | Action::Increment | Action::Assign(_) => None,
        }
    }
}

/// Reads every column of the row that a statement stands on, as a client would.
fn fetch(statement: Statement) {
    // SAFETY: the statement stands on a row, and only columns that it has are read.
    unsafe {
        for column in 0..ffi::sqlite3_data_count(statement) {
            if ffi::sqlite3_column_type(statement, column) == ffi::SQLITE_TEXT {
                std::hint::black_box(ffi::sqlite3_column_text(statement, column));
            } else {
                std::hint::black_box(ffi::sqlite3_column_double(statement, column));
            }
        }
    }
}

/// Runs a statement to its end and resets it. Returns how it ended.
fn each_row(statement: Statement, mut row: impl FnMut(Statement)) -> c_int {
    loop {
        // SAFETY: the statement belongs to the client's connection and all its parameters are bound.
        let code = unsafe { ffi::sqlite3_step(statement) };
        if code != ffi::SQLITE_ROW {
            // SAFETY: as above. What it returns is what the step returned.
            unsafe { ffi::sqlite3_reset(statement) };
            return code;
        }
        row(statement);
    }
}

fn bind(statement: Statement, place: c_int, value: ColumnValue<'_>) {
    match value {
        // SAFETY: the statement belongs to the client's connection, is reset, and has this parameter.
        ColumnValue::Integer(value) | ColumnValue::Seconds(value) => unsafe {
            ffi::sqlite3_bind_int64(statement, place, value);
        },
        // SAFETY: as above.
        ColumnValue::Real(value) => unsafe {
            ffi::sqlite3_bind_double(statement, place, value);
        },
        // SAFETY: as above; the library copies the text, which is used for the next row at once.
        ColumnValue::Text(text) => unsafe {
            let bytes = text.as_ptr().cast();
            let copied = ffi::SQLITE_TRANSIENT();
            ffi::sqlite3_bind_text(statement, place, bytes, text.len() as c_int, copied);
        },
    }
}
