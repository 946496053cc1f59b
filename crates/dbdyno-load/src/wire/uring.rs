//! The event queue of newer kernels: one call hands over all that is to be sent and receives all that has come.
//!
//! Every lane has a receive of its own under way, into its own part of one buffer. Sends never wait: they are done, or
//! have failed, when the call that hands them over returns, so that the kernel keeps none of their bytes. What the
//! socket did not take goes out once a poll has told of room. Needs Linux 6.1, and says so by failing to open.

use super::Session;
use super::connection::{Link, lost};
use super::queue::{Event, Queue};
use crate::clock::{self, Ns, SECOND};
use crate::outcome::{Failure, Outcome};
use io_uring::types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Bytes that one receive can bring. Not a power of two, so that lanes do not share cache sets.
const RECEIVE_BYTES: usize = (16 << 10) + 320;
/// Room for a lane's bytes to be sent, at first.
const SEND_BYTES: usize = 4 << 10;
/// More lanes than this on one thread are not for this queue: the kernel's rings have limits.
const LANES_MAX: usize = 8 << 10;
/// Requests that can be handed over at once; more are handed over in turns.
const ENTRIES_MAX: usize = 4 << 10;
/// `IORING_RECVSEND_POLL_FIRST`: the server has only just been asked, so a first try would find nothing.
const POLL_FIRST: u16 = 1;

/// How often the kernel is asked again to take what it could not take just now, and the pause in between.
const ATTEMPTS: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// What a completion is about stands in the upper half of its number; a signal's number is all ones there.
const RECEIVE: u64 = 0;
const SEND: u64 = 1 << 32;
const ROOM: u64 = 2 << 32;
const CANCEL: u64 = 3 << 32;
const KIND: u64 = 0xffff_ffff << 32;

/// A ring, and what the kernel reads and writes through it.
pub(super) struct Uring {
    ring: IoUring,
    lanes: Vec<Sending>,
    /// Where receives write: lane after lane. Not touched by us but between a receive's end and the next one.
    buffer: Vec<u8>,
    /// Lanes that have something to send at the next wait, each once.
    to_send: Vec<usize>,
    /// Lanes whose sockets have room again.
    with_room: Vec<usize>,
    /// What the last wait brought for the event loop.
    events: Vec<Completion>,
    /// When the last wait that brought something ended.
    now: Ns,
    /// Requests that will still have a completion.
    under_way: usize,
    /// The system's number for why the kernel takes nothing from the ring any more. Nothing is asked of it then.
    broken: Option<i32>,
}

/// The sending side of a lane.
struct Sending {
    socket: RawFd,
    /// What is to be sent; the first `sent` bytes of it are.
    out: Vec<u8>,
    sent: usize,
    /// How the last send failed, until that was looked at.
    failed: Option<i32>,
    /// Why nothing can be sent any more.
    error: i32,
    is_listed: bool,
    wants_room: bool,
}

#[derive(Clone, Copy)]
struct Completion {
    number: u64,
    result: i32,
}

impl Uring {
    /// For so many lanes, on this thread only.
    pub fn new(lanes: usize) -> io::Result<Self> {
        if lanes > LANES_MAX {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let entries = (2 * lanes + 8).next_power_of_two().min(ENTRIES_MAX) as u32;
        // Per lane a receive, a send that failed and a poll; and the signals.
        let completions = (3 * lanes + 8).next_power_of_two().max(2 * entries as usize);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(completions as u32)
            .build(entries)?;
        ring.submitter().register_files_sparse(lanes.max(1) as u32)?;
        let sending = || Sending {
            socket: -1,
            out: Vec::with_capacity(SEND_BYTES),
            sent: 0,
            failed: None,
            error: 0,
            is_listed: false,
            wants_room: false,
        };
        Ok(Uring {
            ring,
            lanes: (0..lanes).map(|_| sending()).collect(),
            buffer: vec![0; lanes * RECEIVE_BYTES],
            to_send: Vec::with_capacity(lanes),
            with_room: Vec::with_capacity(lanes),
            events: Vec::with_capacity(completions),
            now: 0,
            under_way: 0,
            broken: None,
        })
    }

    /// Puts a request into the ring, to be handed over with the next call.
    #[inline]
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what the entry points at stays where it is until the request has ended: a lane's part of the buffer,
        // which moves only once `drop` has seen all ends, or bytes to be sent, which nobody touches before the call
        // that sends them has returned.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            if self.make_room().is_err() {
                return;
            }
        }
    }

    /// Has the kernel take everything that is in the ring. What can pass is waited for, but not for ever.
    #[cold]
    fn make_room(&mut self) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            match self.ring.submit() {
                Err(error) if !can_pass(&error) => self.broken = error.raw_os_error(),
                Err(_) => std::thread::sleep(PAUSE),
                Ok(_) if self.ring.submission().is_empty() => return Ok(()),
                Ok(_) => {}
            }
            self.check()?;
        }
        self.broken = Some(libc::EAGAIN);
        self.check()
    }

    /// An error once the kernel has refused for good.
    #[inline]
    fn check(&self) -> io::Result<()> {
        self.broken.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
    }

    /// Asks for what a lane's server sends next.
    #[inline]
    fn ask_for_bytes(&mut self, number: usize, is_more_there: bool) {
        let part = self.buffer[number * RECEIVE_BYTES..][..RECEIVE_BYTES].as_mut_ptr();
        let receive = opcode::Recv::new(Fixed(number as u32), part, RECEIVE_BYTES as u32)
            .ioprio(if is_more_there { 0 } else { POLL_FIRST })
            .build()
            .user_data(RECEIVE | number as u64);
        self.under_way += 1;
        self.push(&receive);
    }

    /// Makes a send of everything that a lane has to send. It does not wait for room, and only a failure is reported:
    /// an error, or fewer bytes than there were.
    #[inline]
    fn push_send(&mut self, number: usize) {
        let lane = &self.lanes[number];
        let bytes = &lane.out[lane.sent..];
        if bytes.is_empty() {
            return;
        }
        let send = opcode::Send::new(Fixed(number as u32), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(SEND | number as u64);
        self.push(&send);
    }

    /// Hands everything over and waits for a completion, for `timeout_ns` at most or without limit.
    #[inline]
    fn enter(&mut self, timeout_ns: Option<Ns>) -> io::Result<usize> {
        match timeout_ns {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::new().sec(timeout / SECOND).nsec((timeout % SECOND) as u32);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        }
    }

    /// Sorts what has completed: ends of receives and signals are for the event loop.
    #[inline]
    fn collect(&mut self) {
        self.events.clear();
        for completion in self.ring.completion() {
            let (number, result) = (completion.user_data(), completion.result());
            let lane = (number & !KIND) as usize;
            match number & KIND {
                SEND => self.lanes[lane].failed = Some(result),
                ROOM => {
                    self.under_way -= 1;
                    self.with_room.push(lane);
                }
                CANCEL => self.under_way -= 1,
                _ => {
                    self.under_way -= usize::from(!cqueue::more(completion.flags()));
                    self.events.push(Completion { number, result });
                }
            }
        }
    }

    /// Looks at how sends ended, once the call that made them has returned.
    #[inline]
    fn note_sends(&mut self) {
        for index in 0..self.to_send.len() {
            let number = self.to_send[index];
            let lane = &mut self.lanes[number];
            lane.is_listed = false;
            match lane.failed.take() {
                None => {
                    lane.out.clear();
                    lane.sent = 0;
                }
                Some(result) => self.note_failed_send(number, result),
            }
        }
        self.to_send.clear();
        while let Some(number) = self.with_room.pop() {
            self.lanes[number].wants_room = false;
            self.list(number);
        }
    }

    /// A socket did not take everything: the rest must wait for room. Or it takes nothing any more, which a receive tells
    /// the event loop once the connection is shut.
    #[cold]
    fn note_failed_send(&mut self, number: usize, result: i32) {
        let lane = &mut self.lanes[number];
        lane.sent += usize::try_from(result).unwrap_or(0);
        if result < 0 && result != -libc::EAGAIN && result != -libc::EINTR {
            lane.error = -result;
            lane.out.clear();
            lane.sent = 0;
            shut(lane.socket);
            return;
        }
        lane.wants_room = true;
        let poll = opcode::PollAdd::new(Fixed(number as u32), libc::POLLOUT as u32);
        self.under_way += 1;
        self.push(&poll.build().user_data(ROOM | number as u64));
    }

    /// Has a lane send at the next wait, if it can.
    #[inline]
    fn list(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        if !lane.is_listed && !lane.wants_room && !lane.out.is_empty() {
            lane.is_listed = true;
            self.to_send.push(number);
        }
    }
}

/// Whether a refusal of the kernel says only that it was interrupted, timed out or short of room.
fn can_pass(error: &io::Error) -> bool {
    let passing = [libc::EINTR, libc::ETIME, libc::EAGAIN, libc::EBUSY, libc::ENOMEM];
    error.raw_os_error().is_some_and(|error| passing.contains(&error))
}

/// Ends a connection in both directions, which ends what is under way on it.
fn shut(socket: RawFd) {
    // SAFETY: no pointers are passed. A socket that is not connected any more needs no shutting.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}

impl Queue for Uring {
    fn watch(&mut self, number: usize, socket: RawFd) -> io::Result<()> {
        self.ring.submitter().register_files_update(number as u32, &[socket])?;
        let lane = &mut self.lanes[number];
        (lane.socket, lane.error) = (socket, 0);
        self.ask_for_bytes(number, true);
        Ok(())
    }

    fn watch_signal(&mut self, number: u64, signal: RawFd) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(signal), libc::POLLIN as u32).multi(true);
        self.under_way += 1;
        self.push(&poll.build().user_data(number));
        Ok(())
    }

    /// No receive is under way on the lane: the end of the last one is why it is let go.
    fn forget(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        lane.out.clear();
        lane.sent = 0;
        if lane.socket >= 0 {
            // A poll for room would otherwise keep the connection open.
            shut(lane.socket);
            lane.socket = -1;
            // If it fails, the ring keeps a socket that is shut until another takes its place.
            let _ = self.ring.submitter().register_files_update(number as u32, &[-1]);
        }
    }

    #[inline]
    fn wait(&mut self, timeout_ns: Option<Ns>) -> io::Result<usize> {
        for index in 0..self.to_send.len() {
            self.push_send(self.to_send[index]);
        }
        self.check()?;
        // A wait that ended early, by a signal or its time, has handed everything over; other failures have not.
        if let Err(error) = self.enter(timeout_ns)
            && !can_pass(&error)
        {
            self.broken = error.raw_os_error();
            return Err(error);
        }
        if !self.ring.submission().is_empty() {
            self.make_room()?;
        }
        self.collect();
        self.note_sends();
        if !self.events.is_empty() {
            self.now = clock::now();
        }
        Ok(self.events.len())
    }

    #[inline]
    fn event(&self, index: usize) -> Event {
        Event { number: self.events[index].number, is_readable: true, is_writable: false }
    }

    #[inline]
    fn receive<S: Session>(
        &mut self,
        index: usize,
        link: &mut Link<S>,
        ended: &mut impl FnMut(Outcome, Ns),
    ) -> Result<Option<Ns>, Failure> {
        let Completion { number, result } = self.events[index];
        let number = number as usize;
        let Ok(length @ 1..) = usize::try_from(result) else {
            if result == -libc::EAGAIN || result == -libc::EINTR {
                self.ask_for_bytes(number, false);
                return Ok(None);
            }
            let error = self.lanes[number].error;
            return Err(lost(if error == 0 { -result } else { error }));
        };
        let bytes = &self.buffer[number * RECEIVE_BYTES..][..length];
        link.take_in(bytes, self.now, ended)?;
        self.ask_for_bytes(number, length == RECEIVE_BYTES);
        Ok(Some(self.now))
    }

    #[inline]
    fn send<S: Session>(&mut self, number: usize, link: &mut Link<S>) -> Result<(), Failure> {
        let lane = &mut self.lanes[number];
        if lane.out.is_empty() {
            std::mem::swap(&mut lane.out, &mut link.out);
        } else {
            lane.out.append(&mut link.out);
        }
        self.list(number);
        Ok(())
    }
}

impl Drop for Uring {
    /// Waits until the kernel has let go of the buffer; if it does not, the buffer is left to it.
    fn drop(&mut self) {
        self.under_way += 1;
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::any());
        self.push(&cancel.build().user_data(CANCEL));
        let patience = clock::now() + SECOND;
        while self.under_way > 0 {
            let asked = self.check().and_then(|()| self.enter(Some(SECOND / 10)));
            let is_refused = asked.is_err_and(|error| !can_pass(&error));
            self.collect();
            if is_refused || clock::now() > patience {
                std::mem::forget(std::mem::take(&mut self.buffer));
                return;
            }
        }
        // The ring goes away some time after it is closed, and would keep sockets open until then.
        let _ = self.ring.submitter().unregister_files();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// A ring that the kernel serves no more, at the first wait and in the middle of handing over: an error, not a loop.
    #[test]
    fn a_ring_that_is_refused_ends_with_an_error() {
        for pushes in [0, 100] {
            // A host without io_uring has no ring that could fail.
            let Ok(mut ring) = Uring::new(1) else { return };
            let (ours, _theirs) = UnixStream::pair().expect("a pair");
            ring.watch(0, ours.as_raw_fd()).expect("is watched");
            assert_eq!(ring.wait(Some(1)).expect("the ring works"), 0);
            let other = File::open("/dev/null").expect("opens");
            // SAFETY: no memory is involved; the ring's descriptor stays the ring's to close, but leads elsewhere.
            unsafe { libc::dup2(other.as_raw_fd(), ring.ring.as_raw_fd()) };
            for _ in 0..pushes {
                ring.ask_for_bytes(0, true);
            }
            for _ in 0..2 {
                let error = ring.wait(None).expect_err("nothing is served");
                assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
            }
        }
    }
}
