//! Statements outside measured time: one is sent as text, and its whole answer is waited for.

use super::Fault;
use super::login::{Channel, log_in};
use super::packet::{self, Fields, ServerError};
use crate::server::Server;
use crate::wire::stream::Stream;

/// How much of a statement an error shows.
const SHOWN_BYTES: usize = 80;

/// A value as text; `None` is NULL.
pub type Value = Option<Vec<u8>>;

/// What a statement answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Rows, if it has some.
    pub rows: Vec<Vec<Value>>,
    /// Rows that an update matched or an insert made.
    pub matched: u64,
}

/// A connection that waits for each answer.
pub struct Control {
    channel: Channel,
    /// The number that the next packet of an answer must have.
    sequence: u8,
}

impl Control {
    /// Connects and logs in. Statements may take as long as they need.
    ///
    /// # Errors
    /// See [`log_in`].
    pub fn open(server: &Server, with_database: bool) -> Result<Control, Fault> {
        let channel = log_in(server, with_database)?;
        channel.stream().wait_without_limit()?;
        Ok(Control { channel, sequence: 0 })
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// The server's, with the beginning of the statement.
    pub fn query(&mut self, statement: &[u8]) -> Result<Answer, Fault> {
        self.command(packet::QUERY, statement)?;
        self.answer().map_err(|fault| fault.at(shown(statement)))
    }

    /// Runs statements that answer without rows, sent together. Returns how many rows each matched.
    ///
    /// # Errors
    /// The server's for the first that failed; those behind it were run nevertheless.
    pub fn query_all(&mut self, statements: &[String]) -> Result<Vec<u64>, Fault> {
        let mut bytes = Vec::new();
        for statement in statements {
            packet::write_packet(&mut bytes, 0, |out| {
                out.push(packet::QUERY);
                out.extend_from_slice(statement.as_bytes());
            });
        }
        self.channel.write_packets(&bytes)?;
        let mut failed = None;
        let mut matched = Vec::with_capacity(statements.len());
        for statement in statements {
            self.sequence = 1;
            match self.answer() {
                Ok(answer) => matched.push(answer.matched),
                Err(fault) => {
                    let fault = fault.at(shown(statement.as_bytes()));
                    if fault.code == 0 {
                        return Err(fault);
                    }
                    failed.get_or_insert(fault);
                }
            }
        }
        failed.map_or(Ok(matched), Err)
    }

    /// Prepares a statement and returns its number on this connection.
    ///
    /// # Errors
    /// The server's, with the statement.
    pub fn prepare(&mut self, statement: &str) -> Result<u32, Fault> {
        self.command(packet::PREPARE, statement.as_bytes())?;
        self.prepared().map_err(|fault| fault.at(shown(statement.as_bytes())))
    }

    /// The socket alone, between two answers.
    pub fn into_stream(self) -> Stream {
        self.channel.into_stream()
    }

    fn command(&mut self, command: u8, argument: &[u8]) -> Result<(), Fault> {
        let mut bytes = Vec::with_capacity(argument.len() + 8);
        packet::write_packet(&mut bytes, 0, |out| {
            out.push(command);
            out.extend_from_slice(argument);
        });
        self.sequence = 1;
        self.channel.write_packets(&bytes)
    }

    fn read(&mut self) -> Result<Vec<u8>, Fault> {
        let (sequence, payload) = self.channel.read()?;
        if let Some(error) = ServerError::from(&payload) {
            return Err(error.into());
        }
        if sequence != self.sequence {
            return Err(Fault::new("packets of an answer are not in their order"));
        }
        self.sequence = self.sequence.wrapping_add(1);
        Ok(payload)
    }

    /// Leaves out what describes columns or parameters.
    fn skip_descriptions(&mut self, number: u64) -> Result<(), Fault> {
        for _ in 0..number {
            self.read()?;
        }
        match self.read()? {
            end if packet::is_end(&end) => Ok(()),
            _ => Err(Fault::new("the server describes more columns than it has announced")),
        }
    }

    fn answer(&mut self) -> Result<Answer, Fault> {
        let strange = || Fault::new("the server's answer cannot be read");
        let first = self.read()?;
        let mut answer = Answer::default();
        if first[0] == packet::OK {
            answer.matched = Fields(&first[1..]).number().ok_or_else(strange)?;
            return Ok(answer);
        }
        let columns = Fields(&first).number().ok_or_else(strange)?;
        self.skip_descriptions(columns)?;
        loop {
            let row = self.read()?;
            if packet::is_end(&row) {
                return Ok(answer);
            }
            let mut fields = Fields(&row);
            let values =
                (0..columns).map(|_| fields.value().map(|value| value.map(<[u8]>::to_vec)));
            answer.rows.push(values.collect::<Option<_>>().ok_or_else(strange)?);
        }
    }

    fn prepared(&mut self) -> Result<u32, Fault> {
        let first = self.read()?;
        let mut fields = Fields(&first);
        let numbers = match fields.u8() {
            Some(packet::OK) => (|| Some((fields.u32()?, fields.u16()?, fields.u16()?)))(),
            _ => None,
        };
        let (statement, columns, parameters) =
            numbers.ok_or_else(|| Fault::new("the server's answer cannot be read"))?;
        for descriptions in [parameters, columns].into_iter().filter(|&number| number > 0) {
            self.skip_descriptions(u64::from(descriptions))?;
        }
        Ok(statement)
    }
}

/// The beginning of a statement, for an error.
fn shown(statement: &[u8]) -> String {
    let text = String::from_utf8_lossy(&statement[..statement.len().min(SHOWN_BYTES)]);
    format!("{}{}", text, if statement.len() > SHOWN_BYTES { " ..." } else { "" })
}
