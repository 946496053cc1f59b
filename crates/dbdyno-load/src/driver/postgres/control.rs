//! The control plane's connection: blocking, simple queries and bulk copies, outside of measured time.

use super::message::{HEADER_BYTES, ServerError, append, append_query, header};
use crate::driver::DriverError;
use crate::wire::stream::{OPENING_TIMEOUT, Stream};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

/// How many read timeouts a statement may last: an hour, because a checkpoint or a copy may take long.
const PATIENCE: u64 = 3600 / OPENING_TIMEOUT.as_secs();
/// Rows of a copy are sent in pieces of about this size.
const COPY_BYTES: usize = 256 << 10;

/// A row of a query's result, as text; `None` where a value is null.
pub(super) type TextRow = Vec<Option<String>>;

/// A blocking connection that speaks in whole messages.
pub(super) struct Conversation {
    stream: Stream,
    /// The body of the message that was received last.
    pub body: Vec<u8>,
    /// Read timeouts that a message may take.
    patience: u64,
}

impl Conversation {
    /// On a stream that is connected and, if wanted, encrypted. A server that does not answer is not waited for.
    pub fn new(stream: Stream) -> Self {
        Conversation { stream, body: Vec::new(), patience: 1 }
    }

    /// From here on statements may last long.
    pub fn be_patient(&mut self) {
        self.patience = PATIENCE;
    }

    /// The stream, of which nothing was read beyond the last message.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Whether the connection has something to read though nothing was asked: almost always its end.
    pub fn is_stale(&self) -> bool {
        let events = libc::POLLIN;
        let mut poll = libc::pollfd { fd: self.stream.as_raw_fd(), events, revents: 0 };
        // SAFETY: `poll` is one valid pollfd for the time of the call.
        unsafe { libc::poll(&mut poll, 1, 0) != 0 }
    }

    /// Sends whole messages.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), DriverError> {
        self.stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush())
            .map_err(|error| DriverError::new(format!("postgres: send to the server: {error}")))
    }

    /// Receives one message into `body` and returns its kind.
    pub fn receive(&mut self) -> Result<u8, DriverError> {
        let failed =
            |error| DriverError::new(format!("postgres: wait for the server's answer: {error}"));
        let mut first = [0; HEADER_BYTES];
        self.read_exact(&mut first).map_err(failed)?;
        let Some((kind, length)) = header(first) else {
            return Err(DriverError::new(
                "postgres: what answers does not speak PostgreSQL's protocol; check the address",
            ));
        };
        let mut body = std::mem::take(&mut self.body);
        body.resize(length, 0);
        let read = self.read_exact(&mut body);
        self.body = body;
        read.map(|()| kind).map_err(failed)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let (mut at, mut timeouts) = (0, 0);
        while at < bytes.len() {
            match self.stream.read(&mut bytes[at..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => at += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && timeouts + 1 < self.patience =>
                {
                    timeouts += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What the last message, an error, says; `what` was being done.
    pub fn error(&self, what: &str) -> DriverError {
        ServerError::parse(&self.body).into_driver_error(what)
    }

    /// Runs statements and returns their rows, all of them together. Several statements are one transaction.
    pub fn query(&mut self, sql: &str) -> Result<Vec<TextRow>, DriverError> {
        let mut message = Vec::new();
        append_query(&mut message, sql);
        self.send(&message)?;
        let shown: String = sql.chars().take(80).collect();
        let mut rows = Vec::new();
        self.until_ready(&shown, |kind, body| {
            if kind == b'D' {
                rows.push(row_of(body));
            }
        })?;
        Ok(rows)
    }

    /// Takes in messages until the server is ready for another statement; an error among them is returned then.
    pub fn until_ready(
        &mut self,
        what: &str,
        mut take: impl FnMut(u8, &[u8]),
    ) -> Result<(), DriverError> {
        let mut failed = None;
        loop {
            match self.receive() {
                Ok(b'E') => {
                    let error = self.error(what);
                    failed.get_or_insert(error);
                }
                Ok(b'Z') => return failed.map_or(Ok(()), Err),
                Ok(kind) => take(kind, &self.body),
                // After a fatal error the connection ends; what the server said before says more.
                Err(error) => return Err(failed.unwrap_or(error)),
            }
        }
    }

    /// Copies rows into a table in one statement: `rows` appends each row's fields in the server's binary form.
    pub fn copy_in(
        &mut self,
        sql: &str,
        rows: impl Iterator<Item = u64>,
        mut append_row: impl FnMut(u64, &mut Vec<u8>),
    ) -> Result<(), DriverError> {
        let mut message = Vec::new();
        append_query(&mut message, sql);
        self.send(&message)?;
        loop {
            match self.receive()? {
                b'G' => break,
                b'E' => {
                    let error = self.error(sql);
                    self.until_ready(sql, |_, _| ())?;
                    return Err(error);
                }
                _ => {}
            }
        }
        let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        for row in rows {
            append_row(row, &mut data);
            if data.len() >= COPY_BYTES {
                self.send_copy(&mut data, &mut message)?;
            }
        }
        data.extend_from_slice(&(-1i16).to_be_bytes());
        self.send_copy(&mut data, &mut message)?;
        message.clear();
        append(&mut message, b'c', |_| ());
        self.send(&message)?;
        self.until_ready(sql, |_, _| ())
    }

    fn send_copy(&mut self, data: &mut Vec<u8>, message: &mut Vec<u8>) -> Result<(), DriverError> {
        message.clear();
        append(message, b'd', |out| out.extend_from_slice(data));
        data.clear();
        self.send(message)
    }
}

/// The values of a row in text form. What is cut off counts as null.
fn row_of(body: &[u8]) -> TextRow {
    let Some((count, mut rest)) = body.split_first_chunk::<2>() else { return Vec::new() };
    let mut next = || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        let (value, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    (0..u16::from_be_bytes(*count)).map(|_| next()).collect()
}
