//! What the event loop needs of the kernel's event queues: [`super::epoll`] and [`super::uring`] each bring it.

use super::Session;
use super::connection::Link;
use crate::clock::{Ns, SECOND};
use crate::outcome::{Failure, Outcome};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Waits for many connections at once, and moves their bytes. Lanes are known by their numbers.
pub(super) trait Queue {
    /// Watches the socket of a lane's new connection for what can be read.
    fn watch(&mut self, number: usize, socket: RawFd) -> io::Result<()>;

    /// Watches something that is no connection, under a number that no lane has.
    fn watch_signal(&mut self, number: u64, signal: RawFd) -> io::Result<()>;

    /// Lets go of a lane's connection, which is about to be closed.
    fn forget(&mut self, number: usize);

    /// Waits until something can be done, for `timeout_ns` at most and possibly a little less, or without limit. Returns
    /// the number of events, to be read with [`Queue::event`]. A signal ends the wait with none.
    ///
    /// # Errors
    /// If the kernel refuses for good: the queue is of no use any more.
    fn wait(&mut self, timeout_ns: Option<Ns>) -> io::Result<usize>;

    /// Event number `index` of the last wait.
    fn event(&self, index: usize) -> Event;

    /// Takes in what event number `index` says has come, and calls `ended` for each request that ended. Returns when it
    /// was read, if anything was.
    fn receive<S: Session>(
        &mut self,
        index: usize,
        link: &mut Link<S>,
        ended: &mut impl FnMut(Outcome, Ns),
    ) -> Result<Option<Ns>, Failure>;

    /// Sends what a link has to send, at the next wait at the latest; the rest as soon as there is room.
    fn send<S: Session>(&mut self, number: usize, link: &mut Link<S>) -> Result<(), Failure>;
}

/// What can be done now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// The number of the lane or signal.
    pub number: u64,
    /// Bytes, the end, or an error can be read.
    pub is_readable: bool,
    /// There is room to send, which the lane has to be told.
    pub is_writable: bool,
}

/// A timer that becomes readable at `moment`. It costs nothing until then, where a timeout would be set up by the kernel
/// in each wait.
pub(super) fn alarm_at(moment: Ns) -> io::Result<OwnedFd> {
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
    let set =
        unsafe { libc::timerfd_settime(timer.as_raw_fd(), absolute, &at, std::ptr::null_mut()) };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(timer)
}
