//! One lane within the event loop: its connection, its requests under way, and how each of them ended.

use super::Session;
use super::connection::{Connection, Link, lost};
use crate::clock::Ns;
use crate::outcome::{Failure, Outcome};
use crate::recorder::{LATE_NS, Recorder, RequestTimes};
use crate::worker::{Lane, Limits, WAIT_NS};
use dbdyno_workload::{Request, RequestStream};
use std::collections::VecDeque;

/// A request that was made and has not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    request: Request,
    due: Ns,
    /// When its first attempt was sent.
    sent: Ns,
    attempts_left: u32,
}

/// A lane and what the event loop must know of it.
pub(super) struct LaneState<'a, S, R> {
    pub connection: &'a mut Connection<S>,
    lane: &'a mut Lane<R>,
    /// Requests that the server has, in order. Never longer than the pipeline.
    under_way: VecDeque<Made>,
    /// Requests that were refused and are to be sent again before new ones.
    again: VecDeque<Made>,
    /// When the next request is due, if that was asked already and the request was not made.
    next_due: Option<Ns>,
    /// When to ask again, if the lane's stream waits for other clients.
    asks_again: Option<Ns>,
    /// Whether the lane has been able to send since before its next request was due.
    was_idle: bool,
    /// Whether it stands in the heap of lanes that are early.
    pub is_early: bool,
    /// Whether its schedule has ended and every request too.
    pub is_finished: bool,
}

/// Where the ends of one lane's requests are noted.
pub(super) struct Ends<'a, 'recording, R> {
    stream: &'a mut R,
    under_way: &'a mut VecDeque<Made>,
    again: &'a mut VecDeque<Made>,
    recorder: &'a mut Recorder<'recording>,
    limits: &'a Limits,
}

impl<'a, S: Session, R: RequestStream> LaneState<'a, S, R> {
    pub fn new(connection: &'a mut Connection<S>, lane: &'a mut Lane<R>) -> Self {
        let pipeline = connection.pipeline;
        LaneState {
            connection,
            lane,
            under_way: VecDeque::with_capacity(pipeline),
            again: VecDeque::with_capacity(pipeline),
            next_due: None,
            asks_again: None,
            was_idle: false,
            is_early: false,
            is_finished: false,
        }
    }

    /// The two parts that work together while bytes are taken in.
    #[inline]
    pub fn receiving<'b, 'recording>(
        &'b mut self,
        recorder: &'b mut Recorder<'recording>,
        limits: &'b Limits,
    ) -> (Option<&'b mut Link<S>>, Ends<'b, 'recording, R>) {
        let ends = Ends {
            stream: &mut self.lane.stream,
            under_way: &mut self.under_way,
            again: &mut self.again,
            recorder,
            limits,
        };
        (self.connection.link.as_mut(), ends)
    }

    /// Makes requests while there are free slots and something is due.
    #[inline]
    pub fn make(&mut self, now: Ns, recorder: &mut Recorder<'_>, limits: &Limits) {
        if self.connection.link.is_none() {
            return;
        }
        while self.under_way.len() < self.connection.pipeline {
            let Some(made) =
                self.again.pop_front().or_else(|| self.make_next(now, recorder, limits))
            else {
                return;
            };
            if let Some(link) = &mut self.connection.link {
                link.session.encode(&made.request, &mut link.out);
            }
            self.under_way.push_back(made);
        }
    }

    /// The next request, if it is due.
    #[inline]
    fn make_next(&mut self, now: Ns, recorder: &mut Recorder<'_>, limits: &Limits) -> Option<Made> {
        let stream = &self.lane.stream;
        if !stream.is_over() && stream.is_waiting() && now < limits.end {
            self.asks_again = Some(now + WAIT_NS);
            return None;
        }
        let due = match stream.is_over() || stream.is_waiting() {
            true => limits.end,
            false => self.next_due.take().unwrap_or_else(|| self.lane.arrival.next_due(now)),
        };
        if due > now || due >= limits.end {
            self.next_due = Some(due);
            self.was_idle = true;
            return None;
        }
        let request = self.lane.stream.next();
        if self.was_idle {
            self.was_idle = false;
            if now - due > LATE_NS {
                recorder.sent_late(request.class);
            }
        }
        Some(Made { request, due, sent: now, attempts_left: limits.retries_max })
    }

    /// When the lane wants to go on, if it waits for a due time and does not yet stand in the heap.
    #[inline]
    pub fn early_until(&mut self, limits: &Limits) -> Option<Ns> {
        let due = match self.asks_again.take() {
            Some(moment) => moment.min(limits.end),
            None => self.next_due.filter(|&due| due < limits.end)?,
        };
        let is_new = !self.is_early && self.connection.link.is_some();
        self.is_early |= is_new;
        is_new.then_some(due)
    }

    /// Whether the lane has finished just now.
    #[inline]
    pub fn finishes(&mut self, limits: &Limits) -> bool {
        let is_over = self.next_due.is_some_and(|due| due >= limits.end)
            && self.under_way.is_empty()
            && self.again.is_empty();
        let finishes = is_over && !self.is_finished;
        self.is_finished |= is_over;
        finishes
    }

    /// Lets go of the connection: of what was under way nobody knows how it ended. The schedule goes on.
    pub fn drop_link(
        &mut self,
        failure: Failure,
        now: Ns,
        recorder: &mut Recorder<'_>,
        limits: &Limits,
    ) {
        self.connection.link = None;
        // From here on it is not the lane's own fault if it sends late.
        self.was_idle = false;
        for made in self.under_way.drain(..) {
            unknown(&mut self.lane.stream, recorder, &made, failure, now);
        }
        let due = self.next_due.take().unwrap_or_else(|| self.lane.arrival.next_due(now));
        // A closed loop's next request is due when there is a connection again, if that is before the end.
        let keeps_due = self.lane.arrival.is_open() || due >= limits.end;
        self.next_due = keeps_due.then_some(due);
    }

    /// Counts what the lane leaves undone.
    pub fn give_up(&mut self, now: Ns, recorder: &mut Recorder<'_>, limits: &Limits) -> u64 {
        self.is_finished = true;
        if !self.under_way.is_empty() {
            self.drop_link(lost(0), now, recorder, limits);
        }
        for made in self.again.drain(..) {
            self.lane.stream.refused(&made.request);
            recorder.refused(made.request.class);
        }
        if self.lane.stream.is_over() {
            return 0;
        }
        let next = self.next_due.filter(|&due| due < limits.end).map_or(0, |_| 1);
        next + self.lane.arrival.count_rest(now, limits.end)
    }
}

impl<R: RequestStream> Ends<'_, '_, R> {
    /// Notes how the request ended that has been under way for longest.
    #[inline]
    pub fn note(&mut self, outcome: Outcome, now: Ns) {
        // A session ends no more requests than it was given.
        let Some(made) = self.under_way.pop_front() else { return };
        if outcome == Outcome::Acknowledged {
            self.stream.acknowledged(&made.request);
            let times = RequestTimes { due: made.due, sent: made.sent, done: now };
            self.recorder.record(made.request.class, times);
        } else {
            self.note_failure(made, outcome, now);
        }
    }

    #[cold]
    fn note_failure(&mut self, mut made: Made, outcome: Outcome, now: Ns) {
        let class = made.request.class;
        match outcome {
            Outcome::Acknowledged => {}
            Outcome::Unknown(failure) => unknown(self.stream, self.recorder, &made, failure, now),
            Outcome::Refused(failure) => {
                self.recorder.failed_attempt(class, failure, now);
                let can_help = failure.class.is_passing() && now < self.limits.give_up;
                if can_help && made.attempts_left > 0 {
                    made.attempts_left -= 1;
                    self.recorder.retried(class);
                    self.again.push_back(made);
                } else {
                    self.stream.refused(&made.request);
                    self.recorder.refused(class);
                }
            }
        }
    }
}

/// Notes a request whose end nobody knows.
fn unknown<R: RequestStream>(
    stream: &mut R,
    recorder: &mut Recorder<'_>,
    made: &Made,
    failure: Failure,
    now: Ns,
) {
    stream.unknown(&made.request);
    recorder.failed_attempt(made.request.class, failure, now);
    recorder.unknown(made.request.class);
}
