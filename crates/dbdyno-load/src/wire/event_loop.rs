//! The event loop: one thread keeps many connections busy, over io_uring where that can be, over epoll elsewhere.
//!
//! A lane sends when one of its slots is free and its next request is due. With a schedule, lanes that are early wait in
//! a heap by due time, and the kernel's event queue waits no longer than for the first of them. Nothing here blocks
//! but that queue; what ends how is counted as [`crate::worker::work`] counts it. [`super::lane_state`] knows one lane.

use super::Session;
use super::connection::{Connection, Link, lost};
use super::epoll::Epoll;
use super::lane_state::LaneState;
use super::queue::{Queue, alarm_at};
use super::reconnect::Reconnector;
use super::uring::Uring;
use crate::clock::{self, Ns};
use crate::outcome::Failure;
use crate::recorder::Recorder;
use crate::server::EventQueue;
use crate::worker::{Lane, Limits, WorkerEnd};
use dbdyno_workload::RequestStream;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::AsRawFd;

/// The number under which the helper thread's bell is registered.
const BELL: u64 = u64::MAX;
/// The number under which the timer of giving up is registered.
const ALARM: u64 = u64::MAX - 1;

/// Runs the lanes of one thread, a connection each, until their schedules end.
pub(super) fn run<S: Session + 'static, R: RequestStream>(
    clients: &mut [Connection<S>],
    lanes: &mut [Lane<R>],
    recorder: &mut Recorder<'_>,
    limits: Limits,
) -> WorkerEnd {
    match uring_for(clients) {
        Some(uring) => EventLoop::new(clients, lanes, recorder, limits, uring).run(),
        None => {
            let epoll = Epoll::new().expect("the kernel gives every thread an event queue");
            EventLoop::new(clients, lanes, recorder, limits, epoll).run()
        }
    }
}

/// The queue of io_uring, if it is wanted, all connections are plain, and the kernel has it and lets us use it.
fn uring_for<S: Session>(clients: &[Connection<S>]) -> Option<Uring> {
    let is_wanted = |client: &Connection<S>| client.event_queue != EventQueue::Epoll;
    let is_plain = |client: &Connection<S>| {
        client.link.as_ref().is_some_and(|link| !link.stream.is_encrypted())
    };
    let can_be = clients.iter().all(|client| is_wanted(client) && is_plain(client));
    if can_be { Uring::new(clients.len()).ok() } else { None }
}

struct EventLoop<'a, 'recording, S, R, Q> {
    lanes: Vec<LaneState<'a, S, R>>,
    recorder: &'a mut Recorder<'recording>,
    limits: Limits,
    queue: Q,
    /// Lanes that wait for a due time, the first one on top. Each lane is here once at most.
    early: BinaryHeap<Reverse<(Ns, usize)>>,
    reconnector: Option<Reconnector<S>>,
    /// Lanes that have not finished.
    unfinished: usize,
    /// The last time that the clock was read: after a receive, a wait without events, or a send of the schedule.
    now: Ns,
}

impl<'a, 'recording, S: Session + 'static, R: RequestStream, Q: Queue>
    EventLoop<'a, 'recording, S, R, Q>
{
    fn new(
        clients: &'a mut [Connection<S>],
        lanes: &'a mut [Lane<R>],
        recorder: &'a mut Recorder<'recording>,
        limits: Limits,
        queue: Q,
    ) -> Self {
        let lanes: Vec<_> = clients
            .iter_mut()
            .zip(lanes)
            .map(|(client, lane)| LaneState::new(client, lane))
            .collect();
        EventLoop {
            unfinished: lanes.len(),
            early: BinaryHeap::with_capacity(lanes.len()),
            lanes,
            recorder,
            limits,
            queue,
            reconnector: None,
            now: 0,
        }
    }

    fn run(mut self) -> WorkerEnd {
        for number in 0..self.lanes.len() {
            self.watch(number);
        }
        self.now = clock::sleep_until(self.limits.start);
        for number in 0..self.lanes.len() {
            self.go_on(number);
            self.now = clock::now();
        }
        let alarm = alarm_at(self.limits.give_up).expect("the kernel gives every thread a timer");
        self.queue.watch_signal(ALARM, alarm.as_raw_fd()).expect("an event queue takes a timer");
        while self.unfinished > 0 && self.now < self.limits.give_up {
            let events = match self.queue.wait(self.timeout_ns()) {
                Ok(events) => events,
                Err(error) => return self.give_up_at(error),
            };
            if events == 0 {
                self.now = clock::now();
            }
            for index in 0..events {
                self.take_event(index);
            }
            self.send_due();
        }
        self.give_up(None)
    }

    /// Registers a lane's socket, or notes that there is none.
    fn watch(&mut self, number: usize) {
        let lane = &self.lanes[number];
        let watched = match &lane.connection.link {
            Some(link) => self.queue.watch(number, link.stream.as_raw_fd()).is_ok(),
            None => false,
        };
        if !watched {
            self.lose(number, lost(0));
        }
    }

    /// How long there is nothing to do without an event, if any lane waits for its time.
    #[inline]
    fn timeout_ns(&self) -> Option<Ns> {
        self.early.peek().map(|&Reverse((due, _))| due.saturating_sub(self.now))
    }

    #[inline]
    fn take_event(&mut self, index: usize) {
        let event = self.queue.event(index);
        match event.number {
            BELL => return self.take_reconnected(),
            ALARM => return self.now = clock::now(),
            _ => {}
        }
        let number = event.number as usize;
        if event.is_writable {
            self.send(number);
        }
        if event.is_readable {
            self.receive(number, index);
        }
    }

    /// Takes in what a connection has for us, as event number `index` says, and lets its lane go on.
    #[inline]
    fn receive(&mut self, number: usize, index: usize) {
        let lane = &mut self.lanes[number];
        let (link, mut ends) = lane.receiving(self.recorder, &self.limits);
        let Some(link) = link else { return };
        match self.queue.receive(index, link, &mut |outcome, now| ends.note(outcome, now)) {
            Ok(received) => self.now = received.unwrap_or(self.now),
            Err(failure) => {
                self.now = clock::now();
                return self.lose(number, failure);
            }
        }
        self.go_on(number);
    }

    /// Makes what requests a lane has slots for and are due, sends them, and puts the lane where it belongs next.
    #[inline]
    fn go_on(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        lane.make(self.now, self.recorder, &self.limits);
        if let Some(due) = lane.early_until(&self.limits) {
            self.early.push(Reverse((due, number)));
        }
        if lane.finishes(&self.limits) {
            self.unfinished -= 1;
        }
        self.send(number);
    }

    /// Has the queue send what a connection has to send.
    #[inline]
    fn send(&mut self, number: usize) {
        let Some(link) = &mut self.lanes[number].connection.link else { return };
        if !link.out.is_empty()
            && let Err(failure) = self.queue.send(number, link)
        {
            self.lose(number, failure);
        }
    }

    /// Lets those lanes go on whose next request has become due.
    #[inline]
    fn send_due(&mut self) {
        while let Some(&Reverse((due, number))) = self.early.peek() {
            if due > self.now {
                return;
            }
            self.early.pop();
            self.lanes[number].is_early = false;
            self.go_on(number);
            // The next lane's sending time, and what the following wait is counted from.
            self.now = clock::now();
        }
    }

    /// A connection is gone: what was under way is unknown, and another one is asked for.
    #[cold]
    fn lose(&mut self, number: usize, failure: Failure) {
        self.queue.forget(number);
        let lane = &mut self.lanes[number];
        lane.drop_link(failure, self.now, self.recorder, &self.limits);
        if lane.is_finished {
            return;
        }
        if lane.finishes(&self.limits) {
            self.unfinished -= 1;
            return;
        }
        if self.reconnector.is_none() {
            let reconnector = Reconnector::start().expect("there is room for a helper thread");
            let watched = self.queue.watch_signal(BELL, reconnector.bell());
            watched.expect("an event queue takes a new bell");
            self.reconnector = Some(reconnector);
        }
        if let Some(reconnector) = &self.reconnector {
            reconnector.ask(number, self.lanes[number].connection.opener.clone());
        }
    }

    /// Puts connections into use that the helper thread has opened.
    #[cold]
    fn take_reconnected(&mut self) {
        while let Some((number, link)) = self.take_link() {
            self.now = clock::now();
            let lane = &mut self.lanes[number];
            lane.connection.link = Some(link);
            lane.connection.reconnects += 1;
            self.watch(number);
            self.go_on(number);
        }
    }

    fn take_link(&self) -> Option<(usize, Link<S>)> {
        self.reconnector.as_ref()?.take()
    }

    /// The kernel serves no connection any more. It will not later either, so nothing is tried again.
    #[cold]
    fn give_up_at(mut self, error: io::Error) -> WorkerEnd {
        self.now = clock::now();
        self.give_up(Some(error.raw_os_error().unwrap_or(0)))
    }

    /// The end, whether all lanes have finished, time is up, or the queue has failed.
    fn give_up(mut self, queue_error: Option<i32>) -> WorkerEnd {
        let mut unsent = 0;
        for lane in self.lanes.iter_mut().filter(|lane| !lane.is_finished) {
            unsent += lane.give_up(self.now, self.recorder, &self.limits);
        }
        WorkerEnd { unsent, queue_error }
    }
}
