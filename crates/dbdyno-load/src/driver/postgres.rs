//! PostgreSQL, over its own protocol: a table per table of the dataset, in the database that the login names.
//!
//! The control plane uses simple queries and bulk copies over one blocking connection; clients prepare their
//! statements once and are kept busy by the event loop. Counters are unsigned here and signed in the tables.

mod control;
mod login;
mod message;
mod session;
mod tables;

use super::{Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use crate::server::{ClientOptions, MARKER, Server, Statements, not_ours};
use crate::tables::{SharedUse, Tables};
use crate::wire::connection::{Connection, Open};
use crate::wire::stream::Stream;
use control::Conversation;
use dbdyno_workload::RowId;
use message::{append, append_text};
use session::{Phrases, PostgresSession, STATEMENTS, sql, statement_name};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tables::{Prepared, TablePhrases};

/// Updates that aging sends in one message.
const AGE_BATCH: usize = 500;

/// How often the control plane tries to log in again after it lost its connection, and how long it waits in between.
const RECOVERY_ATTEMPTS: u32 = 300;
const RECOVERY_PAUSE: Duration = Duration::from_millis(100);

/// A server's database.
pub struct Postgres {
    server: Server,
    client: ClientOptions,
    control: Mutex<Conversation>,
    /// What all connections to the same number of tables have in common.
    opener: Mutex<Option<Arc<Opener>>>,
}

impl Postgres {
    /// The control connection, opened again if the server has closed it since it was used last.
    fn control(&self) -> Result<MutexGuard<'_, Conversation>, DriverError> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        if control.is_stale() {
            // A server that has just crashed first recovers and lets nobody in until then.
            let mut attempts_left = RECOVERY_ATTEMPTS;
            *control = loop {
                match login::log_in(&self.server) {
                    Err(_) if attempts_left > 0 => {
                        attempts_left -= 1;
                        std::thread::sleep(RECOVERY_PAUSE);
                    }
                    opened => break opened?,
                }
            };
        }
        Ok(control)
    }

    /// The first value of the first row.
    fn value(&self, sql: &str) -> Result<Option<String>, DriverError> {
        Ok(first_value(self.control()?.query(sql)?))
    }
}

/// How data connections are opened.
struct Opener {
    server: Server,
    client: ClientOptions,
    tables: u16,
    phrases: Arc<Phrases>,
}

impl Open<PostgresSession> for Opener {
    fn open(&self) -> Result<(Stream, PostgresSession), DriverError> {
        let mut conversation = login::log_in(&self.server)?;
        match self.phrases.tables_of_schema() {
            Some(phrases) => prepare_all(&mut conversation, &phrases.to_prepare())?,
            None if self.client.statements == Statements::Prepared => {
                prepare_all(&mut conversation, &counter_statements(self.tables))?;
            }
            None => {}
        }
        let session = PostgresSession::new(self.phrases.clone(), self.client.pipeline);
        Ok((conversation.into_stream(), session))
    }
}

/// The statements over tables of counters. Types of parameters are left to the server: they are those of the columns.
fn counter_statements(tables: u16) -> Vec<Prepared> {
    let of_table = |table| {
        (0..STATEMENTS.len()).map(move |statement| Prepared {
            name: statement_name(table, statement),
            sql: sql(table, statement),
            types: Vec::new(),
        })
    };
    (0..tables).flat_map(of_table).collect()
}

/// Prepares statements, in one round trip.
fn prepare_all(
    conversation: &mut Conversation,
    statements: &[Prepared],
) -> Result<(), DriverError> {
    let mut message = Vec::new();
    for Prepared { name, sql, types } in statements {
        append(&mut message, b'P', |out| {
            append_text(out, name);
            append_text(out, sql);
            out.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        });
    }
    append(&mut message, b'S', |_| ());
    conversation.send(&message)?;
    conversation.until_ready("prepare statements", |_, _| ())
}

/// The database that every server has and that logins begin in when another is to be made or dropped.
const MAINTENANCE_DATABASE: &str = "postgres";

/// The server that the options name.
fn server_of(options: &OpenOptions) -> Result<Server, DriverError> {
    let missing = || DriverError::new("postgres: no server is given to connect to");
    options.server.clone().ok_or_else(missing)
}

/// The first value of a query's first row.
fn first_value(rows: Vec<control::TextRow>) -> Option<String> {
    rows.into_iter().next()?.into_iter().next()?
}

/// Whether the database that a conversation is in was made by dbdyno.
fn is_ours(conversation: &mut Conversation) -> Result<bool, DriverError> {
    let tables = format!(
        "SELECT count(*) FROM pg_tables WHERE tablename = '{MARKER}' \
         AND schemaname NOT IN ('pg_catalog', 'information_schema')"
    );
    Ok(first_value(conversation.query(&tables)?).is_some_and(|count| count != "0"))
}

/// Says in the database, which was made just now, who made it.
fn mark(server: &Server) -> Result<(), DriverError> {
    let table = format!("CREATE TABLE {MARKER} (dataset text NOT NULL)");
    let row = format!("INSERT INTO {MARKER} VALUES ('')");
    login::log_in(server)?.query(&format!("{table}; {row}")).map(|_| ())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Driver for Postgres {
    type Client = Connection<PostgresSession>;

    fn create_database(options: &OpenOptions) -> Result<(), DriverError> {
        let server = server_of(options)?;
        let elsewhere = Server { database: MAINTENANCE_DATABASE.to_owned(), ..server.clone() };
        let mut conversation = login::log_in(&elsewhere)?;
        let name = server.database.replace('\'', "''");
        let exists = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
        if first_value(conversation.query(&exists)?).as_deref() != Some("0") {
            return if is_ours(&mut login::log_in(&server)?)? {
                Ok(())
            } else {
                Err(not_ours(&server))
            };
        }
        let database = quoted(&server.database);
        conversation.query(&format!("CREATE DATABASE {database}"))?;
        mark(&server).inspect_err(|_| {
            // Without its mark nobody could tell later whose it is. The first error says what is wrong.
            let _ = conversation.query(&format!("DROP DATABASE {database}"));
        })
    }

    fn drop_database(options: &OpenOptions) -> Result<(), DriverError> {
        let server = server_of(options)?;
        if !is_ours(&mut login::log_in(&server)?)? {
            return Err(not_ours(&server));
        }
        let elsewhere = Server { database: MAINTENANCE_DATABASE.to_owned(), ..server.clone() };
        let drop = format!("DROP DATABASE {}", quoted(&server.database));
        login::log_in(&elsewhere)?.query(&drop).map(|_| ())
    }

    fn noted_dataset(&self) -> Result<Option<String>, DriverError> {
        let noted = self.value(&format!("SELECT dataset FROM {MARKER}"))?;
        Ok(noted.filter(|dataset| !dataset.is_empty()))
    }

    fn note_dataset(&self, fingerprint: &str) -> Result<(), DriverError> {
        let dataset = fingerprint.replace('\'', "''");
        self.control()?.query(&format!("UPDATE {MARKER} SET dataset = '{dataset}'")).map(|_| ())
    }

    fn statement(&self, text: &str) -> Result<Option<u64>, DriverError> {
        let rows = self.control()?.query(text)?;
        let last = rows.into_iter().next().and_then(|row| row.into_iter().next_back()).flatten();
        Ok(last.and_then(|value| value.parse().ok()))
    }

    fn open(options: &OpenOptions) -> Result<Self, DriverError> {
        let server = server_of(options)?;
        let mut control = login::log_in(&server)?;
        control.query(
            "CREATE TABLE IF NOT EXISTS dbdyno_progress (id int PRIMARY KEY, progress bigint NOT NULL)",
        )?;
        let (control, opener) = (Mutex::new(control), Mutex::new(None));
        Ok(Postgres { server, client: options.client, control, opener })
    }

    fn receipt(&self) -> Result<Receipt, DriverError> {
        let version = self.value(&self.server.version_query)?.ok_or_else(|| {
            DriverError::new(format!(
                "postgres: \"{}\" returned no version; name a statement that does",
                self.server.version_query
            ))
        })?;
        let rows = self.control()?.query(&self.server.settings_query)?;
        let pair = |row: control::TextRow| {
            let mut values = row.into_iter().map(Option::unwrap_or_default);
            Some((values.next()?, values.next()?))
        };
        Ok(Receipt { version, settings: rows.into_iter().filter_map(pair).collect() })
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        let mut control = self.control()?;
        for table in 1..=tables {
            // Fillers are stored as they are: compressing them would make rows smaller than they claim to be.
            control.query(&format!(
                "CREATE TABLE IF NOT EXISTS t{table} \
                 (id bigint PRIMARY KEY, counter bigint NOT NULL, filler bytea NOT NULL); \
                 ALTER TABLE t{table} ALTER COLUMN filler SET STORAGE EXTERNAL"
            ))?;
        }
        Ok(())
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        self.value(&format!("SELECT max(id) FROM t{}", table + 1))?
            .map(|text| number(&text))
            .transpose()
    }

    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        let sql = format!("COPY t{} (id, counter, filler) FROM STDIN (FORMAT binary)", table + 1);
        let mut filler = Vec::new();
        self.control()?.copy_in(&sql, rows, |row, out| {
            fill(RowId { table, row }, &mut filler);
            out.extend_from_slice(&3u16.to_be_bytes());
            for number in [row, 0] {
                out.extend_from_slice(&8u32.to_be_bytes());
                out.extend_from_slice(&number.to_be_bytes());
            }
            out.extend_from_slice(&(filler.len() as u32).to_be_bytes());
            out.extend_from_slice(&filler);
        })
    }

    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        let mut control = self.control()?;
        let mut age = || {
            control.query("BEGIN")?;
            for batch in rows.chunks(AGE_BATCH) {
                let mut sql = String::new();
                for RowId { table, row } in batch {
                    let table = table + 1;
                    // Writing to a string cannot fail.
                    let _ =
                        write!(sql, "UPDATE t{table} SET counter = counter + 1 WHERE id = {row};");
                }
                control.query(&sql)?;
            }
            control.query(&format!(
                "INSERT INTO dbdyno_progress VALUES (1, {progress}) \
                 ON CONFLICT (id) DO UPDATE SET progress = {progress}"
            ))?;
            control.query("COMMIT")
        };
        let aged = age();
        if aged.is_err() {
            // The first error says what is wrong; that the connection is gone too would add nothing.
            let _ = control.query("ROLLBACK");
        }
        aged.map(|_| ())
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        let progress = self.value("SELECT progress FROM dbdyno_progress WHERE id = 1")?;
        progress.map_or(Ok(0), |text| number(&text))
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        let sql =
            format!("SELECT counter, encode(filler, 'hex') FROM t{} WHERE id = {row}", table + 1);
        let rows = self.control()?.query(&sql)?;
        let Some([Some(counter), Some(filler)]) = rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        Ok(Some(Row { counter: number(counter)?, filler: unhex(filler)? }))
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        let sum = self.value(&format!("SELECT sum(counter) FROM t{}", table + 1))?;
        sum.map_or(Ok(0), |text| number(&text))
    }

    fn settle(&self) -> Result<(), DriverError> {
        match self.control()?.query("CHECKPOINT") {
            // Some logins may not; their server then settles by itself, later.
            Err(error) if error.to_string().contains("(SQLSTATE 42501)") => Ok(()),
            done => done.map(|_| ()),
        }
    }

    fn connect(&self, tables: u16) -> Result<Self::Client, DriverError> {
        let ClientOptions { statements, transaction, .. } = self.client;
        let mut shared = self.opener.lock().unwrap_or_else(PoisonError::into_inner);
        let opener = match shared.take().filter(|opener| opener.tables == tables) {
            Some(opener) => opener,
            None => {
                let phrases = Arc::new(Phrases::new(tables, statements, transaction));
                let (server, client) = (self.server.clone(), self.client);
                Arc::new(Opener { server, client, tables, phrases })
            }
        };
        *shared = Some(opener.clone());
        drop(shared);
        Connection::open(opener, &self.client)
    }

    fn tables(&self) -> Option<&dyn Tables> {
        Some(self)
    }

    fn connect_to(&self, using: &SharedUse) -> Result<Self::Client, DriverError> {
        let index = using.index_name(0, 0);
        let indexes = format!("SELECT count(*) FROM pg_indexes WHERE indexname = '{index}'");
        let is_indexed = self.value(&indexes)?.is_some_and(|count| count != "0");
        let phrases = Arc::new(Phrases::of_schema(TablePhrases::new(using, is_indexed)));
        let (server, client) = (self.server.clone(), self.client);
        Connection::open(Arc::new(Opener { server, client, tables: 0, phrases }), &self.client)
    }

    fn threads(&self, clients: u32) -> u32 {
        self.client.threads_for(clients)
    }
}

/// A decimal number of any length, modulo 2^64: counters wrap, and so do their sums.
fn number(text: &str) -> Result<u64, DriverError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DriverError::new(format!("postgres: expected a number, not \"{text}\"")));
    }
    let number = digits
        .bytes()
        .fold(0u64, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    Ok(if text.starts_with('-') { number.wrapping_neg() } else { number })
}

fn unhex(text: &str) -> Result<Vec<u8>, DriverError> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| DriverError::new("postgres: a filler did not come back as hexadecimal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of counters wrap like counters, whatever sign and length the server gives them.
    #[test]
    fn numbers_wrap() {
        assert_eq!(number("-2"), Ok(u64::MAX - 1));
        assert_eq!(number("18446744073709551617"), Ok(1));
        assert_eq!(number("-18446744073709551617"), Ok(u64::MAX));
        assert!(number("many").is_err() && number("-").is_err());
        assert_eq!(unhex("00ff"), Ok(vec![0, 255]));
        assert!(unhex("0").is_err() && unhex("zz").is_err());
    }
}
