//! What a connection says about tables of a schema: executions of prepared statements whose heads were made beforehand,
//! with values of many kinds behind them, and rows of answers in binary form.

use super::packet::{self, Fields};
use crate::tables::SharedUse;
use dbdyno_workload::insert_benchmark::Purchase;
use dbdyno_workload::{Action, ColumnKind, ColumnValue, Request, RowId};

/// Types of parameters and columns in the protocol.
const LONG: u8 = 0x03;
const FLOAT: u8 = 0x04;
const LONGLONG: u8 = 0x08;
const DATETIME: u8 = 0x0c;
const STRING: u8 = 0xfe;

const SECONDS_OF_A_DAY: i64 = 86_400;

/// A prepared statement of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// All that comes before the values: command, statement, flags, no NULLs, and the types of parameters.
    head: Box<[u8]>,
}

impl Execution {
    /// Of a statement with parameters of these kinds.
    pub fn new(statement: u32, parameters: &[ColumnKind]) -> Self {
        let mut head = vec![packet::EXECUTE];
        head.extend_from_slice(&statement.to_le_bytes());
        // No cursor; once.
        head.extend_from_slice(&[0, 1, 0, 0, 0]);
        if !parameters.is_empty() {
            head.resize(head.len() + parameters.len().div_ceil(8), 0);
            // Types follow.
            head.push(1);
            for kind in parameters {
                head.extend_from_slice(&[type_of(*kind), 0]);
            }
        }
        Execution { head: head.into() }
    }

    fn write(&self, out: &mut Vec<u8>, values: impl FnOnce(&mut Vec<u8>)) {
        packet::write_packet(out, 0, |out| {
            out.extend_from_slice(&self.head);
            values(out);
        });
    }
}

fn type_of(kind: ColumnKind) -> u8 {
    match kind {
        ColumnKind::Key => LONGLONG,
        ColumnKind::Seconds => DATETIME,
        ColumnKind::Integer => LONG,
        ColumnKind::Real => FLOAT,
        ColumnKind::Text => STRING,
    }
}

/// A table's statements on one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableExecutions {
    /// Inserts, for each number of rows that there is.
    pub inserts: Vec<Execution>,
    /// The delete of the smallest keys.
    pub delete: Execution,
    /// Range queries; none before there are indexes.
    pub ranges: Vec<Execution>,
    /// The query by a list of keys.
    pub points: Option<Execution>,
}

/// What a connection says.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSpeech {
    /// The tables.
    pub using: SharedUse,
    /// Their statements.
    pub tables: Vec<TableExecutions>,
    /// A buffer for a row.
    pub purchase: Purchase,
}

impl TableSpeech {
    /// Appends what makes a request.
    ///
    /// # Panics
    /// If the request is none that the connection was made for.
    pub fn write(&mut self, request: &Request, out: &mut Vec<u8>) {
        let TableSpeech { using, tables, purchase } = self;
        let table = &tables[usize::from(request.table)];
        let place = |rows: u16| {
            let place = using.batches.iter().position(|&batch| batch == rows);
            place.expect("a number of rows that was prepared")
        };
        match request.action {
            Action::Insert(rows) => table.inserts[place(rows)].write(out, |out| {
                for row in request.row..request.row + u64::from(rows) {
                    using.rows.write(RowId { table: request.table, row }, purchase);
                    purchase.values().into_iter().for_each(|value| append_value(out, value));
                }
            }),
            Action::Delete(rows) => table.delete.write(out, |out| {
                out.extend_from_slice(&request.row.to_le_bytes());
                out.extend_from_slice(&u64::from(rows).to_le_bytes());
            }),
            Action::Range { query, .. } => table.ranges[usize::from(query)].write(out, |out| {
                let start = using.schema.start_values(query, request.row);
                start.for_each(|value| append_value(out, value));
            }),
            Action::Points { .. } => {
                let points = table.points.as_ref().expect("a schema that is asked by key");
                points.write(out, |out| {
                    request.point_keys().for_each(|key| out.extend_from_slice(&key.to_le_bytes()));
                });
            }
            Action::Read | Action::Increment | Action::Assign(_) => {
                unreachable!("counters are asked for on other connections")
            }
        }
    }

    /// The number in a column of a row of the answer to a request, if it is one.
    pub fn value_in(&self, request: &Request, row: &[u8], column: usize) -> Option<f64> {
        let Action::Range { query, .. } = request.action else { return None };
        let schema = &self.using.schema;
        let columns = schema.ranges[usize::from(query)].columns;
        // A zero, then a bit for each column, with two to spare, that says that it is NULL.
        let mut fields = Fields(row.get(1 + (columns.len() + 2).div_ceil(8)..)?);
        for (place, &of_schema) in columns.iter().enumerate() {
            let number = number_in(schema.columns[of_schema].kind, &mut fields)?;
            if place == column {
                return Some(number);
            }
        }
        None
    }
}

/// Takes a value off a row. A text is taken for zero.
fn number_in(kind: ColumnKind, fields: &mut Fields<'_>) -> Option<f64> {
    Some(match kind {
        ColumnKind::Integer => f64::from(fields.u32()? as i32),
        ColumnKind::Real => f64::from(f32::from_bits(fields.u32()?)),
        ColumnKind::Key => i64::from_le_bytes(fields.take(8)?.try_into().ok()?) as f64,
        ColumnKind::Seconds => {
            let length = fields.u8()?;
            seconds_in(Fields(fields.take(length.into())?))? as f64
        }
        ColumnKind::Text => {
            fields.value()?;
            0.0
        }
    })
}

/// The Unix time of a date and time without fractions.
fn seconds_in(mut fields: Fields<'_>) -> Option<i64> {
    let (year, month, day) = (fields.u16()?, fields.u8()?, fields.u8()?);
    // A server leaves out what is zero.
    let mut part = || i64::from(fields.u8().unwrap_or(0));
    let (hour, minute, second) = (part(), part(), part());
    let days = days_from_civil(year.into(), month.into(), day.into());
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from 1970-01-01 in the Gregorian calendar (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", 2021).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days from 1970-01-01 (as above).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Appends a parameter in the type that its kind has.
#[inline]
fn append_value(out: &mut Vec<u8>, value: ColumnValue<'_>) {
    match value {
        ColumnValue::Integer(value) => out.extend_from_slice(&(value as i32).to_le_bytes()),
        ColumnValue::Real(value) => out.extend_from_slice(&(value as f32).to_le_bytes()),
        ColumnValue::Seconds(value) => append_seconds(out, value),
        ColumnValue::Text(text) => {
            // Longer texts than a column holds do not come.
            match text.len() {
                length @ ..0xfb => out.push(length as u8),
                length => {
                    out.push(0xfc);
                    out.extend_from_slice(&(length as u16).to_le_bytes());
                }
            }
            out.extend_from_slice(text);
        }
    }
}

fn append_seconds(out: &mut Vec<u8>, value: i64) {
    let (year, month, day) = civil_from_days(value.div_euclid(SECONDS_OF_A_DAY));
    let second = value.rem_euclid(SECONDS_OF_A_DAY);
    out.push(7);
    out.extend_from_slice(&(year as u16).to_le_bytes());
    let parts = [month, day, second / 3600, second / 60 % 60, second % 60];
    out.extend_from_slice(&parts.map(|part| part as u8));
}

#[cfg(test)]
mod tests {
    //! Shows that dates are what they are, and come back as they went out.
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |seconds: i64, bytes: [u8; 8]| {
            let mut out = Vec::new();
            append_seconds(&mut out, seconds);
            assert_eq!(out, bytes, "{seconds}");
        };
        check(0, [7, 178, 7, 1, 1, 0, 0, 0]);
        // 2023-01-01 00:00:00 and 2024-02-29 12:34:56 UTC.
        check(1_672_531_200, [7, 231, 7, 1, 1, 0, 0, 0]);
        check(1_709_210_096, [7, 232, 7, 2, 29, 12, 34, 56]);
    }

    proptest! {
        #[test]
        fn times_come_back(seconds in 0..250_000_000_000i64) {
            let mut out = Vec::new();
            append_seconds(&mut out, seconds);
            prop_assert_eq!(seconds_in(Fields(&out[1..])), Some(seconds));
        }
    }
}
