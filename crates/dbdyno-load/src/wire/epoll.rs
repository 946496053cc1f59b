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

    /// Waits until something can be done, for `timeout_ns` at most and possibly a little less, or without limit. Returns
    /// the number of events, to be read with [`Epoll::event`]. A signal ends the wait with none.
    #[inline]
    pub fn wait(&mut self, timeout_ns: Option<Ns>) -> usize {
        let found = match timeout_ns {
            None => self.wait_ms(-1),
            Some(long) if long > PRECISE_NS => self.wait_precisely(long - long / 512),
            Some(short) => self.wait_precisely(short),
        };
        usize::try_from(found).unwrap_or(0)
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

    /// Makes an event with this number come at `moment`, whatever else comes, until the timer is dropped. It costs
    /// nothing until then, where a timeout would be set up by the kernel in each wait.
    pub fn alarm(&self, moment: Ns, number: u64) -> io::Result<OwnedFd> {
        // SAFETY: no pointers are passed; the result is checked before it is owned.
        let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if timer < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        let timer = unsafe { OwnedFd::from_raw_fd(timer) };
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let moment = moment.max(1);
        let at = libc::itimerspec {
            it_interval: never,
            it_value: libc::timespec {
                tv_sec: (moment / SECOND) as libc::time_t,
                tv_nsec: (moment % SECOND) as libc::c_long,
            },
        };
        let absolute = libc::TFD_TIMER_ABSTIME;
        // SAFETY: `at` is valid for the time of the call, and the old value is not asked for.
        let set = unsafe {
            libc::timerfd_settime(timer.as_raw_fd(), absolute, &at, std::ptr::null_mut())
        };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        self.add(timer.as_raw_fd(), number)?;
        Ok(timer)
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
