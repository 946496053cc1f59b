//! MySQL's tables of a schema: the control plane, and the statements that connections prepare.

use super::{Mysql, number, strange};
use crate::driver::DriverError;
use crate::sql::{Spelling, TableSql};
use crate::tables::{OwnedValue, TableUse, Tables};
use crate::wire::mysql::Fault;
use crate::wire::mysql::control::{Control, Value};
use crate::wire::mysql::table_speech::{Execution, TableExecutions};
use dbdyno_workload::ColumnKind;
use dbdyno_workload::insert_benchmark::KeySpan;

fn sql(using: &TableUse, table: u16) -> TableSql<'_> {
    TableSql { spelling: Spelling::Mysql, using, table }
}

impl Tables for Mysql {
    fn create(&self, using: &TableUse) -> Result<(), DriverError> {
        for table in 0..using.tables {
            self.create_table(
                &TableUse::table_name(table),
                &sql(using, table).columns_with_types(),
            )?;
        }
        Ok(())
    }

    fn drop(&self, using: &TableUse) -> Result<(), DriverError> {
        for table in 0..using.tables {
            self.query(&sql(using, table).drop())?;
        }
        Ok(())
    }

    /// All of a table's in one statement, which InnoDB does in one pass; a log-structured engine does one at a time.
    fn create_indexes(&self, using: &TableUse) -> Result<(), DriverError> {
        let indexes: Vec<usize> = (0..using.schema.indexes.len()).collect();
        let together = if self.engine.eq_ignore_ascii_case("rocksdb") { 1 } else { indexes.len() };
        for table in 0..using.tables {
            for indexes in indexes.chunks(together.max(1)) {
                let sql = sql(using, table);
                let added: Vec<String> =
                    indexes.iter().map(|&index| sql.add_index(index)).collect();
                let name = TableUse::table_name(table);
                self.query(&format!("ALTER TABLE {name} {}", added.join(", ")))?;
            }
        }
        Ok(())
    }

    fn bounds(&self, using: &TableUse, table: u16) -> Result<Option<KeySpan>, DriverError> {
        let sql = sql(using, table).bounds();
        let row = self.query(&sql)?.rows.into_iter().next().ok_or_else(|| strange(&sql))?;
        let [first, last] = <[Value; 2]>::try_from(row).map_err(|_| strange(&sql))?;
        let bounds = number(&first).zip(number(&last));
        Ok(bounds.map(|(first, last)| KeySpan { first, last }))
    }

    fn count(
        &self,
        using: &TableUse,
        table: u16,
        index: Option<usize>,
    ) -> Result<u64, DriverError> {
        let which = match index {
            Some(index) => using.index_name(table, index),
            None => "PRIMARY".to_owned(),
        };
        let name = TableUse::table_name(table);
        let sql = format!("SELECT count(*) FROM {name} FORCE INDEX ({which})");
        number(&self.single(&sql)?).ok_or_else(|| strange(&sql))
    }

    fn row(
        &self,
        using: &TableUse,
        table: u16,
        key: u64,
    ) -> Result<Option<Vec<OwnedValue>>, DriverError> {
        let sql = sql(using, table).row(key, |column| match column.kind {
            // In days and seconds, so that the time zone of the session has no part in it.
            ColumnKind::Seconds => {
                format!("timestampdiff(SECOND, '1970-01-01', {})", column.name)
            }
            // As text it would have six digits only.
            ColumnKind::Real => format!("{} * 1.0e0", column.name),
            _ => column.name.to_owned(),
        });
        let Some(row) = self.query(&sql)?.rows.into_iter().next() else { return Ok(None) };
        let value = |(kind, value): (ColumnKind, Value)| {
            let bytes = value.ok_or_else(|| strange(&sql))?;
            let text = || std::str::from_utf8(&bytes).map_err(|_| strange(&sql));
            Ok(match kind {
                ColumnKind::Key | ColumnKind::Integer => {
                    OwnedValue::Integer(text()?.parse().map_err(|_| strange(&sql))?)
                }
                ColumnKind::Seconds => {
                    OwnedValue::Seconds(text()?.parse().map_err(|_| strange(&sql))?)
                }
                ColumnKind::Real => OwnedValue::Real(text()?.parse().map_err(|_| strange(&sql))?),
                ColumnKind::Text => OwnedValue::Text(bytes),
            })
        };
        let kinds = using.schema.columns[1..].iter().map(|column| column.kind);
        kinds.zip(row).map(value).collect::<Result<_, _>>().map(Some)
    }
}

/// Prepares a table's statements on a connection.
pub(super) fn prepare(
    control: &mut Control,
    using: &TableUse,
    table: u16,
    is_indexed: bool,
) -> Result<TableExecutions, Fault> {
    let (schema, sql) = (&using.schema, sql(using, table));
    let given: Vec<ColumnKind> = schema.columns[1..].iter().map(|column| column.kind).collect();
    let mut prepare = |text: &str, parameters: &[ColumnKind]| {
        Ok::<_, Fault>(Execution::new(control.prepare(text)?, parameters))
    };
    let mut all = TableExecutions {
        inserts: Vec::new(),
        delete: prepare(&sql.delete(), &[ColumnKind::Key, ColumnKind::Key])?,
        ranges: Vec::new(),
        points: None,
    };
    for &rows in &using.batches {
        all.inserts.push(prepare(&sql.insert(rows), &given.repeat(rows.into()))?);
    }
    // A query names its index, which is there only later.
    let queries = if is_indexed { schema.ranges.len() } else { 0 };
    for query in 0..queries {
        let range = &schema.ranges[query];
        let bound = &schema.indexes[range.index].columns[..range.start_bits.len()];
        let kinds: Vec<ColumnKind> =
            bound.iter().map(|&column| schema.columns[column].kind).collect();
        all.ranges.push(prepare(&sql.range(query), &kinds)?);
    }
    if let Some(text) = sql.points() {
        all.points = Some(prepare(&text, &vec![ColumnKind::Key; sql.point_count()])?);
    }
    Ok(all)
}
