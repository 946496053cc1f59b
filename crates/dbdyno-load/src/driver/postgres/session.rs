//! The data plane's conversation: requests become messages, and messages become outcomes. Touches no socket.
//!
//! Prepared statements go out as bind, execute and sync in bytes made beforehand, in which only numbers are patched;
//! text goes out as a simple query. Either way each statement ends with the server's "ready for query".

use super::message::{HEADER_BYTES, ServerError, append, append_query, append_text, header};
use super::tables::{TablePhrases, value_in};
use crate::outcome::{Failure, FailureClass, Outcome};
use crate::server::{Statements, Transaction};
use crate::tables::Expected;
use crate::wire::{Broken, Session};
use dbdyno_workload::insert_benchmark::Purchase;
use dbdyno_workload::{Action, Request};
use std::collections::VecDeque;
use std::sync::Arc;

/// Statements per table: read, increment, assign.
pub(super) const STATEMENTS: [&str; 3] = ["read", "increment", "assign"];
/// Longest error message that is taken for one.
const ERROR_BYTES_MAX: usize = 1 << 20;
/// Longest row that is looked into.
const ROW_BYTES_MAX: usize = 1 << 16;

/// The text of a table's statement, with parameters.
pub(super) fn sql(table: u16, statement: usize) -> String {
    match statement {
        0 => format!("SELECT counter, filler FROM t{} WHERE id = $1", table + 1),
        1 => format!("UPDATE t{} SET counter = counter + 1 WHERE id = $1", table + 1),
        _ => format!("UPDATE t{} SET counter = $2 WHERE id = $1", table + 1),
    }
}

/// The name under which a table's statement is prepared.
pub(super) fn statement_name(table: u16, statement: usize) -> String {
    format!("{}{}", STATEMENTS[statement], table + 1)
}

/// What a statement is on the wire, but for its numbers.
enum Template {
    /// Bind, execute, sync; the row and the counter are eight bytes each at these places.
    Prepared { bytes: Box<[u8]>, row_at: usize, counter_at: usize },
    /// What comes before the counter and between counter and row; without a counter, all that comes before the row.
    Text { before: Box<[u8]>, between: Box<[u8]> },
}

impl Template {
    fn prepared(table: u16, statement: usize) -> Self {
        let parameters = if statement == 2 { 2 } else { 1 };
        let mut bytes = Vec::new();
        let (mut row_at, mut counter_at) = (0, 0);
        append(&mut bytes, b'B', |out| {
            append_text(out, "");
            append_text(out, &statement_name(table, statement));
            // All parameters are binary, and so are all results.
            out.extend_from_slice(&[0, 1, 0, 1, 0, parameters]);
            for place in [&mut row_at, &mut counter_at].into_iter().take(parameters.into()) {
                out.extend_from_slice(&8u32.to_be_bytes());
                *place = out.len();
                out.extend_from_slice(&[0; 8]);
            }
            out.extend_from_slice(&[0, 1, 0, 1]);
        });
        append(&mut bytes, b'E', |out| out.extend_from_slice(&[0; 5]));
        append(&mut bytes, b'S', |_| ());
        Template::Prepared { bytes: bytes.into(), row_at, counter_at }
    }

    fn text(table: u16, statement: usize) -> Self {
        let sql = sql(table, statement);
        let before_row = sql.trim_end_matches("$1");
        let (before, between) = before_row.split_once("$2").unwrap_or((before_row, ""));
        Template::Text { before: before.as_bytes().into(), between: between.as_bytes().into() }
    }

    /// Appends the statement with its numbers. Counters are unsigned here and signed in the table, bit for bit.
    #[inline]
    fn append(&self, row: u64, counter: Option<u64>, out: &mut Vec<u8>) {
        match self {
            Template::Prepared { bytes, row_at, counter_at } => {
                let start = out.len();
                out.extend_from_slice(bytes);
                let mut patch = |at: usize, number: u64| {
                    out[start + at..start + at + 8].copy_from_slice(&number.to_be_bytes());
                };
                patch(*row_at, row);
                if let Some(counter) = counter {
                    patch(*counter_at, counter);
                }
            }
            Template::Text { before, between } => append(out, b'Q', |out| {
                out.extend_from_slice(before);
                if let Some(counter) = counter {
                    append_digits(out, counter as i64);
                    out.extend_from_slice(between);
                }
                append_digits(out, row as i64);
                out.push(0);
            }),
        }
    }
}

/// Appends a number in decimal, without allocating on the way.
fn append_digits(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    let (mut digits, mut start, mut rest) = ([0; 20], 20, number.unsigned_abs());
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return out.extend_from_slice(&digits[start..]);
        }
    }
}

/// Everything that a connection can say, made once for all connections.
pub(super) struct Phrases {
    tables: Vec<[Template; 3]>,
    /// What is said of tables of a schema; a connection is to those or to tables of counters.
    of_schema: Option<TablePhrases>,
    transaction: Transaction,
    begin: Vec<u8>,
    commit: Vec<u8>,
    rollback: Vec<u8>,
}

impl Phrases {
    /// For requests to tables 0 to `tables` - 1.
    pub fn new(tables: u16, statements: Statements, transaction: Transaction) -> Self {
        let template = |table, statement| match statements {
            Statements::Prepared => Template::prepared(table, statement),
            Statements::Text => Template::text(table, statement),
        };
        let query = |sql| {
            let mut bytes = Vec::new();
            append_query(&mut bytes, sql);
            bytes
        };
        Phrases {
            tables: (0..tables).map(|table| [0, 1, 2].map(|it| template(table, it))).collect(),
            of_schema: None,
            transaction,
            begin: query("BEGIN"),
            commit: query("COMMIT"),
            rollback: query("ROLLBACK"),
        }
    }

    /// For requests to tables of a schema, each of which is a transaction.
    pub fn of_schema(phrases: TablePhrases) -> Self {
        let of_schema = Some(phrases);
        Phrases { of_schema, ..Phrases::new(0, Statements::Prepared, Transaction::Autocommit) }
    }

    /// What is said of tables of a schema.
    pub fn tables_of_schema(&self) -> Option<&TablePhrases> {
        self.of_schema.as_ref()
    }

    #[inline]
    fn append_statement(&self, request: &Request, purchase: &mut Purchase, out: &mut Vec<u8>) {
        if let Some(phrases) = &self.of_schema {
            return phrases.append(request, purchase, out);
        }
        let table = &self.tables[usize::from(request.table)];
        match request.action {
            Action::Read => table[0].append(request.row, None, out),
            Action::Increment => table[1].append(request.row, None, out),
            Action::Assign(counter) => table[2].append(request.row, Some(counter), out),
            _ => unreachable!("rows are asked for on connections to tables of a schema"),
        }
    }
}

/// How far the request is that the server is working on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// One statement that commits by itself.
    Alone,
    Begin,
    Statement,
    Commit,
    /// The failure is reported once the server has confirmed that the transaction is gone.
    Rollback(Failure),
}

/// One connection's conversation after the login.
pub struct PostgresSession {
    phrases: Arc<Phrases>,
    step: Step,
    /// Requests that the server has, or that wait for the transaction before them.
    under_way: VecDeque<Request>,
    /// Bytes of the current message that are still to come and mean nothing to us.
    skip: usize,
    /// What the current statement's answer has said so far.
    failure: Option<Failure>,
    rows: Option<u64>,
    is_committed: bool,
    /// What the answer to the oldest request must be, if it is to tables of a schema and has begun.
    expected: Option<Expected>,
    /// A buffer for a row.
    purchase: Purchase,
}

impl PostgresSession {
    pub(super) fn new(phrases: Arc<Phrases>, pipeline: u32) -> Self {
        PostgresSession {
            phrases,
            step: Step::Alone,
            under_way: VecDeque::with_capacity(pipeline.max(1) as usize),
            skip: 0,
            failure: None,
            rows: None,
            is_committed: false,
            expected: None,
            purchase: Purchase::default(),
        }
    }

    /// What the answer to the oldest request must be.
    fn expected(&mut self) -> Option<&mut Expected> {
        if self.expected.is_none() {
            let phrases = self.phrases.of_schema.as_ref()?;
            self.expected = Some(phrases.answer_to(self.under_way.front()?));
        }
        self.expected.as_mut()
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.step = Step::Begin;
        out.extend_from_slice(&self.phrases.begin);
    }

    /// The server has finished a statement: the request ends, or its next statement goes out.
    #[inline]
    fn ready(
        &mut self,
        status: u8,
        out: &mut Vec<u8>,
        ended: &mut impl FnMut(Outcome),
    ) -> Result<(), Broken> {
        let (failure, rows) = (self.failure.take(), self.rows.take());
        let Some(request) = self.under_way.front() else {
            return Err(broken("the server answers a request that was not made"));
        };
        if self.step == Step::Alone {
            let outcome = match (failure, self.expected()) {
                (Some(failure), _) => Outcome::Refused(failure),
                (None, Some(expected)) => expected.outcome(rows.unwrap_or(u64::MAX)),
                (None, None) => outcome_of(None, rows),
            };
            self.expected = None;
            self.under_way.pop_front();
            ended(outcome);
            return Ok(());
        }
        let is_committed = std::mem::take(&mut self.is_committed);
        match (self.step, failure) {
            (Step::Begin, None) => {
                self.step = Step::Statement;
                self.phrases.append_statement(request, &mut self.purchase, out);
            }
            (Step::Statement, failure) => match outcome_of(failure, rows) {
                Outcome::Acknowledged => {
                    self.step = Step::Commit;
                    out.extend_from_slice(&self.phrases.commit);
                }
                Outcome::Refused(failure) | Outcome::Unknown(failure) => {
                    self.step = Step::Rollback(failure);
                    out.extend_from_slice(&self.phrases.rollback);
                }
            },
            (Step::Commit, None) if is_committed => self.end(Outcome::Acknowledged, out, ended),
            (Step::Rollback(_), _) if status != b'I' => {
                return Err(broken("the server did not end a transaction that was rolled back"));
            }
            (Step::Rollback(failure), _) => self.end(Outcome::Refused(failure), out, ended),
            (_, failure) => self.end(Outcome::Refused(failure.unwrap_or(OTHER)), out, ended),
        }
        Ok(())
    }

    /// Ends the current transaction's request and begins the next one's.
    fn end(&mut self, outcome: Outcome, out: &mut Vec<u8>, ended: &mut impl FnMut(Outcome)) {
        self.under_way.pop_front();
        self.step = Step::Alone;
        if !self.under_way.is_empty() {
            self.begin(out);
        }
        ended(outcome);
    }
}

impl Session for PostgresSession {
    #[inline]
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) {
        let is_first = self.under_way.is_empty();
        self.under_way.push_back(*request);
        match self.phrases.transaction {
            Transaction::Autocommit => {
                self.phrases.append_statement(request, &mut self.purchase, out);
            }
            Transaction::BeginCommit if is_first => self.begin(out),
            Transaction::BeginCommit => {}
        }
    }

    #[inline]
    fn decode(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        ended: &mut impl FnMut(Outcome),
    ) -> Result<usize, Broken> {
        let mut at = 0;
        loop {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len() - at);
                self.skip -= skipped;
                at += skipped;
            }
            let Some(first) = bytes[at..].first_chunk::<HEADER_BYTES>() else { return Ok(at) };
            let Some((kind, length)) = header(*first) else {
                return Err(broken("the server sent a message with an impossible length"));
            };
            let message = HEADER_BYTES + length;
            match kind {
                b'D' if length <= ROW_BYTES_MAX && self.expected().is_some() => {}
                // Parsed, bound, closed, no rows, a row's description, parameters, suspended, a row, an empty query,
                // a notice, a changed setting, a notification: none of them says how the statement ended.
                b'1' | b'2' | b'3' | b'n' | b'T' | b't' | b's' | b'D' | b'I' | b'N' | b'S'
                | b'A' => {
                    self.skip = message;
                    continue;
                }
                b'C' | b'E' | b'Z' if length <= ERROR_BYTES_MAX => {}
                _ => return Err(broken("the server sent a message that does not belong here")),
            }
            let Some(body) = bytes.get(at + HEADER_BYTES..at + message) else { return Ok(at) };
            at += message;
            match kind {
                b'D' => {
                    if let Some(expected) = self.expected() {
                        expected.take(|column, kind| value_in(body, column, kind));
                    }
                }
                b'C' => {
                    self.rows = rows_of(body);
                    self.is_committed = body == b"COMMIT\0";
                }
                b'E' => {
                    let error = ServerError::parse(body);
                    if error.is_fatal {
                        return Err(Broken { message: error.text(), code: error.failure().code });
                    }
                    self.failure = Some(error.failure());
                }
                _ => self.ready(body.first().copied().unwrap_or(0), out, ended)?,
            }
        }
    }
}

const OTHER: Failure = Failure { class: FailureClass::Other, code: 0 };

#[inline]
fn outcome_of(failure: Option<Failure>, rows: Option<u64>) -> Outcome {
    match (failure, rows) {
        (Some(failure), _) => Outcome::Refused(failure),
        (None, Some(1)) => Outcome::Acknowledged,
        (None, Some(0)) => Outcome::Refused(Failure { class: FailureClass::NoSuchRow, code: 0 }),
        // Another number of rows cannot match a primary key; whatever was done, it was not what was asked.
        (None, _) => Outcome::Unknown(OTHER),
    }
}

/// The number at the end of a command tag, such as 1 in "UPDATE 1".
#[inline]
fn rows_of(tag: &[u8]) -> Option<u64> {
    let tag = tag.strip_suffix(b"\0")?;
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > 18 {
        return None;
    }
    let digits = &tag[tag.len() - digits..];
    Some(digits.iter().fold(0, |number, &digit| number * 10 + u64::from(digit - b'0')))
}

fn broken(message: &str) -> Broken {
    Broken { message: message.to_owned(), code: 0 }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
