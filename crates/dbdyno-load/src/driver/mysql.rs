//! MySQL and MariaDB over the wire: any server of the family that listens on a socket.
//!
//! Tables, loading and reading back go through one connection with statements as text; clients are
//! [`Connection`]s with a [`MysqlSession`]. The storage engine is a setting; how the server is started, made durable
//! and settled is its engine file's business.

mod tables;

use super::{Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use crate::server::{ClientOptions, MARKER, Server, Statements, not_ours};
use crate::tables::{SharedUse, Tables};
use crate::wire::connection::{Connection, Open};
use crate::wire::mysql::Fault;
use crate::wire::mysql::control::{Answer, Control, Value};
use crate::wire::mysql::session::{MysqlSession, Speech, TableStatements};
use crate::wire::mysql::table_speech::TableSpeech;
use crate::wire::stream::Stream;
use dbdyno_workload::RowId;
use dbdyno_workload::insert_benchmark::Purchase;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows in one insert statement.
const INSERT_ROWS: usize = 500;
/// Bytes in one insert statement: old servers take 1 MiB.
const INSERT_BYTES: usize = 900_000;
/// Updates that are sent together while rows are aged: few enough for every socket's buffer.
const AGED_TOGETHER: usize = 100;
/// `ER_DB_CREATE_EXISTS`.
const DATABASE_EXISTS: u16 = 1007;
/// The longest filler that is kept in a column with a short length; longer ones are blobs.
const SHORT_FILLER: usize = 8000;

/// A server, seen from its clients.
pub struct Mysql {
    server: Server,
    client: ClientOptions,
    engine: String,
    control: Mutex<Control>,
}

/// The setting `table_engine`, which goes into statements as it is.
fn table_engine(options: &OpenOptions) -> Result<String, DriverError> {
    let engine = options.settings.get("table_engine").map_or("innodb", String::as_str);
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if engine.is_empty() || !engine.chars().all(is_word) {
        return Err(DriverError::new(format!(
            "mysql: table_engine must be the name of a storage engine, not \"{engine}\""
        )));
    }
    Ok(engine.to_owned())
}

/// Logs in to the database.
fn open_control(server: &Server) -> Result<Control, Fault> {
    let mut control = Control::open(server, true)?;
    // Loading and adding up are slow.
    control.wait_without_limit()?;
    // Values that do not fit are errors, not cut; a backslash has its meaning; a commit is said.
    control.query(b"SET sql_mode = 'STRICT_ALL_TABLES', autocommit = 1")?;
    Ok(control)
}

/// The server that the options name.
fn server_of(options: &OpenOptions) -> Result<Server, DriverError> {
    let missing =
        || DriverError::new("mysql: no server is given: say in the engine file where it listens");
    options.server.clone().ok_or_else(missing)
}

/// Whether the database that a connection is in was made by dbdyno.
fn is_ours(control: &mut Control) -> Result<bool, Fault> {
    let tables = control.query(b"SHOW TABLES")?.rows;
    Ok(tables.iter().flatten().any(|name| name.as_deref() == Some(MARKER.as_bytes())))
}

/// Says in the database, which was made just now, who made it.
fn mark(server: &Server) -> Result<(), Fault> {
    let mut control = open_control(server)?;
    let table = format!("CREATE TABLE {MARKER} (dataset varchar(2000) NOT NULL)");
    control.query(table.as_bytes())?;
    let row = format!("INSERT INTO {MARKER} VALUES ('')");
    control.query(row.as_bytes()).map(|_| ())
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn strange(what: &str) -> DriverError {
    DriverError::new(format!("mysql: the server answered {what} with something else"))
}

/// The number in a value.
fn number(value: &Value) -> Option<u64> {
    std::str::from_utf8(value.as_deref()?).ok()?.parse().ok()
}

/// A decimal number of any length, modulo 2^64, which is how sums of counters wrap.
fn number_wrapping(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(sum.wrapping_mul(10).wrapping_add(digit))
    })
}

/// Appends a value as a literal between quotes.
fn write_literal(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'\'');
    for &byte in value {
        if byte == b'\'' || byte == b'\\' {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
}

impl Mysql {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn query(&self, statement: &str) -> Result<Answer, DriverError> {
        Ok(self.control().query(statement.as_bytes())?)
    }

    /// The only value that a statement answers.
    fn single(&self, statement: &str) -> Result<Value, DriverError> {
        let answer = self.query(statement)?;
        let value = answer.rows.into_iter().next().and_then(|row| row.into_iter().next());
        value.ok_or_else(|| strange(statement))
    }

    fn create_table(&self, name: &str, columns: &str) -> Result<(), DriverError> {
        let engine = &self.engine;
        self.query(&format!(
            "CREATE TABLE IF NOT EXISTS {name} ({columns}) ENGINE = {engine} CHARACTER SET binary"
        ))?;
        // Old servers take another engine where they do not have the one that is asked for, and only warn.
        let used = self.single(&format!(
            "SELECT ENGINE FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{name}'"
        ))?;
        let used = used.map(|used| String::from_utf8_lossy(&used).into_owned()).unwrap_or_default();
        if !used.eq_ignore_ascii_case(engine) {
            return Err(DriverError::new(format!(
                "mysql: the table {name} is in the storage engine {used}, not {engine}: the server \
                 does not have {engine}, or the table is from before"
            )));
        }
        Ok(())
    }

    /// Runs `body` in one transaction, which is undone if it fails.
    fn in_transaction(
        &self,
        body: impl FnOnce(&mut Control) -> Result<(), Fault>,
    ) -> Result<(), DriverError> {
        let mut control = self.control();
        control.query(b"BEGIN")?;
        match body(&mut control) {
            Ok(()) => Ok(control.query(b"COMMIT").map(|_| ())?),
            Err(fault) => {
                // If this fails too, the connection is gone, and the transaction with it.
                let _ = control.query(b"ROLLBACK");
                Err(fault.into())
            }
        }
    }
}

impl Driver for Mysql {
    type Client = Connection<MysqlSession>;

    fn create_database(options: &OpenOptions) -> Result<(), DriverError> {
        let server = server_of(options)?;
        let database = quoted(&server.database);
        let mut control = Control::open(&server, false)?;
        match control.query(format!("CREATE DATABASE {database}").as_bytes()) {
            Err(fault) if fault.code == DATABASE_EXISTS => {
                let is_ours = is_ours(&mut open_control(&server)?)?;
                return if is_ours { Ok(()) } else { Err(not_ours(&server)) };
            }
            made => made?,
        };
        mark(&server).map_err(|fault| {
            // Without its mark nobody could tell later whose it is. The first fault says what is wrong.
            let _ = control.query(format!("DROP DATABASE {database}").as_bytes());
            fault.into()
        })
    }

    fn drop_database(options: &OpenOptions) -> Result<(), DriverError> {
        let server = server_of(options)?;
        let mut control = open_control(&server)?;
        if !is_ours(&mut control)? {
            return Err(not_ours(&server));
        }
        let drop = format!("DROP DATABASE {}", quoted(&server.database));
        Ok(control.query(drop.as_bytes()).map(|_| ())?)
    }

    fn noted_dataset(&self) -> Result<Option<String>, DriverError> {
        let noted = self.single(&format!("SELECT dataset FROM {MARKER}"))?;
        let noted = noted.map(|noted| String::from_utf8_lossy(&noted).into_owned());
        Ok(noted.filter(|dataset| !dataset.is_empty()))
    }

    fn note_dataset(&self, fingerprint: &str) -> Result<(), DriverError> {
        let mut update = format!("UPDATE {MARKER} SET dataset = ").into_bytes();
        write_literal(&mut update, fingerprint.as_bytes());
        self.control().query(&update)?;
        Ok(())
    }

    fn statement(&self, text: &str) -> Result<Option<u64>, DriverError> {
        let answer = self.query(text)?;
        let last = answer.rows.into_iter().next().and_then(|row| row.into_iter().next_back());
        Ok(last.and_then(|value| number(&value)))
    }

    fn open(options: &OpenOptions) -> Result<Self, DriverError> {
        let server = server_of(options)?;
        let engine = table_engine(options)?;
        let control = Mutex::new(open_control(&server)?);
        let driver = Mysql { server, client: options.client, engine, control };
        driver.create_table(
            "dbdyno",
            "name varbinary(16) NOT NULL PRIMARY KEY, value bigint unsigned NOT NULL",
        )?;
        Ok(driver)
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        let text = |value: Value| match value {
            Some(value) => String::from_utf8_lossy(&value).into_owned(),
            None => String::new(),
        };
        let version = text(self.single(&self.server.version_query)?);
        let mut settings = BTreeMap::new();
        for row in self.query(&self.server.settings_query)?.rows {
            let [name, value] = <[Value; 2]>::try_from(row).map_err(|row| {
                let columns = row.len();
                DriverError::new(format!(
                    "mysql: settings_query must answer two columns, name and value, not {columns}"
                ))
            })?;
            settings.insert(text(name), text(value));
        }
        Ok(Receipt { version, settings })
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        for table in 1..=tables {
            self.create_table(
                &format!("t{table}"),
                &format!(
                    "id bigint NOT NULL PRIMARY KEY, counter bigint unsigned NOT NULL, \
                     filler varbinary({SHORT_FILLER}) NOT NULL"
                ),
            )?;
        }
        Ok(())
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        let sql = format!("SELECT max(id) FROM t{}", u32::from(table) + 1);
        match self.single(&sql)? {
            None => Ok(None),
            last => number(&last).map(Some).ok_or_else(|| strange(&sql)),
        }
    }

    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        let name = format!("t{}", u32::from(table) + 1);
        let mut filler = Vec::new();
        fill(RowId { table, row: *rows.start() }, &mut filler);
        if filler.len() > SHORT_FILLER {
            self.query(&format!("ALTER TABLE {name} MODIFY filler mediumblob NOT NULL"))?;
        }
        let begin = format!("INSERT INTO {name} (id, counter, filler) VALUES ");
        self.in_transaction(|control| {
            let mut statement = begin.clone().into_bytes();
            let mut in_statement = 0;
            for row in rows {
                fill(RowId { table, row }, &mut filler);
                // A literal is at most twice as long as its value, and a key has at most 20 digits.
                let is_full = statement.len() + 2 * filler.len() + 40 > INSERT_BYTES;
                if in_statement == INSERT_ROWS || (in_statement > 0 && is_full) {
                    control.query(&statement)?;
                    statement.truncate(begin.len());
                    in_statement = 0;
                }
                let comma = if in_statement > 0 { "," } else { "" };
                statement.extend_from_slice(format!("{comma}({row},0,").as_bytes());
                write_literal(&mut statement, &filler);
                statement.push(b')');
                in_statement += 1;
            }
            if in_statement > 0 {
                control.query(&statement)?;
            }
            Ok(())
        })
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        self.in_transaction(|control| {
            for rows in rows.chunks(AGED_TOGETHER) {
                let update = |&RowId { table, row }: &RowId| {
                    let table = u32::from(table) + 1;
                    format!("UPDATE t{table} SET counter = counter + 1 WHERE id = {row}")
                };
                let updates: Vec<String> = rows.iter().map(update).collect();
                let matched = control.query_all(&updates)?;
                if let Some(missing) = matched.iter().position(|&matched| matched != 1) {
                    let RowId { table, row } = rows[missing];
                    let message = format!("row {row} of table {table} is not there to be aged");
                    return Err(Fault::new(message));
                }
            }
            let note = format!(
                "INSERT INTO dbdyno (name, value) VALUES ('aged', {progress}) \
                 ON DUPLICATE KEY UPDATE value = {progress}"
            );
            control.query(note.as_bytes()).map(|_| ())
        })
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        let sql = "SELECT max(value) FROM dbdyno WHERE name = 'aged'";
        match self.single(sql)? {
            None => Ok(0),
            value => number(&value).ok_or_else(|| strange(sql)),
        }
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        let table = u32::from(table) + 1;
        let sql = format!("SELECT counter, filler FROM t{table} WHERE id = {row}");
        let Some(values) = self.query(&sql)?.rows.into_iter().next() else { return Ok(None) };
        let [counter, filler] = <[Value; 2]>::try_from(values).map_err(|_| strange(&sql))?;
        let (Some(counter), Some(filler)) = (number(&counter), filler) else {
            return Err(strange(&sql));
        };
        Ok(Some(Row { counter, filler }))
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        // The server's sum is a decimal number that does not wrap.
        let sql = format!("SELECT sum(counter) FROM t{}", u32::from(table) + 1);
        match self.single(&sql)? {
            None => Ok(0),
            Some(digits) => number_wrapping(&digits).ok_or_else(|| strange(&sql)),
        }
    }

    fn settle(&self) -> Result<(), DriverError> {
        // Bringing everything to disk is done by stopping the server, as its engine file says; here it only has to
        // answer that it is still well.
        self.query("SELECT 1").map(|_| ())
    }

    fn connect(&self, tables: u16) -> Result<Self::Client, DriverError> {
        let tables = Subject::Counters(tables);
        let opener = Opener { server: self.server.clone(), client: self.client, tables };
        Connection::open(Arc::new(opener), &self.client)
    }

    fn tables(&self) -> Option<&dyn Tables> {
        Some(self)
    }

    fn connect_to(&self, using: &SharedUse) -> Result<Self::Client, DriverError> {
        let index = using.index_name(0, 0);
        let indexes = format!(
            "SELECT count(*) FROM information_schema.STATISTICS \
             WHERE TABLE_SCHEMA = DATABASE() AND INDEX_NAME = '{index}'"
        );
        let is_indexed = number(&self.single(&indexes)?).is_some_and(|count| count > 0);
        let tables = Subject::OfSchema { using: using.clone(), is_indexed };
        let opener = Opener { server: self.server.clone(), client: self.client, tables };
        Connection::open(Arc::new(opener), &self.client)
    }

    fn threads(&self, clients: u32) -> u32 {
        self.client.threads_for(clients)
    }
}

/// Opens the connections of clients.
struct Opener {
    server: Server,
    client: ClientOptions,
    tables: Subject,
}

/// What a connection is about.
enum Subject {
    /// So many tables of counters.
    Counters(u16),
    /// Tables of a schema.
    OfSchema { using: SharedUse, is_indexed: bool },
}

impl Opener {
    fn prepare(&self, control: &mut Control) -> Result<Speech, Fault> {
        let tables = match &self.tables {
            Subject::OfSchema { using, is_indexed } => {
                let prepare = |table| tables::prepare(control, using, table, *is_indexed);
                let tables = (0..using.tables).map(prepare).collect::<Result<_, _>>()?;
                let (using, purchase) = (using.clone(), Purchase::default());
                return Ok(Speech::OfSchema(TableSpeech { using, tables, purchase }));
            }
            Subject::Counters(tables) => *tables,
        };
        if self.client.statements == Statements::Text {
            return Ok(Speech::Text);
        }
        let mut prepared = Vec::with_capacity(usize::from(tables));
        for table in 1..=tables {
            let mut prepare =
                |text: &str| control.prepare(&text.replace("TABLE", &format!("t{table}")));
            prepared.push(TableStatements {
                read: prepare("SELECT counter, filler FROM TABLE WHERE id = ?")?,
                increment: prepare("UPDATE TABLE SET counter = counter + 1 WHERE id = ?")?,
                assign: prepare("UPDATE TABLE SET counter = ? WHERE id = ?")?,
            });
        }
        Ok(Speech::Prepared(prepared))
    }
}

impl Open<MysqlSession> for Opener {
    fn open(&self) -> Result<(Stream, MysqlSession), DriverError> {
        let mut control = Control::open(&self.server, true)?;
        control.query(b"SET autocommit = 1")?;
        let speech = self.prepare(&mut control)?;
        let session = MysqlSession::new(speech, self.client.transaction, self.client.pipeline);
        Ok((control.into_stream(), session))
    }
}
