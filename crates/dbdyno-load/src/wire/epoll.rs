//! The kernel's event queue, as far as the event loop needs it: wait for many sockets at once, with a precise timeout.

use crate::clock::{Ns, SECOND};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events that one wait can bring.
const EVENTS: usize = 256;
/// Above this the kernel's tolerance, a thousandth of the timeout, would show in send lateness; such a wait ends a
/// little early and the rest is waited for on its own.
const PRECISE_NS: Ns = 5_000_000;

/// A queue and room for what it brings.
pub(super) struct Epoll {
    queue: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// Whether the kernel knows `epoll_pwait2` (5.11); without it, timeouts are whole milliseconds.
    has_precise_wait: bool,
}

/// What can be done with a socket now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// The number that the socket was registered with.
    pub number: u64,
    /// Bytes, the end, or an error can be read.
    pub is_readable: bool,
    /// There is room to send.
    pub is_writable: bool,
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
        Ok(Epoll { queue, events, has_precise_wait: true })
    }

    /// Watches a socket for what can be read. One that is closed leaves the queue by itself.
    pub fn add(&self, socket: RawFd, number: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, number, false)
    }

    /// Watches a socket for room to send too, or no longer.
    pub fn watch_room(&self, socket: RawFd, number: u64, is_wanted: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, number, is_wanted)
    }

    fn control(&self, what: i32, socket: RawFd, number: u64, room: bool) -> io::Result<()> {
        let flags = if room { libc::EPOLLIN | libc::EPOLLOUT } else { libc::EPOLLIN };
        let mut event = libc::epoll_event { events: flags as u32, u64: number };
        // SAFETY: `event` is valid for the time of the call; the kernel copies it.
        match unsafe { libc::epoll_ctl(self.queue.as_raw_fd(), what, socket, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits until something can be done, for `timeout_ns` at most and possibly a little less. Returns the number of
    /// events, to be read with [`Epoll::event`]. A signal ends the wait with none.
    #[inline]
    pub fn wait(&mut self, timeout_ns: Ns) -> usize {
        let timeout_ns = match timeout_ns {
            long if long > PRECISE_NS => long - long / 512,
            short => short,
        };
        let found = match self.has_precise_wait {
            true => self.wait_precisely(timeout_ns),
            false => self.wait_ms(timeout_ns),
        };
        usize::try_from(found).unwrap_or(0)
    }

    #[inline]
    fn wait_precisely(&mut self, timeout_ns: Ns) -> i64 {
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
            return self.wait_ms(timeout_ns);
        }
        found
    }

    #[cold]
    fn wait_ms(&mut self, timeout_ns: Ns) -> i64 {
        // Rounded up: a wait that ends too early would spin for the rest of the millisecond.
        let timeout_ms = timeout_ns.div_ceil(1_000_000).min(1_000_000) as libc::c_int;
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

    /// Event number `index` of the last wait.
    #[inline]
    pub fn event(&self, index: usize) -> Event {
        let event = self.events[index];
        let flags = event.events as libc::c_int;
        Event {
            number: event.u64,
            is_readable: flags & !libc::EPOLLOUT != 0,
            is_writable: flags & libc::EPOLLOUT != 0,
        }
    }
}
