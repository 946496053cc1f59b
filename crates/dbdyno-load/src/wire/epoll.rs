//! The event queue that every kernel has: one call waits for many sockets at once, with a precise timeout, and each
//! answer costs one receive and one send.
//!
//! Connections are watched for edges: an event comes when bytes come, and not again for what was not read. So a receive
//! that fills its buffer, and one whose event tells of the end, reads again until there is nothing.

use super::Session;
use super::connection::{Link, Received, lost};
use super::queue::{Event, Queue};
use crate::clock::{Ns, SECOND};
use crate::outcome::{Failure, Outcome};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events that one wait can bring.
const EVENTS: usize = 256;
/// The receive buffer, which the connections of a thread share.
const RECEIVE_BYTES: usize = 64 << 10;
/// What tells that the other side has closed, or that the connection is broken.
const IS_OVER: libc::c_int = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
/// Above this the kernel's tolerance, a thousandth of the timeout, would show in send lateness; such a wait ends a
/// little early and the rest is waited for on its own.
const PRECISE_NS: Ns = 5_000_000;

/// A queue and room for what it brings.
pub(super) struct Epoll {
    queue: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// Whether the kernel knows `epoll_pwait2` (5.11); without it, timeouts are whole milliseconds.
    has_precise_wait: bool,
    buffer: Vec<u8>,
}

impl Epoll {
    /// An empty queue.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed; the result is checked before it is owned.
        let queue = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if queue < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        let queue = unsafe { OwnedFd::from_raw_fd(queue) };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let buffer = vec![0; RECEIVE_BYTES];
        Ok(Epoll { queue, events, has_precise_wait: true, buffer })
    }

    /// Tells the kernel what a socket is watched for.
    fn control(&self, what: i32, socket: RawFd, number: u64, flags: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: flags as u32, u64: number };
        // SAFETY: `event` is valid for the time of the call; the kernel copies it.
        match unsafe { libc::epoll_ctl(self.queue.as_raw_fd(), what, socket, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[inline]
    fn wait_precisely(&mut self, timeout_ns: Ns) -> i64 {
        if !self.has_precise_wait {
            // Rounded up: a wait that ends too early would spin for the rest of the millisecond.
            return self.wait_ms(timeout_ns.div_ceil(1_000_000).min(1_000_000) as libc::c_int);
        }
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / SECOND) as libc::time_t,
            tv_nsec: (timeout_ns % SECOND) as libc::c_long,
        };
        // SAFETY: `events` has room for EVENTS entries and `timeout` is valid; without a signal mask its size is 0.
        let found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.queue.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as libc::c_int,
                &timeout as *const libc::timespec,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if found < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            self.has_precise_wait = false;
            return self.wait_precisely(timeout_ns);
        }
        found
    }

    #[inline]
    fn wait_ms(&mut self, timeout_ms: libc::c_int) -> i64 {
        // SAFETY: `events` has room for EVENTS entries.
        let found = unsafe {
            libc::epoll_wait(
                self.queue.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as libc::c_int,
                timeout_ms,
            )
        };
        i64::from(found)
    }
}

/// What a connection is watched for, with room to send or without.
fn flags_of(wants_room: bool) -> libc::c_int {
    let room = if wants_room { libc::EPOLLOUT } else { 0 };
    libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET | room
}

impl Queue for Epoll {
    /// A socket that is closed leaves the queue by itself.
    fn watch(&mut self, number: usize, socket: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, number as u64, flags_of(false))
    }

    fn watch_signal(&mut self, number: u64, signal: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, signal, number, libc::EPOLLIN)
    }

    fn forget(&mut self, _: usize) {}

    #[inline]
    fn wait(&mut self, timeout_ns: Option<Ns>) -> io::Result<usize> {
        let found = match timeout_ns {
            None => self.wait_ms(-1),
            Some(long) if long > PRECISE_NS => self.wait_precisely(long - long / 512),
            Some(short) => self.wait_precisely(short),
        };
        usize::try_from(found).or_else(|_| match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        })
    }

    #[inline]
    fn event(&self, index: usize) -> Event {
        let event = self.events[index];
        let flags = event.events as libc::c_int;
        Event {
            number: event.u64,
            is_readable: flags & !libc::EPOLLOUT != 0,
            is_writable: flags & libc::EPOLLOUT != 0,
        }
    }

    #[inline]
    fn receive<S: Session>(
        &mut self,
        index: usize,
        link: &mut Link<S>,
        ended: &mut impl FnMut(Outcome, Ns),
    ) -> Result<Option<Ns>, Failure> {
        let is_over = self.events[index].events as libc::c_int & IS_OVER != 0;
        let mut last = None;
        loop {
            match link.receive(&mut self.buffer, ended)? {
                Received::Nothing => return Ok(last),
                Received::Bytes { now, may_be_more } => {
                    last = Some(now);
                    if !may_be_more && !is_over {
                        return Ok(last);
                    }
                }
            }
        }
    }

    #[inline]
    fn send<S: Session>(&mut self, number: usize, link: &mut Link<S>) -> Result<(), Failure> {
        let wants_room = !link.send()?;
        if wants_room != link.wants_room {
            link.wants_room = wants_room;
            let (socket, flags) = (link.stream.as_raw_fd(), flags_of(wants_room));
            let asked = self.control(libc::EPOLL_CTL_MOD, socket, number as u64, flags);
            asked.map_err(|_| lost(0))?;
        }
        Ok(())
    }
}
