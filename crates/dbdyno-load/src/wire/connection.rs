//! One connection to a server: socket, conversation and buffers, and how to open another one like it.
//!
//! A driver implements [`Open`] once and makes clients with [`Connection::open`]. [`Connection`] is the driver's
//! [`Client`]: one request at a time through `execute`, many connections of one thread through [`super::event_loop`].

use super::event_loop;
use super::stream::{OPENING_TIMEOUT, Stream};
use super::{Broken, Session};
use crate::clock::{self, Ns};
use crate::driver::{Client, ClientCounters, DriverError};
use crate::outcome::{Failure, FailureClass, Outcome};
use crate::recorder::Recorder;
use crate::server::{ClientOptions, EventQueue};
use crate::worker::{Lane, Limits, WorkerEnd};
use dbdyno_workload::{Request, RequestStream};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// What a connection that answers rarely in pieces needs at first for pieces, and for what it sends.
const BUFFER_BYTES: usize = 4 << 10;
/// Receive buffer of a single request.
const EXECUTE_BYTES: usize = 16 << 10;

/// Opens connections that are all alike: connect, encrypt, log in, prepare. Kept by every connection, so that a lost
/// one can be opened again, by a helper thread.
pub trait Open<S>: Send + Sync {
    /// A new connection that is ready for requests. Blocks; the event loop makes the socket non-blocking afterwards.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses the login or does not know the tables.
    fn open(&self) -> Result<(Stream, S), DriverError>;
}

/// A client of a server.
pub struct Connection<S> {
    pub(super) opener: Arc<dyn Open<S>>,
    /// Nothing while the connection is lost.
    pub(super) link: Option<Link<S>>,
    /// Requests that may be under way at a time.
    pub(super) pipeline: usize,
    pub(super) event_queue: EventQueue,
    pub(super) reconnects: u64,
}

impl<S: Session> Connection<S> {
    /// Opens a connection, with as many requests under way at a time as `options` say.
    ///
    /// # Errors
    /// The opener's.
    pub fn open(opener: Arc<dyn Open<S>>, options: &ClientOptions) -> Result<Self, DriverError> {
        let link = Link::open(&*opener)?;
        Ok(Connection {
            opener,
            link: Some(link),
            pipeline: options.pipeline.max(1) as usize,
            event_queue: options.event_queue,
            reconnects: 0,
        })
    }

    /// Opens the connection again if it was lost.
    fn linked(&mut self) -> Option<&mut Link<S>> {
        if self.link.is_none() {
            self.link = Some(Link::open(&*self.opener).ok()?);
            self.reconnects += 1;
        }
        self.link.as_mut()
    }
}

impl<S: Session + 'static> Client for Connection<S> {
    fn execute(&mut self, request: &Request) -> Outcome {
        let Some(link) = self.linked() else { return Outcome::Refused(lost(0)) };
        match link.execute(request) {
            Ok(outcome) => outcome,
            Err(failure) => {
                self.link = None;
                Outcome::Unknown(failure)
            }
        }
    }

    fn run<R: RequestStream>(
        clients: &mut [Self],
        lanes: &mut [Lane<R>],
        recorder: &mut Recorder<'_>,
        limits: Limits,
    ) -> WorkerEnd {
        event_loop::run(clients, lanes, recorder, limits)
    }

    fn counters(&self) -> ClientCounters {
        ClientCounters { reconnects: self.reconnects, ..ClientCounters::default() }
    }
}

/// The failure of everything that was under way on a connection that is gone.
pub(super) fn lost(code: i32) -> Failure {
    Failure { class: FailureClass::LostConnection, code }
}

fn lost_by_system(error: &io::Error) -> Failure {
    lost(error.raw_os_error().unwrap_or(0))
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        lost(broken.code)
    }
}

/// What one read brought.
pub(super) enum Received {
    /// Nothing is there yet.
    Nothing,
    /// Bytes, which were read at this time and are taken in.
    Bytes {
        /// When they were read.
        now: Ns,
        /// Whether another read may bring more, without waiting.
        may_be_more: bool,
    },
}

/// A connection that is up.
pub(super) struct Link<S> {
    pub stream: Stream,
    pub session: S,
    /// What is to be sent; the first `sent` bytes of it are.
    pub out: Vec<u8>,
    sent: usize,
    /// The beginning of a message whose end has not come yet.
    partial: Vec<u8>,
    /// Whether the socket is watched for room to send.
    pub wants_room: bool,
}

impl<S: Session> Link<S> {
    /// Opens a link and makes its socket non-blocking.
    pub fn open(opener: &dyn Open<S>) -> Result<Self, DriverError> {
        let (stream, session) = opener.open()?;
        stream
            .set_nonblocking()
            .map_err(|error| DriverError::new(format!("make a socket non-blocking: {error}")))?;
        let buffer = || Vec::with_capacity(BUFFER_BYTES);
        Ok(Link { stream, session, out: buffer(), sent: 0, partial: buffer(), wants_room: false })
    }

    /// Sends what is to be sent, as far as the socket takes it. Returns whether that was everything.
    #[inline]
    pub fn send(&mut self) -> Result<bool, Failure> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => break,
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost_by_system(&error)),
            }
        }
        if self.stream.is_encrypted() {
            match self.stream.flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
                Err(error) => return Err(lost_by_system(&error)),
                Ok(()) => {}
            }
        }
        let is_all = self.sent == self.out.len();
        if is_all {
            self.out.clear();
            self.sent = 0;
        }
        Ok(is_all)
    }

    /// Reads once, into a buffer that connections share, and calls `ended` for each request that ended, with the time.
    #[inline]
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        ended: &mut impl FnMut(Outcome, Ns),
    ) -> Result<Received, Failure> {
        let bytes = loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(lost(0)),
                Ok(bytes) => break bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Received::Nothing);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost_by_system(&error)),
            }
        };
        let now = clock::now();
        self.take_in(&buffer[..bytes], now, ended)?;
        // What an encrypted connection has already deciphered, no poll tells of.
        let may_be_more = bytes == buffer.len() || self.stream.is_encrypted();
        Ok(Received::Bytes { now, may_be_more })
    }

    /// Takes in bytes that were read at `now`, and calls `ended` for each request that ended.
    #[inline]
    pub fn take_in(
        &mut self,
        bytes: &[u8],
        now: Ns,
        ended: &mut impl FnMut(Outcome, Ns),
    ) -> Result<(), Failure> {
        let mut ended = |outcome| ended(outcome, now);
        if self.partial.is_empty() {
            let used = self.session.decode(bytes, &mut self.out, &mut ended)?;
            self.partial.extend_from_slice(&bytes[used..]);
        } else {
            self.partial.extend_from_slice(bytes);
            let used = self.session.decode(&self.partial, &mut self.out, &mut ended)?;
            self.partial.drain(..used);
        }
        Ok(())
    }

    /// One request, from its first byte to its end.
    fn execute(&mut self, request: &Request) -> Result<Outcome, Failure> {
        let mut buffer = [0; EXECUTE_BYTES];
        let mut end = None;
        self.session.encode(request, &mut self.out);
        loop {
            let is_all_sent = self.send()?;
            let received = self.receive(&mut buffer, &mut |outcome, _| end = Some(outcome))?;
            if let Some(outcome) = end {
                return Ok(outcome);
            }
            if matches!(received, Received::Nothing) {
                self.wait(is_all_sent)?;
            }
        }
    }

    /// Waits until the socket can be read or, if something is left to send, written.
    fn wait(&self, is_all_sent: bool) -> Result<(), Failure> {
        let events = if is_all_sent { libc::POLLIN } else { libc::POLLIN | libc::POLLOUT };
        let mut poll = libc::pollfd { fd: self.stream.as_raw_fd(), events, revents: 0 };
        let timeout_ms = OPENING_TIMEOUT.as_millis() as libc::c_int;
        // SAFETY: `poll` is one valid pollfd for the time of the call.
        match unsafe { libc::poll(&mut poll, 1, timeout_ms) } {
            0 => Err(lost(libc::ETIMEDOUT)),
            -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => Err(lost(0)),
            _ => Ok(()),
        }
    }
}
