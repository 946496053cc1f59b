//! The conversation of a measured client: requests become commands, answers become outcomes.
//!
//! Numbers are patched into packets of a fixed form or written as digits; nothing is allocated once the buffers have
//! their size. A transaction is three commands, each sent when the one before has been answered.

use super::packet::{self, Fields, HEADER, Packet, ServerError, broken};
use super::table_speech::TableSpeech;
use super::{class_of, closes_connection};
use crate::outcome::{Failure, FailureClass, Outcome};
use crate::server::Transaction;
use crate::tables::Expected;
use crate::wire::{Broken, Session};
use dbdyno_workload::{Action, Request};
use std::collections::VecDeque;
use std::io::Write;

/// Numbers of a table's prepared statements on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStatements {
    /// Counter and filler of a row.
    pub read: u32,
    /// One more in its counter.
    pub increment: u32,
    /// A value in its counter.
    pub assign: u32,
}

/// How a session says what it wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Speech {
    /// By the numbers of prepared statements, for each table.
    Prepared(Vec<TableStatements>),
    /// As text.
    Text,
    /// About tables of a schema.
    OfSchema(TableSpeech),
}

/// Type and sign of a parameter: an unsigned number of eight bytes.
const UNSIGNED: [u8; 2] = [0x08, 0x80];
/// Bytes of an execution before its parameters' types: command, statement, flags, times, no NULLs, types follow.
const BEFORE_TYPES: usize = 1 + 4 + 1 + 4 + 1 + 1;
/// An execution with one parameter, and with two, with their headers.
const ONE: usize = HEADER + BEFORE_TYPES + 2 + 8;
const TWO: usize = HEADER + BEFORE_TYPES + 2 * (2 + 8);

/// An execution with `N - HEADER` bytes in which statement and values are still zero.
const fn template<const N: usize>(parameters: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let header = packet::header(N - HEADER, 0);
    let mut at = 0;
    while at < HEADER {
        bytes[at] = header[at];
        at += 1;
    }
    bytes[HEADER] = packet::EXECUTE;
    // Once.
    bytes[HEADER + 6] = 1;
    // Types follow.
    bytes[HEADER + BEFORE_TYPES - 1] = 1;
    let mut parameter = 0;
    while parameter < parameters {
        bytes[HEADER + BEFORE_TYPES + 2 * parameter] = UNSIGNED[0];
        bytes[HEADER + BEFORE_TYPES + 2 * parameter + 1] = UNSIGNED[1];
        parameter += 1;
    }
    bytes
}

const EXECUTE_ONE: [u8; ONE] = template(1);
const EXECUTE_TWO: [u8; TWO] = template(2);

fn write_execute_one(out: &mut Vec<u8>, statement: u32, value: u64) {
    let mut bytes = EXECUTE_ONE;
    bytes[HEADER + 1..HEADER + 5].copy_from_slice(&statement.to_le_bytes());
    bytes[ONE - 8..].copy_from_slice(&value.to_le_bytes());
    out.extend_from_slice(&bytes);
}

fn write_execute_two(out: &mut Vec<u8>, statement: u32, values: [u64; 2]) {
    let mut bytes = EXECUTE_TWO;
    bytes[HEADER + 1..HEADER + 5].copy_from_slice(&statement.to_le_bytes());
    bytes[TWO - 16..TWO - 8].copy_from_slice(&values[0].to_le_bytes());
    bytes[TWO - 8..].copy_from_slice(&values[1].to_le_bytes());
    out.extend_from_slice(&bytes);
}

fn write_query(out: &mut Vec<u8>, statement: std::fmt::Arguments<'_>) {
    packet::write_packet(out, 0, |out| {
        out.push(packet::QUERY);
        // Writing to a vector does not fail.
        let _ = out.write_fmt(statement);
    });
}

/// Where the oldest request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    Statement,
    Commit,
    /// The transaction is undone; then the request ends like this.
    Rollback(Outcome),
}

/// How far the answer to a command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Nothing yet.
    Start,
    /// So many descriptions of columns are still to come, and an end.
    Columns(u8),
    /// So many rows so far.
    Rows(u64),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Done; so many rows were matched or read.
    Done(u64),
    /// The server's error.
    Failed(u16),
}

/// One connection's conversation.
#[derive(Debug)]
pub struct MysqlSession {
    speech: Speech,
    transaction: Transaction,
    /// Requests under way, the oldest first.
    requests: VecDeque<Request>,
    step: Step,
    answer: Answer,
    /// The number that the next packet of the answer must have.
    sequence: u8,
    /// What the answer to the oldest request must be, if it is about tables of a schema and has begun.
    expected: Option<Expected>,
}

impl MysqlSession {
    /// A session with nothing under way, for up to `pipeline` requests.
    pub fn new(speech: Speech, transaction: Transaction, pipeline: u32) -> Self {
        let step = match transaction {
            Transaction::Autocommit => Step::Statement,
            Transaction::BeginCommit => Step::Begin,
        };
        let requests = VecDeque::with_capacity(pipeline.max(1) as usize);
        MysqlSession {
            speech,
            transaction,
            requests,
            step,
            answer: Answer::Start,
            sequence: 1,
            expected: None,
        }
    }

    fn write_statement(&mut self, request: &Request, out: &mut Vec<u8>) {
        let &Request { table, row, action, .. } = request;
        match &mut self.speech {
            Speech::OfSchema(speech) => speech.write(request, out),
            Speech::Prepared(tables) => {
                let statements = tables[usize::from(table)];
                match action {
                    Action::Read => write_execute_one(out, statements.read, row),
                    Action::Increment => write_execute_one(out, statements.increment, row),
                    Action::Assign(value) => {
                        write_execute_two(out, statements.assign, [value, row]);
                    }
                    _ => unreachable!("this connection is to tables of counters"),
                }
            }
            Speech::Text => {
                let table = u32::from(table) + 1;
                match action {
                    Action::Read => write_query(
                        out,
                        format_args!("SELECT counter, filler FROM t{table} WHERE id = {row}"),
                    ),
                    Action::Increment => write_query(
                        out,
                        format_args!("UPDATE t{table} SET counter = counter + 1 WHERE id = {row}"),
                    ),
                    Action::Assign(value) => write_query(
                        out,
                        format_args!("UPDATE t{table} SET counter = {value} WHERE id = {row}"),
                    ),
                    _ => unreachable!("this connection is to tables of counters"),
                }
            }
        }
    }

    /// Takes in one packet of an answer. Returns how the command ended, if it did.
    fn take(&mut self, payload: &[u8], request: &Request) -> Result<Option<End>, Broken> {
        let is_question = !matches!(
            request.action,
            Action::Increment | Action::Assign(_) | Action::Insert(_) | Action::Delete(_)
        );
        let has_rows = self.step == Step::Statement && is_question;
        if let Some(error) = ServerError::from(payload) {
            if closes_connection(error.code) {
                return Err(error.broken());
            }
            return Ok(Some(End::Failed(error.code)));
        }
        match self.answer {
            Answer::Start if has_rows => match payload {
                &[columns @ 1..=250] => self.answer = Answer::Columns(columns),
                _ => return Err(broken("the server answers a question without columns")),
            },
            Answer::Start => {
                let matched = payload.strip_prefix(&[packet::OK]);
                let matched = matched.and_then(|rest| Fields(rest).number());
                let strange = || broken("the server answers an update with something else");
                return Ok(Some(End::Done(matched.ok_or_else(strange)?)));
            }
            Answer::Columns(0) if packet::is_end(payload) => self.answer = Answer::Rows(0),
            Answer::Columns(0) => {
                return Err(broken("the server describes more columns than it has announced"));
            }
            Answer::Columns(left) => self.answer = Answer::Columns(left - 1),
            Answer::Rows(rows) if packet::is_end(payload) => return Ok(Some(End::Done(rows))),
            Answer::Rows(rows) => {
                self.answer = Answer::Rows(rows + 1);
                if let Speech::OfSchema(speech) = &self.speech {
                    let expected =
                        self.expected.get_or_insert_with(|| speech.using.answer_to(request));
                    expected.take(|column, _| speech.value_in(request, payload, column));
                }
            }
        }
        Ok(None)
    }

    /// Goes on after a command of the oldest request has ended.
    fn advance(
        &mut self,
        request: &Request,
        end: End,
        out: &mut Vec<u8>,
        ended: &mut impl FnMut(Outcome),
    ) -> Result<(), Broken> {
        let in_transaction = self.transaction == Transaction::BeginCommit;
        match (self.step, end) {
            (Step::Begin, End::Done(_)) => {
                self.step = Step::Statement;
                self.write_statement(request, out);
            }
            (Step::Begin, End::Failed(code)) => self.finish(refused(code), out, ended),
            (Step::Statement, end) => {
                let outcome = match (&self.speech, end) {
                    (Speech::OfSchema(speech), End::Done(rows)) => {
                        let expected = self.expected.take();
                        expected.unwrap_or_else(|| speech.using.answer_to(request)).outcome(rows)
                    }
                    _ => outcome_of_statement(end)?,
                };
                self.expected = None;
                if !in_transaction {
                    self.finish(outcome, out, ended);
                } else if outcome == Outcome::Acknowledged {
                    self.step = Step::Commit;
                    write_query(out, format_args!("COMMIT"));
                } else {
                    self.roll_back(outcome, out);
                }
            }
            (Step::Commit, End::Done(_)) => self.finish(Outcome::Acknowledged, out, ended),
            (Step::Commit, End::Failed(code)) => self.roll_back(outcome_of_commit(code), out),
            (Step::Rollback(outcome), End::Done(_)) => self.finish(outcome, out, ended),
            (Step::Rollback(_), End::Failed(code)) => {
                let message = format!("mysql: the server could not roll back (error {code})");
                return Err(Broken { message, code: i32::from(code) });
            }
        }
        Ok(())
    }

    fn roll_back(&mut self, outcome: Outcome, out: &mut Vec<u8>) {
        self.step = Step::Rollback(outcome);
        write_query(out, format_args!("ROLLBACK"));
    }

    /// Ends the oldest request and begins the next one's transaction.
    fn finish(&mut self, outcome: Outcome, out: &mut Vec<u8>, ended: &mut impl FnMut(Outcome)) {
        self.requests.pop_front();
        ended(outcome);
        if self.transaction == Transaction::BeginCommit {
            self.step = Step::Begin;
            if !self.requests.is_empty() {
                write_query(out, format_args!("BEGIN"));
            }
        }
    }
}

impl Session for MysqlSession {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) {
        match self.transaction {
            Transaction::Autocommit => self.write_statement(request, out),
            // One connection has one transaction at a time; the others wait for their turn here.
            Transaction::BeginCommit if self.requests.is_empty() => {
                write_query(out, format_args!("BEGIN"));
            }
            Transaction::BeginCommit => {}
        }
        self.requests.push_back(*request);
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        ended: &mut impl FnMut(Outcome),
    ) -> Result<usize, Broken> {
        let mut done = 0;
        while let Some(packet) = Packet::first_of(&bytes[done..])? {
            done += packet.length();
            let request = self.requests.front().copied();
            let is_expected = request.is_some() && packet.sequence == self.sequence;
            let (true, Some(request)) = (is_expected, request) else {
                // A server that shuts down or loses its patience says so without being asked.
                let error = ServerError::from(packet.payload);
                let unasked = || broken("the server sent what nobody asked for");
                return Err(error.map_or_else(unasked, |error| error.broken()));
            };
            self.sequence = self.sequence.wrapping_add(1);
            if let Some(end) = self.take(packet.payload, &request)? {
                (self.answer, self.sequence) = (Answer::Start, 1);
                self.advance(&request, end, out, ended)?;
            }
        }
        Ok(done)
    }
}

fn failure(code: u16) -> Failure {
    Failure { class: class_of(code), code: i32::from(code) }
}

fn refused(code: u16) -> Outcome {
    Outcome::Refused(failure(code))
}

/// The server's word that it could not finish a commit, which does not say how far it came.
const ERROR_DURING_COMMIT: u16 = 1180;

fn outcome_of_statement(end: End) -> Result<Outcome, Broken> {
    match end {
        End::Done(1) => Ok(Outcome::Acknowledged),
        End::Done(0) => Ok(Outcome::Refused(Failure { class: FailureClass::NoSuchRow, code: 0 })),
        End::Done(_) => Err(broken("the server found several rows with one primary key")),
        End::Failed(ERROR_DURING_COMMIT) => Ok(Outcome::Unknown(failure(ERROR_DURING_COMMIT))),
        End::Failed(code) => Ok(refused(code)),
    }
}

/// A commit that lost against other transactions did nothing; any other error may have come after the commit was
/// written.
fn outcome_of_commit(code: u16) -> Outcome {
    if class_of(code).is_passing() { refused(code) } else { Outcome::Unknown(failure(code)) }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
