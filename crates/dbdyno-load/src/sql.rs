//! SQL over tables of a schema, for servers and libraries that take it: the same statements, in three spellings.
//!
//! The statements are those of the insert benchmark's tool: multi-row inserts that leave the key to the engine, deletes
//! of the smallest keys, queries that an index covers, and queries by a list of keys.

use crate::tables::TableUse;
use dbdyno_workload::schema::TEXT_BYTES_MAX;
use dbdyno_workload::{Column, ColumnKind};
use std::fmt::Write as _;

/// Whose spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL and its forks.
    Mysql,
}

impl Spelling {
    /// A column's type.
    fn type_of(self, kind: ColumnKind) -> String {
        let word = match (self, kind) {
            (Spelling::Sqlite, ColumnKind::Key) => "INTEGER PRIMARY KEY",
            (Spelling::Postgres, ColumnKind::Key) => "bigserial PRIMARY KEY",
            (Spelling::Mysql, ColumnKind::Key) => "bigint NOT NULL AUTO_INCREMENT PRIMARY KEY",
            (Spelling::Sqlite, ColumnKind::Seconds | ColumnKind::Integer) => "INTEGER NOT NULL",
            (Spelling::Postgres, ColumnKind::Seconds) => "timestamp NOT NULL",
            (Spelling::Mysql, ColumnKind::Seconds) => "datetime NOT NULL",
            (_, ColumnKind::Integer) => "int NOT NULL",
            (Spelling::Sqlite | Spelling::Postgres, ColumnKind::Real) => "real NOT NULL",
            (Spelling::Mysql, ColumnKind::Real) => "float NOT NULL",
            (Spelling::Sqlite, ColumnKind::Text) => "TEXT NOT NULL",
            (_, ColumnKind::Text) => return format!("varchar({TEXT_BYTES_MAX}) NOT NULL"),
        };
        word.to_owned()
    }

    /// Appends the next parameter's place.
    fn place(self, sql: &mut String, number: &mut usize) {
        *number += 1;
        match self {
            // Writing to a string cannot fail.
            Spelling::Postgres => drop(write!(sql, "${number}")),
            Spelling::Sqlite | Spelling::Mysql => sql.push('?'),
        }
    }

    /// `?, ?, ?` or `$1, $2, $3`.
    fn places(self, sql: &mut String, number: &mut usize, count: usize) {
        for place in 0..count {
            if place > 0 {
                sql.push_str(", ");
            }
            self.place(sql, number);
        }
    }
}

/// The statements over one table.
#[derive(Debug, Clone, Copy)]
pub struct TableSql<'a> {
    /// Whose spelling.
    pub spelling: Spelling,
    /// The tables.
    pub using: &'a TableUse,
    /// Which of them.
    pub table: u16,
}

impl TableSql<'_> {
    fn name(&self) -> String {
        TableUse::table_name(self.table)
    }

    /// Names of columns, with commas.
    fn columns(&self, columns: &[usize]) -> String {
        let names: Vec<&str> =
            columns.iter().map(|&column| self.using.schema.columns[column].name).collect();
        names.join(", ")
    }

    /// The columns as a table is made with them.
    pub fn columns_with_types(&self) -> String {
        let columns = self.using.schema.columns.iter();
        let columns: Vec<String> = columns
            .map(|column| format!("{} {}", column.name, self.spelling.type_of(column.kind)))
            .collect();
        columns.join(", ")
    }

    /// `CREATE TABLE`.
    pub fn create(&self) -> String {
        format!("CREATE TABLE IF NOT EXISTS {} ({})", self.name(), self.columns_with_types())
    }

    /// `DROP TABLE`.
    pub fn drop(&self) -> String {
        format!("DROP TABLE IF EXISTS {}", self.name())
    }

    /// `CREATE INDEX` of one index.
    pub fn create_index(&self, index: usize) -> String {
        let columns = self.columns(self.using.schema.indexes[index].columns);
        let name = self.using.index_name(self.table, index);
        format!("CREATE INDEX {name} ON {} ({columns})", self.name())
    }

    /// What `ALTER TABLE` says to add an index.
    pub fn add_index(&self, index: usize) -> String {
        let columns = self.columns(self.using.schema.indexes[index].columns);
        format!("ADD INDEX {} ({columns})", self.using.index_name(self.table, index))
    }

    /// Inserts so many rows.
    pub fn insert(&self, rows: u16) -> String {
        let given: Vec<usize> = (1..self.using.schema.columns.len()).collect();
        let mut sql = format!("INSERT INTO {} ({}) VALUES ", self.name(), self.columns(&given));
        let mut number = 0;
        for row in 0..rows {
            sql.push_str(if row == 0 { "(" } else { ", (" });
            self.spelling.places(&mut sql, &mut number, given.len());
            sql.push(')');
        }
        sql
    }

    /// Deletes the rows with the smallest keys from a key on: the first parameter is the key, the second how many.
    pub fn delete(&self) -> String {
        let (name, key) = (self.name(), self.using.key_name());
        let (from, rows) = match self.spelling {
            Spelling::Postgres => ("$1", "$2"),
            Spelling::Sqlite | Spelling::Mysql => ("?", "?"),
        };
        let oldest = format!("{key} >= {from} ORDER BY {key} LIMIT {rows}");
        match self.spelling {
            Spelling::Mysql => format!("DELETE FROM {name} WHERE {oldest}"),
            Spelling::Sqlite | Spelling::Postgres => {
                format!(
                    "DELETE FROM {name} WHERE {key} IN (SELECT {key} FROM {name} WHERE {oldest})"
                )
            }
        }
    }

    /// A range query over its index.
    pub fn range(&self, query: usize) -> String {
        let range = &self.using.schema.ranges[query];
        let index = &self.using.schema.indexes[range.index];
        let bound = &index.columns[..range.start_bits.len()];
        let (mut places, mut number) = (String::new(), 0);
        self.spelling.places(&mut places, &mut number, bound.len());
        let compare = if range.is_strict { ">" } else { ">=" };
        let condition = match bound.len() {
            1 => format!("{} {compare} {places}", self.columns(bound)),
            _ => format!("({}) {compare} ({places})", self.columns(bound)),
        };
        let name = self.using.index_name(self.table, range.index);
        let hint = match self.spelling {
            Spelling::Mysql => format!(" FORCE INDEX ({name})"),
            Spelling::Sqlite => format!(" INDEXED BY {name}"),
            // It takes no hints; what it did is asked of its plan.
            Spelling::Postgres => String::new(),
        };
        format!(
            "SELECT {} FROM {}{hint} WHERE {condition} ORDER BY {} LIMIT {}",
            self.columns(range.columns),
            self.name(),
            self.columns(index.columns),
            self.using.range_limit
        )
    }

    /// Keys in the list of [`TableSql::points`].
    pub fn point_count(&self) -> usize {
        self.using.schema.points.map_or(0, |points| points.count.into())
    }

    /// A query by a list of keys, if the schema has one.
    pub fn points(&self) -> Option<String> {
        let points = self.using.schema.points?;
        let mut sql = format!(
            "SELECT {} FROM {} WHERE {} IN (",
            self.columns(points.columns),
            self.name(),
            self.using.key_name()
        );
        self.spelling.places(&mut sql, &mut 0, self.point_count());
        sql.push(')');
        Some(sql)
    }

    /// Smallest and largest key.
    pub fn bounds(&self) -> String {
        let key = self.using.key_name();
        // Two queries in one: SQLite looks at an end of the table only when that is all that is asked.
        format!(
            "SELECT (SELECT min({key}) FROM {name}), (SELECT max({key}) FROM {name})",
            name = self.name()
        )
    }

    /// One row, all columns but the key, each as `shown` says.
    pub fn row(&self, key: u64, shown: impl Fn(&Column) -> String) -> String {
        let columns: Vec<String> = self.using.schema.columns[1..].iter().map(shown).collect();
        let (columns, name) = (columns.join(", "), self.name());
        format!("SELECT {columns} FROM {name} WHERE {} = {key}", self.using.key_name())
    }
}
