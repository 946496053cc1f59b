//! PostgreSQL's tables of a schema: the control plane, and what connections say about them.
//!
//! Each statement is prepared under a name of its own; a request is a bind whose head was made beforehand and whose
//! values are written behind it, an execute and a sync.

use super::message::{append, append_text};
use super::{Postgres, number};
use crate::driver::DriverError;
use crate::sql::{Spelling, TableSql};
use crate::tables::{Expected, OwnedValue, SharedUse, TableUse, Tables};
use dbdyno_workload::insert_benchmark::{KeySpan, Purchase};
use dbdyno_workload::{Action, ColumnKind, ColumnValue, Request, RowId};

/// Seconds from the Unix epoch to 2000-01-01, from which the server counts microseconds.
const EPOCH_2000: i64 = 946_684_800;
const MICROSECONDS: i64 = 1_000_000;

fn sql(using: &TableUse, table: u16) -> TableSql<'_> {
    TableSql { spelling: Spelling::Postgres, using, table }
}

/// The server's number of a column's type (`pg_type.oid`): parameters of rows in a list are not inferred by old versions.
fn type_of(kind: ColumnKind) -> u32 {
    match kind {
        ColumnKind::Key => 20,
        ColumnKind::Integer => 23,
        ColumnKind::Seconds => 1114,
        ColumnKind::Real => 700,
        ColumnKind::Text => 25,
    }
}

impl Tables for Postgres {
    fn create(&self, using: &TableUse) -> Result<(), DriverError> {
        for table in 0..using.tables {
            self.control()?.query(&sql(using, table).create())?;
            // As in the published schema: a sequence without a cache, whose numbers have no gaps.
            let name = TableUse::table_name(table);
            let sequence = format!("ALTER SEQUENCE {name}_{}_seq CACHE 1", using.key_name());
            self.control()?.query(&sequence)?;
        }
        Ok(())
    }

    fn drop(&self, using: &TableUse) -> Result<(), DriverError> {
        for table in 0..using.tables {
            self.control()?.query(&sql(using, table).drop())?;
        }
        Ok(())
    }

    fn create_indexes(&self, using: &TableUse) -> Result<(), DriverError> {
        for table in 0..using.tables {
            for index in 0..using.schema.indexes.len() {
                self.control()?.query(&sql(using, table).create_index(index))?;
            }
        }
        Ok(())
    }

    fn bounds(&self, using: &TableUse, table: u16) -> Result<Option<KeySpan>, DriverError> {
        let rows = self.control()?.query(&sql(using, table).bounds())?;
        match rows.first().map(Vec::as_slice) {
            Some([Some(first), Some(last)]) => {
                Ok(Some(KeySpan { first: number(first)?, last: number(last)? }))
            }
            _ => Ok(None),
        }
    }

    fn count(
        &self,
        using: &TableUse,
        table: u16,
        index: Option<usize>,
    ) -> Result<u64, DriverError> {
        let name = TableUse::table_name(table);
        let from = match index {
            None => name,
            Some(index) => {
                let columns = using.schema.indexes[index].columns;
                let columns: Vec<&str> =
                    columns.iter().map(|&column| using.schema.columns[column].name).collect();
                let columns = columns.join(", ");
                format!("(SELECT 1 FROM {name} ORDER BY {columns}) AS ordered")
            }
        };
        // In the order of an index and without sorting or going through the table, only the index is left to read.
        let way = if index.is_some() { "off" } else { "on" };
        let rows = self.control()?.query(&format!(
            "BEGIN; SET LOCAL enable_sort = {way}; SET LOCAL enable_seqscan = {way}; \
             SELECT count(*) FROM {from}; COMMIT"
        ))?;
        let count = rows.first().and_then(|row| row.first()).and_then(Option::as_ref);
        let none = || DriverError::new(format!("postgres: no count of {from}"));
        number(count.ok_or_else(none)?)
    }

    fn row(
        &self,
        using: &TableUse,
        table: u16,
        key: u64,
    ) -> Result<Option<Vec<OwnedValue>>, DriverError> {
        let sql = sql(using, table).row(key, |column| match column.kind {
            ColumnKind::Seconds => format!("extract(epoch FROM {})::bigint", column.name),
            _ => column.name.to_owned(),
        });
        let rows = self.control()?.query(&sql)?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        let value = |(column, text): (ColumnKind, Option<String>)| {
            let text = text.unwrap_or_default();
            let strange = || DriverError::new(format!("postgres: \"{text}\" is no number"));
            Ok(match column {
                ColumnKind::Key | ColumnKind::Integer => {
                    OwnedValue::Integer(text.parse().map_err(|_| strange())?)
                }
                ColumnKind::Seconds => OwnedValue::Seconds(text.parse().map_err(|_| strange())?),
                ColumnKind::Real => OwnedValue::Real(text.parse().map_err(|_| strange())?),
                ColumnKind::Text => OwnedValue::Text(text.into_bytes()),
            })
        };
        let kinds = using.schema.columns[1..].iter().map(|column| column.kind);
        kinds.zip(row).map(value).collect::<Result<_, _>>().map(Some)
    }
}

/// A statement's bind up to its values, without kind and length.
type Head = Box<[u8]>;

/// What connections say about tables of a schema, made once for all of them.
pub(super) struct TablePhrases {
    using: SharedUse,
    tables: Vec<TableHeads>,
}

struct TableHeads {
    /// One for each of [`TableUse::batches`].
    inserts: Vec<Head>,
    delete: Head,
    /// None before there are indexes.
    ranges: Vec<Head>,
    points: Option<Head>,
}

/// A statement as it is prepared.
pub(super) struct Prepared {
    /// The name that it gets.
    pub name: String,
    /// Its text.
    pub sql: String,
    /// Types of its parameters.
    pub types: Vec<u32>,
}

impl Prepared {
    fn head(&self) -> Head {
        let mut head = Vec::new();
        append_text(&mut head, "");
        append_text(&mut head, &self.name);
        // All parameters are binary.
        head.extend_from_slice(&[0, 1, 0, 1]);
        head.extend_from_slice(&(self.types.len() as u16).to_be_bytes());
        head.into()
    }
}

/// Every statement over a table.
struct Statements {
    inserts: Vec<Prepared>,
    delete: Prepared,
    ranges: Vec<Prepared>,
    points: Option<Prepared>,
}

fn statements(using: &TableUse, table: u16, is_indexed: bool) -> Statements {
    let (schema, sql) = (&using.schema, sql(using, table));
    let given: Vec<u32> = schema.columns[1..].iter().map(|column| type_of(column.kind)).collect();
    let prepared = |kind: char, number: usize, sql: String, types: Vec<u32>| Prepared {
        name: format!("{kind}{table}_{number}"),
        sql,
        types,
    };
    let key = type_of(ColumnKind::Key);
    let batches = || using.batches.iter().copied().enumerate();
    let queries = if is_indexed { schema.ranges.len() } else { 0 };
    let range = |query: usize| {
        let range = &schema.ranges[query];
        let bound = &schema.indexes[range.index].columns[..range.start_bits.len()];
        let types = bound.iter().map(|&column| type_of(schema.columns[column].kind)).collect();
        prepared('r', query, sql.range(query), types)
    };
    Statements {
        inserts: batches()
            .map(|(at, rows)| prepared('i', at, sql.insert(rows), given.repeat(rows.into())))
            .collect(),
        delete: prepared('d', 0, sql.delete(), vec![key, key]),
        ranges: (0..queries).map(range).collect(),
        points: sql.points().map(|text| prepared('p', 0, text, vec![key; sql.point_count()])),
    }
}

impl TablePhrases {
    /// For all connections to these tables.
    pub fn new(using: &SharedUse, is_indexed: bool) -> Self {
        let heads = |table| {
            let of = statements(using, table, is_indexed);
            let heads = |all: &[Prepared]| all.iter().map(Prepared::head).collect();
            TableHeads {
                inserts: heads(&of.inserts),
                delete: of.delete.head(),
                ranges: heads(&of.ranges),
                points: of.points.as_ref().map(Prepared::head),
            }
        };
        TablePhrases { using: using.clone(), tables: (0..using.tables).map(heads).collect() }
    }

    /// What the answer to a request must be.
    pub fn answer_to(&self, request: &Request) -> Expected {
        self.using.answer_to(request)
    }

    /// Everything that a connection prepares.
    pub fn to_prepare(&self) -> Vec<Prepared> {
        let is_indexed = self.tables.iter().any(|table| !table.ranges.is_empty());
        let all = (0..self.using.tables).flat_map(|table| {
            let of = statements(&self.using, table, is_indexed);
            of.inserts.into_iter().chain([of.delete]).chain(of.ranges).chain(of.points)
        });
        all.collect()
    }

    /// Appends what makes a request. `purchase` is a buffer.
    ///
    /// # Panics
    /// If the request is none that the connection was made for.
    pub fn append(&self, request: &Request, purchase: &mut Purchase, out: &mut Vec<u8>) {
        let table = &self.tables[usize::from(request.table)];
        match request.action {
            Action::Insert(rows) => self.bind(self.batch(&table.inserts, rows), out, |out| {
                for row in request.row..request.row + u64::from(rows) {
                    self.using.rows.write(RowId { table: request.table, row }, purchase);
                    purchase.values().into_iter().for_each(|value| append_value(out, value));
                }
            }),
            Action::Delete(rows) => self.bind(&table.delete, out, |out| {
                append_key(out, request.row);
                append_key(out, rows.into());
            }),
            Action::Range { query, .. } => {
                let head = &table.ranges[usize::from(query)];
                self.bind(head, out, |out| {
                    let start = self.using.schema.start_values(query, request.row);
                    start.for_each(|value| append_value(out, value));
                });
            }
            Action::Points { .. } => {
                let head = table.points.as_ref().expect("a schema that is asked by key");
                self.bind(head, out, |out| {
                    request.point_keys().for_each(|key| append_key(out, key));
                });
            }
            Action::Read | Action::Increment | Action::Assign(_) => {
                unreachable!("counters are asked for on other connections")
            }
        }
    }

    fn batch<'a>(&self, heads: &'a [Head], rows: u16) -> &'a Head {
        let place = self.using.batches.iter().position(|&batch| batch == rows);
        &heads[place.expect("a number of rows that was prepared")]
    }

    fn bind(&self, head: &Head, out: &mut Vec<u8>, values: impl FnOnce(&mut Vec<u8>)) {
        append(out, b'B', |out| {
            out.extend_from_slice(head);
            values(out);
            // All results are binary.
            out.extend_from_slice(&[0, 1, 0, 1]);
        });
        append(out, b'E', |out| out.extend_from_slice(&[0; 5]));
        append(out, b'S', |_| ());
    }
}

/// The value of a column in a row of an answer, as a number, if it is one.
pub(super) fn value_in(row: &[u8], column: usize, kind: ColumnKind) -> Option<f64> {
    number_in(kind, column_of(row, column)?)
}

/// The value of a column in a row of an answer.
fn column_of(row: &[u8], column: usize) -> Option<&[u8]> {
    let mut rest = row.get(2..)?;
    for place in 0.. {
        let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let value = rest.get(4..4 + length)?;
        if place == column {
            return Some(value);
        }
        rest = &rest[4 + length..];
    }
    None
}

/// The number in a binary value.
fn number_in(kind: ColumnKind, value: &[u8]) -> Option<f64> {
    Some(match kind {
        ColumnKind::Integer => f64::from(i32::from_be_bytes(value.try_into().ok()?)),
        ColumnKind::Real => f64::from(f32::from_be_bytes(value.try_into().ok()?)),
        ColumnKind::Key => i64::from_be_bytes(value.try_into().ok()?) as f64,
        ColumnKind::Seconds => {
            let microseconds = i64::from_be_bytes(value.try_into().ok()?);
            (microseconds / MICROSECONDS + EPOCH_2000) as f64
        }
        ColumnKind::Text => return None,
    })
}

fn append_key(out: &mut Vec<u8>, key: u64) {
    out.extend_from_slice(&8u32.to_be_bytes());
    out.extend_from_slice(&key.to_be_bytes());
}

/// Appends a parameter: its length, and its value in the type that was prepared.
#[inline]
fn append_value(out: &mut Vec<u8>, value: ColumnValue<'_>) {
    match value {
        ColumnValue::Integer(value) => {
            out.extend_from_slice(&4u32.to_be_bytes());
            out.extend_from_slice(&(value as i32).to_be_bytes());
        }
        ColumnValue::Real(value) => {
            out.extend_from_slice(&4u32.to_be_bytes());
            out.extend_from_slice(&(value as f32).to_be_bytes());
        }
        ColumnValue::Seconds(value) => {
            out.extend_from_slice(&8u32.to_be_bytes());
            out.extend_from_slice(&((value - EPOCH_2000) * MICROSECONDS).to_be_bytes());
        }
        ColumnValue::Text(text) => {
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text);
        }
    }
}
